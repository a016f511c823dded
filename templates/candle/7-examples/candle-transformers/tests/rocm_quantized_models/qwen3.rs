//! Qwen3, as the example `quantized-qwen3` loads it.
use crate::agreement::{assert_agrees, Model};
use crate::gguf::{Formats, Gguf, HIDDEN};
use candle::quantized::gguf_file::{Content, Value};
use candle::{Device, Result};
use candle_transformers::models::quantized_qwen3::ModelWeights;
use std::path::Path;

pub const LAYERS: usize = 2;
pub const HEADS: usize = 4;
pub const KEY_HEADS: usize = 2;
/// Longer than its part of a token's vector, as in the models.
pub const HEAD: usize = 128;
const FEED_FORWARD: usize = 512;

/// What the file of a model says of it, and what stands before and behind its layers.
pub fn begin(gguf: &mut Gguf, architecture: &str) -> Result<()> {
    gguf.set(
        architecture,
        Value::U32,
        &[
            ("attention.head_count", HEADS as u32),
            ("attention.head_count_kv", KEY_HEADS as u32),
            ("attention.key_length", HEAD as u32),
            ("block_count", LAYERS as u32),
            ("embedding_length", HIDDEN as u32),
            ("context_length", 64),
        ],
    );
    gguf.set(
        architecture,
        Value::F32,
        &[
            ("attention.layer_norm_rms_epsilon", 1e-6),
            ("rope.freq_base", 1e6),
        ],
    );
    gguf.embeddings("token_embd.weight", 1.)?;
    gguf.output("output.weight", "token_embd.weight")?;
    gguf.norm("output_norm.weight", HIDDEN)
}

/// A layer without what feeds forward.
pub fn attention(gguf: &mut Gguf, layer: usize) -> Result<()> {
    for (name, rows, columns) in [
        ("attn_q", HEADS * HEAD, HIDDEN),
        ("attn_k", KEY_HEADS * HEAD, HIDDEN),
        ("attn_v", KEY_HEADS * HEAD, HIDDEN),
        ("attn_output", HIDDEN, HEADS * HEAD),
    ] {
        gguf.matrix(&format!("blk.{layer}.{name}.weight"), rows, columns, 1.)?;
    }
    for (name, length) in [
        ("attn_norm", HIDDEN),
        ("attn_q_norm", HEAD),
        ("attn_k_norm", HEAD),
        ("ffn_norm", HIDDEN),
    ] {
        gguf.norm(&format!("blk.{layer}.{name}.weight"), length)?;
    }
    Ok(())
}

fn gguf(formats: Formats) -> Result<Gguf> {
    let mut gguf = Gguf::new(formats);
    begin(&mut gguf, "qwen3")?;
    for layer in 0..LAYERS {
        attention(&mut gguf, layer)?;
        for (name, rows, columns) in [
            ("ffn_gate", FEED_FORWARD, HIDDEN),
            ("ffn_up", FEED_FORWARD, HIDDEN),
            ("ffn_down", HIDDEN, FEED_FORWARD),
        ] {
            gguf.matrix(&format!("blk.{layer}.{name}.weight"), rows, columns, 1.)?;
        }
    }
    Ok(gguf)
}

fn load(path: &Path, device: &Device) -> Result<Model> {
    let mut file = std::fs::File::open(path)?;
    let content = Content::read(&mut file)?;
    let mut qwen = ModelWeights::from_gguf(content, &mut file, device)?;
    Ok(Box::new(move |tokens, position| {
        qwen.forward(tokens, position)
    }))
}

#[test]
fn qwen3_q8_0() -> Result<()> {
    assert_agrees(&gguf(Formats::Q8_0)?, 7 * LAYERS + 1, load)
}

#[test]
fn qwen3_q4_k_m() -> Result<()> {
    assert_agrees(&gguf(Formats::Q4_K_M)?, 7 * LAYERS + 1, load)
}
