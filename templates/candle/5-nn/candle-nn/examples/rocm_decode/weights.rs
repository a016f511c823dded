//! Weights of a small llama that nobody has trained.
use super::model::{Config, Llama};
use candle::quantized::{GgmlDType, QMatMul, QTensor};
use candle::{DType, Device, Result, Tensor};
use candle_nn::VarBuilder;
use std::collections::HashMap;

pub const CONFIG: Config = Config {
    vocabulary: 320,
    hidden: 256,
    layers: 2,
    heads: 8,
    key_heads: 4,
    inner: 512,
    rope_theta: 10_000.,
    rms_norm_eps: 1e-5,
    capacity: 48,
};

/// What matrices are made of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Format {
    Plain(DType),
    /// Beside f32, in which everything else is.
    Quantized(GgmlDType),
}

/// A model that says something else for each prompt.
pub fn random_llama(format: Format, device: &Device) -> Result<Llama> {
    let mut state = 299_792_458u64;
    let mut random = |rows: usize, columns: usize| {
        let mut number = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            ((state >> 40) as f32 / (1 << 24) as f32 - 0.5) * 3.4 / (columns as f32).sqrt()
        };
        let numbers = (0..rows * columns).map(|_| number()).collect();
        Tensor::from_vec(numbers, (rows, columns), &Device::Cpu)
    };
    let Config {
        vocabulary,
        hidden,
        inner,
        ..
    } = CONFIG;
    let keys = CONFIG.key_heads * hidden / CONFIG.heads;
    let ones = Tensor::ones(hidden, DType::F32, &Device::Cpu)?;
    let mut weights = HashMap::from([
        ("model.norm.weight".to_string(), ones.clone()),
        (
            "model.embed_tokens.weight".to_string(),
            (random(vocabulary, hidden)? * 8.)?,
        ),
        ("lm_head.weight".to_string(), random(vocabulary, hidden)?),
    ]);
    for layer in 0..CONFIG.layers {
        let mut put = |name: &str, weight: Tensor| {
            weights.insert(format!("model.layers.{layer}.{name}.weight"), weight);
        };
        put("input_layernorm", ones.clone());
        put("post_attention_layernorm", ones.clone());
        for (name, rows, columns) in [
            ("self_attn.q_proj", hidden, hidden),
            ("self_attn.k_proj", keys, hidden),
            ("self_attn.v_proj", keys, hidden),
            ("self_attn.o_proj", hidden, hidden),
            ("mlp.gate_proj", inner, hidden),
            ("mlp.up_proj", inner, hidden),
            ("mlp.down_proj", hidden, inner),
        ] {
            put(name, random(rows, columns)?);
        }
    }
    let dtype = match format {
        Format::Plain(dtype) => dtype,
        Format::Quantized(_) => DType::F32,
    };
    let vb = VarBuilder::from_tensors(weights, dtype, device);
    let matrices = vb.clone();
    Llama::new(CONFIG, vb, |parts, columns| {
        let weights = parts
            .iter()
            .map(|(name, rows)| matrices.get((*rows, columns), name));
        let weight = Tensor::cat(&weights.collect::<Result<Vec<_>>>()?, 0)?;
        match format {
            Format::Plain(_) => Ok(QMatMul::Tensor(weight)),
            Format::Quantized(format) => QMatMul::from_qtensor(QTensor::quantize(&weight, format)?),
        }
    })
}
