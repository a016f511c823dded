//! llama, as the example `quantized` loads it.
use crate::agreement::{assert_agrees, Model};
use crate::gguf::{Formats, Gguf, HIDDEN};
use candle::quantized::gguf_file::{Content, Value};
use candle::{Device, Result};
use candle_transformers::models::quantized_llama::ModelWeights;
use std::path::Path;

const LAYERS: usize = 2;
const HEADS: usize = 4;
const KEY_HEADS: usize = 2;
const FEED_FORWARD: usize = 512;

pub fn gguf(formats: Formats) -> Result<Gguf> {
    let mut gguf = Gguf::new(formats);
    gguf.set(
        "llama",
        Value::U32,
        &[
            ("attention.head_count", HEADS as u32),
            ("attention.head_count_kv", KEY_HEADS as u32),
            ("block_count", LAYERS as u32),
            ("embedding_length", HIDDEN as u32),
            ("rope.dimension_count", (HIDDEN / HEADS) as u32),
        ],
    );
    gguf.set(
        "llama",
        Value::F32,
        &[("attention.layer_norm_rms_epsilon", 1e-5)],
    );
    gguf.embeddings("token_embd.weight", 1.)?;
    gguf.output("output.weight", "token_embd.weight")?;
    gguf.norm("output_norm.weight", HIDDEN)?;
    let keys = KEY_HEADS * HIDDEN / HEADS;
    for layer in 0..LAYERS {
        for (name, rows, columns) in [
            ("attn_q", HIDDEN, HIDDEN),
            ("attn_k", keys, HIDDEN),
            ("attn_v", keys, HIDDEN),
            ("attn_output", HIDDEN, HIDDEN),
            ("ffn_gate", FEED_FORWARD, HIDDEN),
            ("ffn_up", FEED_FORWARD, HIDDEN),
            ("ffn_down", HIDDEN, FEED_FORWARD),
        ] {
            gguf.matrix(&format!("blk.{layer}.{name}.weight"), rows, columns, 1.)?;
        }
        for name in ["attn_norm", "ffn_norm"] {
            gguf.norm(&format!("blk.{layer}.{name}.weight"), HIDDEN)?;
        }
    }
    Ok(gguf)
}

pub fn load(path: &Path, device: &Device) -> Result<Model> {
    let mut file = std::fs::File::open(path)?;
    let content = Content::read(&mut file)?;
    let mut llama = ModelWeights::from_gguf(content, &mut file, device)?;
    Ok(Box::new(move |tokens, position| {
        llama.forward(tokens, position)
    }))
}

fn agrees(formats: Formats) -> Result<()> {
    assert_agrees(&gguf(formats)?, 7 * LAYERS + 1, load)
}

#[test]
fn llama_q4_0() -> Result<()> {
    agrees(Formats::Q4_0)
}

#[test]
fn llama_q5_1() -> Result<()> {
    agrees(Formats::Q5_1)
}

#[test]
fn llama_q8_0() -> Result<()> {
    agrees(Formats::Q8_0)
}

#[test]
fn llama_q2_k() -> Result<()> {
    agrees(Formats::Q2_K)
}

#[test]
fn llama_q4_k_m() -> Result<()> {
    agrees(Formats::Q4_K_M)
}

#[test]
fn llama_q5_k_m() -> Result<()> {
    agrees(Formats::Q5_K_M)
}
