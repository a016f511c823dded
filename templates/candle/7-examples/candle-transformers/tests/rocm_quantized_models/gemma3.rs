//! Gemma 3, as the example `quantized-gemma` loads it.
use crate::agreement::{assert_agrees, Model};
use crate::gguf::{Formats, Gguf, HIDDEN};
use candle::quantized::gguf_file::{Content, Value};
use candle::{Device, Result};
use candle_transformers::models::quantized_gemma3::ModelWeights;
use std::path::Path;

/// One that sees a window, and one that sees everything.
const LAYERS: usize = 2;
const HEADS: usize = 8;
const KEY_HEADS: usize = 4;
const HEAD: usize = 32;
const FEED_FORWARD: usize = 512;

fn gguf(formats: Formats) -> Result<Gguf> {
    let mut gguf = Gguf::new(formats);
    gguf.set(
        "gemma3",
        Value::U32,
        &[
            ("attention.head_count", HEADS as u32),
            ("attention.head_count_kv", KEY_HEADS as u32),
            ("attention.key_length", HEAD as u32),
            ("attention.value_length", HEAD as u32),
            ("attention.sliding_window", 4),
            ("attention.sliding_window_type", LAYERS as u32),
            ("block_count", LAYERS as u32),
            ("embedding_length", HIDDEN as u32),
        ],
    );
    gguf.set(
        "gemma3",
        Value::F32,
        &[("attention.layer_norm_rms_epsilon", 1e-6)],
    );
    // The model multiplies them by the square root of their length, and they are its output too.
    gguf.embeddings("token_embd.weight", (HIDDEN as f64).sqrt().recip())?;
    gguf.norm("output_norm.weight", HIDDEN)?;
    for layer in 0..LAYERS {
        for (name, rows, columns) in [
            ("attn_q", HEADS * HEAD, HIDDEN),
            ("attn_k", KEY_HEADS * HEAD, HIDDEN),
            ("attn_v", KEY_HEADS * HEAD, HIDDEN),
            ("attn_output", HIDDEN, HEADS * HEAD),
            ("ffn_gate", FEED_FORWARD, HIDDEN),
            ("ffn_up", FEED_FORWARD, HIDDEN),
            ("ffn_down", HIDDEN, FEED_FORWARD),
        ] {
            gguf.matrix(&format!("blk.{layer}.{name}.weight"), rows, columns, 1.)?;
        }
        for (name, length) in [
            ("attn_norm", HIDDEN),
            ("attn_q_norm", HEAD),
            ("attn_k_norm", HEAD),
            ("post_attention_norm", HIDDEN),
            ("ffn_norm", HIDDEN),
            ("post_ffw_norm", HIDDEN),
        ] {
            gguf.norm(&format!("blk.{layer}.{name}.weight"), length)?;
        }
    }
    Ok(gguf)
}

fn load(path: &Path, device: &Device) -> Result<Model> {
    let mut file = std::fs::File::open(path)?;
    let content = Content::read(&mut file)?;
    let mut gemma = ModelWeights::from_gguf(content, &mut file, device)?;
    Ok(Box::new(move |tokens, position| {
        gemma.forward(tokens, position)
    }))
}

#[test]
fn gemma3_q4_0() -> Result<()> {
    assert_agrees(&gguf(Formats::Q4_0)?, 7 * LAYERS + 1, load)
}

#[test]
fn gemma3_q4_k_m() -> Result<()> {
    assert_agrees(&gguf(Formats::Q4_K_M)?, 7 * LAYERS + 1, load)
}
