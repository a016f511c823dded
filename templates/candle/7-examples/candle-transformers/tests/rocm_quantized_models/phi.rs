//! Phi-2, as the example `quantized-phi` loads it.
use crate::agreement::{assert_agrees, Model};
use crate::gguf::{Formats, Gguf, HIDDEN, VOCABULARY};
use candle::quantized::gguf_file::{Content, Value};
use candle::{Device, Result};
use candle_transformers::models::quantized_phi::ModelWeights;
use std::path::Path;

const LAYERS: usize = 2;
const HEADS: usize = 4;
const FEED_FORWARD: usize = 512;

fn gguf(formats: Formats) -> Result<Gguf> {
    let mut gguf = Gguf::new(formats);
    gguf.set(
        "phi2",
        Value::U32,
        &[
            ("attention.head_count", HEADS as u32),
            ("attention.head_count_kv", HEADS as u32),
            ("block_count", LAYERS as u32),
            ("embedding_length", HIDDEN as u32),
            ("rope.dimension_count", 32), // half a head
        ],
    );
    gguf.set(
        "phi2",
        Value::F32,
        &[("attention.layer_norm_epsilon", 1e-5)],
    );
    gguf.embeddings("token_embd.weight", 1.)?;
    gguf.output("output.weight", "token_embd.weight")?;
    gguf.plain("output.bias", &[VOCABULARY], 0.1)?;
    gguf.norm("output_norm.weight", HIDDEN)?;
    gguf.plain("output_norm.bias", &[HIDDEN], 0.1)?;
    for layer in 0..LAYERS {
        for (name, rows, columns) in [
            ("attn_qkv", 3 * HIDDEN, HIDDEN),
            ("attn_output", HIDDEN, HIDDEN),
            ("ffn_up", FEED_FORWARD, HIDDEN),
            ("ffn_down", HIDDEN, FEED_FORWARD),
        ] {
            gguf.matrix(&format!("blk.{layer}.{name}.weight"), rows, columns, 1.)?;
            gguf.plain(&format!("blk.{layer}.{name}.bias"), &[rows], 0.1)?;
        }
        gguf.norm(&format!("blk.{layer}.attn_norm.weight"), HIDDEN)?;
        gguf.plain(&format!("blk.{layer}.attn_norm.bias"), &[HIDDEN], 0.1)?;
    }
    Ok(gguf)
}

fn load(path: &Path, device: &Device) -> Result<Model> {
    let mut file = std::fs::File::open(path)?;
    let content = Content::read(&mut file)?;
    let mut phi = ModelWeights::from_gguf(content, &mut file, device)?;
    Ok(Box::new(move |tokens, position| {
        phi.forward(tokens, position)
    }))
}

#[test]
fn phi_q4_0() -> Result<()> {
    assert_agrees(&gguf(Formats::Q4_0)?, 4 * LAYERS + 1, load)
}

#[test]
fn phi_q4_k_m() -> Result<()> {
    assert_agrees(&gguf(Formats::Q4_K_M)?, 4 * LAYERS + 1, load)
}
