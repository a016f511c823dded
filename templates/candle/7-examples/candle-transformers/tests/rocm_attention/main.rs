//! Models whose attention Candle writes out by hand, and which is one kernel on ROCm: small ones with made-up weights say
//! there what they say on the CPU.
#![cfg(feature = "rocm")]

/// A loaded model as a `Model`.
macro_rules! model {
    ($loaded:expr) => {{
        let mut loaded = $loaded;
        let model: $crate::Model =
            Box::new(move |tokens, position| loaded.forward(tokens, position));
        Ok(model)
    }};
}

mod qwen3;

use candle::{DType, Device, Result, Tensor};
use candle_nn::{VarBuilder, VarMap};
use candle_transformers::models::{gemma, gemma2, gemma3, granite, mistral, mixtral, phi3, qwen2};
use serde::de::DeserializeOwned;
use std::collections::HashMap;

const PROMPT: &[u32] = &[1, 40, 7, 23, 7, 59, 31, 2, 17, 48, 5];
/// A prompt, and then tokens one by one.
const SINGLE: &[&[u32]] = &[PROMPT, &[11], &[60], &[0]];
/// A prompt, and then several tokens that see what came before.
const SEVERAL: &[&[u32]] = &[PROMPT, &[11], &[60, 3, 9], &[0]];

/// The logits behind the last of tokens (1, count), the first of which stands at that position.
pub(crate) type Model = Box<dyn FnMut(&Tensor, usize) -> Result<Tensor>>;

/// What weights of norms are.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Norms {
    Factors,
    /// Differences from 1.
    Differences,
}

/// What all of these models have, with their own entries in front of it.
pub(crate) fn config<C: DeserializeOwned>(own: &str) -> C {
    let entries = |text: &str| -> serde_json::Map<String, serde_json::Value> {
        serde_json::from_str(text).expect("entries")
    };
    let mut all = entries(
        r#"{"vocab_size": 61, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64,
        "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu"}"#,
    );
    all.extend(entries(&format!("{{{own}}}")));
    serde_json::from_value(all.into()).expect("a configuration")
}

/// Numbers between -1 and 1, scaled by the length of what they are multiplied with; those of norms make a factor of about 1.
fn weight(name: &str, shape: &[usize], norms: Norms) -> Result<Tensor> {
    let salt: usize = name.bytes().map(usize::from).sum();
    let count: usize = shape.iter().product();
    let number = |i: usize| ((i * 97 + i / 11 + salt * 31) % 255) as f32 / 127. - 1.;
    let numbers = Tensor::from_vec((0..count).map(number).collect(), shape, &Device::Cpu)?;
    match shape {
        [_] => numbers.affine(0.1, f64::from(u8::from(norms == Norms::Factors))),
        [_, inner @ ..] => numbers * (1.5 / (inner.iter().product::<usize>() as f64).sqrt()),
        [] => Ok(numbers),
    }
}

/// The logits of each step.
fn logits(
    load: impl Fn(VarBuilder) -> Result<Model>,
    (steps, norms): (&[&[u32]], Norms),
    dtype: DType,
    device: &Device,
) -> Result<Vec<Vec<f32>>> {
    // The names and shapes of its weights.
    let asked = VarMap::new();
    drop(load(VarBuilder::from_varmap(
        &asked,
        DType::F32,
        &Device::Cpu,
    ))?);
    let mut weights = HashMap::new();
    for (name, var) in asked.data().lock().unwrap().iter() {
        weights.insert(name.clone(), weight(name, var.dims(), norms)?);
    }
    let mut model = load(VarBuilder::from_tensors(weights, dtype, device))?;
    let mut position = 0;
    let steps = steps.iter().map(|tokens| {
        let input = Tensor::new(*tokens, device)?.unsqueeze(0)?;
        let logits = model(&input, position)?;
        position += tokens.len();
        assert!(logits.device().same_device(device));
        logits.flatten_all()?.to_dtype(DType::F32)?.to_vec1::<f32>()
    });
    steps.collect()
}

/// The largest difference from the CPU's logits in f32, relative to the largest of these.
fn off(
    load: impl Fn(VarBuilder) -> Result<Model>,
    case: (&[&[u32]], Norms),
    dtype: DType,
) -> Result<f32> {
    let found = logits(&load, case, dtype, &Device::new_rocm(0)?)?;
    let wanted = logits(&load, case, DType::F32, &Device::Cpu)?;
    let mut most = 0f32;
    for (found, wanted) in found.iter().zip(&wanted) {
        assert_eq!(found.len(), wanted.len());
        let largest = wanted.iter().fold(0f32, |most, x| most.max(x.abs()));
        assert!(largest > 0. && found.iter().chain(wanted).all(|x| x.is_finite()));
        let apart = found.iter().zip(wanted).map(|(x, y)| (x - y).abs());
        most = apart.fold(most, |most, apart| most.max(apart / largest));
    }
    Ok(most)
}

/// In f32, sums of 64 numbers, 30 behind one another; in f16, as many results that are rounded to 11 bits.
pub(crate) fn agrees(
    load: impl Fn(VarBuilder) -> Result<Model>,
    steps: &[&[u32]],
    norms: Norms,
) -> Result<()> {
    for (dtype, allowed) in [
        (DType::F32, 64. * 30. * f32::EPSILON),
        (DType::F16, 30. / 2048.),
    ] {
        let off = off(&load, (steps, norms), dtype)?;
        println!("{dtype:?}: off by {off:e}, {allowed:e} allowed");
        assert!(
            off <= allowed,
            "{dtype:?}: off by {off:e}, {allowed:e} allowed"
        );
    }
    Ok(())
}

/// Masks of tokens that see earlier ones are of two types there in f16, which is an error everywhere.
#[test]
fn qwen2_agrees() -> Result<()> {
    let config: qwen2::Config = config(
        r#""sliding_window": 64, "max_window_layers": 2, "tie_word_embeddings": true,
        "use_sliding_window": false"#,
    );
    let load = |vb: VarBuilder| model!(qwen2::ModelForCausalLM::new(&config, vb)?);
    agrees(load, SINGLE, Norms::Factors)
}

#[test]
fn mistral_agrees() -> Result<()> {
    // Tokens see five others and themselves.
    let config: mistral::Config = config(r#""sliding_window": 6, "use_flash_attn": false"#);
    let load = |vb: VarBuilder| model!(mistral::Model::new(&config, vb)?);
    agrees(load, SEVERAL, Norms::Factors)
}

/// In f16, which experts are asked may be another choice.
#[test]
fn mixtral_agrees() -> Result<()> {
    let config: mixtral::Config = config(
        r#""sliding_window": 64, "num_experts_per_tok": 2, "num_local_experts": 4,
        "use_flash_attn": false"#,
    );
    let load = |vb: VarBuilder| model!(mixtral::Model::new(&config, vb)?);
    let off = off(load, (SINGLE, Norms::Factors), DType::F32)?;
    assert!(off <= 64. * 30. * f32::EPSILON, "off by {off:e}");
    Ok(())
}

#[test]
fn phi3_agrees() -> Result<()> {
    let config: phi3::Config = config(r#""original_max_position_embeddings": null"#);
    let load = |vb: VarBuilder| model!(phi3::Model::new(&config, vb)?);
    agrees(load, SEVERAL, Norms::Factors)
}

#[test]
fn gemma_agrees() -> Result<()> {
    let config: gemma::Config = config(r#""attention_bias": false, "head_dim": 16"#);
    let load = |vb: VarBuilder| model!(gemma::Model::new(false, &config, vb)?);
    agrees(load, SEVERAL, Norms::Differences)
}

/// Scores have a soft cap.
#[test]
fn gemma2_agrees() -> Result<()> {
    let config: gemma2::Config = config(
        r#""attention_bias": false, "head_dim": 16, "hidden_activation": "gelu_pytorch_tanh",
        "final_logit_softcapping": 30.0, "attn_logit_softcapping": 5.0, "query_pre_attn_scalar": 16"#,
    );
    let load = |vb: VarBuilder| model!(gemma2::Model::new(false, &config, vb)?);
    agrees(load, SEVERAL, Norms::Differences)
}

/// Layers of two kinds, with rotations of their own. Their caches take keys of one head alone.
#[test]
fn gemma3_agrees() -> Result<()> {
    let config: gemma3::Config = config(
        r#""attention_bias": false, "head_dim": 16, "hidden_activation": "gelu_pytorch_tanh",
        "rope_local_base_freq": 10000.0, "query_pre_attn_scalar": 16, "sliding_window": 64,
        "sliding_window_pattern": 2, "num_key_value_heads": 1"#,
    );
    let load = |vb: VarBuilder| model!(gemma3::Model::new(false, &config, vb)?);
    agrees(load, SINGLE, Norms::Differences)
}

#[test]
fn granite_agrees() -> Result<()> {
    let config: granite::GraniteConfig = config(r#""bos_token_id": 1"#);
    let config = config.into_config(false);
    let load = |vb: VarBuilder| -> Result<Model> {
        let mut cache = granite::Cache::new(true, vb.dtype(), &config, vb.device())?;
        let model = granite::Granite::load(vb, &config)?;
        Ok(Box::new(move |tokens, position| {
            model.forward(tokens, position, &mut cache)
        }))
    };
    agrees(load, SINGLE, Norms::Factors)
}
