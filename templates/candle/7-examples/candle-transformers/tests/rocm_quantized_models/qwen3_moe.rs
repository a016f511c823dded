//! Qwen3 with a mixture of experts, as the examples `quantized-qwen3-moe` and `qwen` load it.
use crate::agreement::{assert_agrees, off, on_both, Model};
use crate::gguf::{Formats, Gguf, HIDDEN, VOCABULARY};
use crate::qwen3::{attention, begin, HEAD, HEADS, KEY_HEADS, LAYERS};
use candle::quantized::gguf_file::{Content, Value};
use candle::{DType, Device, Result};
use candle_nn::{Activation, VarBuilder};
use candle_transformers::models::quantized_qwen3_moe::GGUFQWenMoE;
use candle_transformers::models::qwen3_moe::{Config, ModelForCausalLM};
use std::collections::HashMap;
use std::path::Path;

const EXPERTS: usize = 5;
/// Of a token.
const CHOSEN: usize = 2;
const FEED_FORWARD: usize = 256;

fn gguf(formats: Formats) -> Result<Gguf> {
    let mut gguf = Gguf::new(formats);
    // Read from the file, as of no other model here.
    let name = |name: &str| Value::String(name.to_string());
    gguf.set("general", name, &[("architecture", "qwen3moe")]);
    begin(&mut gguf, "qwen3moe")?;
    gguf.set(
        "qwen3moe",
        Value::U32,
        &[
            ("expert_count", EXPERTS as u32),
            ("expert_used_count", CHOSEN as u32),
            ("expert_feed_forward_length", FEED_FORWARD as u32),
        ],
    );
    for layer in 0..LAYERS {
        attention(&mut gguf, layer)?;
        let name = |of: &str| format!("blk.{layer}.{of}.weight");
        // So far apart that what the products round decides about experts of little weight only.
        gguf.plain(&name("ffn_gate_inp"), &[EXPERTS, HIDDEN], 0.25)?;
        for (of, rows, columns) in [
            ("ffn_gate_exps", FEED_FORWARD, HIDDEN),
            ("ffn_up_exps", FEED_FORWARD, HIDDEN),
            ("ffn_down_exps", HIDDEN, FEED_FORWARD),
        ] {
            gguf.matrices(&name(of), &[EXPERTS, rows, columns], 1.)?;
        }
    }
    Ok(gguf)
}

/// The model of the numbers that the file's blocks stand for, as Candle loads it from safetensors.
fn dense(path: &Path, device: &Device) -> Result<Model> {
    let mut file = std::fs::File::open(path)?;
    let content = Content::read(&mut file)?;
    let mut tensors = HashMap::new();
    let mut read = |name: String| -> Result<_> {
        let tensor = content.tensor(&mut file, &name, &Device::Cpu)?;
        tensor.dequantize(&Device::Cpu)
    };
    for (theirs, ours) in [
        ("token_embd", "model.embed_tokens"),
        ("output_norm", "model.norm"),
        ("output", "lm_head"),
    ] {
        tensors.insert(format!("{ours}.weight"), read(format!("{theirs}.weight"))?);
    }
    for layer in 0..LAYERS {
        let (theirs, ours) = (format!("blk.{layer}"), format!("model.layers.{layer}"));
        for (from, to) in [
            ("attn_q", "self_attn.q_proj"),
            ("attn_k", "self_attn.k_proj"),
            ("attn_v", "self_attn.v_proj"),
            ("attn_output", "self_attn.o_proj"),
            ("attn_q_norm", "self_attn.q_norm"),
            ("attn_k_norm", "self_attn.k_norm"),
            ("attn_norm", "input_layernorm"),
            ("ffn_norm", "post_attention_layernorm"),
            ("ffn_gate_inp", "mlp.gate"),
        ] {
            tensors.insert(
                format!("{ours}.{to}.weight"),
                read(format!("{theirs}.{from}.weight"))?,
            );
        }
        for projection in ["gate", "up", "down"] {
            let all = read(format!("{theirs}.ffn_{projection}_exps.weight"))?;
            for expert in 0..EXPERTS {
                tensors.insert(
                    format!("{ours}.mlp.experts.{expert}.{projection}_proj.weight"),
                    all.get(expert)?,
                );
            }
        }
    }
    let config = Config {
        vocab_size: VOCABULARY,
        hidden_size: HIDDEN,
        intermediate_size: FEED_FORWARD,
        num_hidden_layers: LAYERS,
        num_attention_heads: HEADS,
        head_dim: HEAD,
        attention_bias: false,
        num_key_value_heads: KEY_HEADS,
        max_position_embeddings: 64,
        sliding_window: None,
        max_window_layers: LAYERS,
        tie_word_embeddings: false,
        rope_theta: 1e6,
        rms_norm_eps: 1e-6,
        use_sliding_window: false,
        hidden_act: Activation::Silu,
        decoder_sparse_step: 1,
        moe_intermediate_size: FEED_FORWARD,
        num_experts_per_tok: CHOSEN,
        num_experts: EXPERTS,
        norm_topk_prob: true,
    };
    let weights = VarBuilder::from_tensors(tensors, DType::F32, device);
    let mut qwen = ModelForCausalLM::new(&config, weights)?;
    Ok(Box::new(move |tokens, position| {
        qwen.forward(tokens, position)
    }))
}

/// Of the blocks on ROCm. Candle's CPU cannot multiply rows with experts' blocks: there it is the model of their numbers.
fn load(path: &Path, device: &Device) -> Result<Model> {
    if device.is_cpu() {
        return dense(path, device);
    }
    let mut file = std::fs::File::open(path)?;
    let content = Content::read(&mut file)?;
    let mut qwen = GGUFQWenMoE::from_gguf(content, &mut file, device, DType::F32)?;
    Ok(Box::new(move |tokens, position| {
        qwen.forward(tokens, position)
    }))
}

/// Compares the logits of a model in f32 with the CPU's. Sums of at most so many products each are off by a rounding for
/// every one at most, which errors of several layers do not reach in the mean.
fn assert_agrees_in_f32(
    gguf: &Gguf,
    products: usize,
    load: impl Fn(&Path, &Device) -> Result<Model>,
) -> Result<()> {
    let [on_rocm, on_cpu] = on_both(gguf, load)?;
    let allowed = products as f32 / (1 << 24) as f32;
    for (step, (found, wanted)) in on_rocm.iter().zip(&on_cpu).enumerate() {
        let off = off(found, wanted);
        println!("step {step}: off by {off:e}");
        assert!(off <= allowed, "step {step}: off by {off:e}");
    }
    Ok(())
}

#[test]
fn qwen3_moe_in_f32() -> Result<()> {
    assert_agrees_in_f32(&gguf(Formats::Q8_0)?.exact()?, HEADS * HEAD, dense)
}

#[test]
fn qwen3_moe_q8_0() -> Result<()> {
    assert_agrees(&gguf(Formats::Q8_0)?, 7 * LAYERS + 1, load)
}

#[test]
fn qwen3_moe_q4_k_m() -> Result<()> {
    assert_agrees(&gguf(Formats::Q4_K_M)?, 7 * LAYERS + 1, load)
}
