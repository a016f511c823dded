//! Whisper, as the example `whisper` loads it with `--quantized`.
use crate::agreement::{assert_agrees, Model};
use crate::gguf::{numbers, Formats, Gguf, HIDDEN, VOCABULARY};
use candle::quantized::GgmlDType;
use candle::{Device, Result, Tensor};
use candle_transformers::models::whisper::quantized_model::{VarBuilder, Whisper};
use candle_transformers::models::whisper::Config;
use std::path::Path;

/// Numbers of a moment of sound, moments of sound, and those that the encoder sees: half as many.
const BINS: usize = 20;
const MOMENTS: usize = 30;
const SOURCE: usize = MOMENTS / 2;
/// The most tokens.
const TARGET: usize = 32;

fn config() -> Config {
    Config {
        num_mel_bins: BINS,
        max_source_positions: SOURCE,
        d_model: HIDDEN,
        encoder_attention_heads: 4,
        encoder_layers: 1,
        vocab_size: VOCABULARY,
        max_target_positions: TARGET,
        decoder_attention_heads: 4,
        decoder_layers: 1,
        suppress_tokens: vec![],
    }
}

fn linear(gguf: &mut Gguf, name: &str, rows: usize, columns: usize) -> Result<()> {
    gguf.plain(&format!("{name}.bias"), &[rows], 0.1)?;
    gguf.matrix(&format!("{name}.weight"), rows, columns, 1.)
}

fn norm(gguf: &mut Gguf, name: &str) -> Result<()> {
    gguf.plain(&format!("{name}.bias"), &[HIDDEN], 0.1)?;
    gguf.norm(&format!("{name}.weight"), HIDDEN)
}

fn attention(gguf: &mut Gguf, name: &str) -> Result<()> {
    for part in ["q_proj", "v_proj", "out_proj"] {
        linear(gguf, &format!("{name}.{part}"), HIDDEN, HIDDEN)?;
    }
    gguf.matrix(&format!("{name}.k_proj.weight"), HIDDEN, HIDDEN, 1.)?;
    norm(gguf, &format!("{name}_layer_norm"))
}

fn gguf(format: GgmlDType) -> Result<Gguf> {
    let mut gguf = Gguf::new(Formats::all(format));
    for (name, channels) in [("conv1", BINS), ("conv2", HIDDEN)] {
        let name = format!("model.encoder.{name}");
        let scale = (3. * channels as f64).sqrt().recip();
        gguf.plain(&format!("{name}.weight"), &[HIDDEN, channels, 3], scale)?;
        gguf.plain(&format!("{name}.bias"), &[HIDDEN], 0.1)?;
    }
    gguf.embeddings("model.decoder.embed_tokens.weight", 1.)?;
    let positions = "model.decoder.embed_positions.weight";
    gguf.matrix(positions, TARGET, HIDDEN, 1.)?;
    for (stack, parts) in [
        ("encoder", &["self_attn"][..]),
        ("decoder", &["self_attn", "encoder_attn"]),
    ] {
        let layer = format!("model.{stack}.layers.0");
        for part in parts {
            attention(&mut gguf, &format!("{layer}.{part}"))?;
        }
        linear(&mut gguf, &format!("{layer}.fc1"), 4 * HIDDEN, HIDDEN)?;
        linear(&mut gguf, &format!("{layer}.fc2"), HIDDEN, 4 * HIDDEN)?;
        norm(&mut gguf, &format!("{layer}.final_layer_norm"))?;
        norm(&mut gguf, &format!("model.{stack}.layer_norm"))?;
    }
    Ok(gguf)
}

/// The decoder keeps what it computed of the sound, but none of what it computed of tokens.
fn load(path: &Path, device: &Device) -> Result<Model> {
    let weights = VarBuilder::from_gguf(path, device)?;
    let mut whisper = Whisper::load(&weights, config())?;
    let sound = numbers("sound", &[1, BINS, MOMENTS])?.to_device(device)?;
    let heard = whisper.encoder.forward(&sound, true)?;
    let mut said: Vec<Tensor> = Vec::new();
    Ok(Box::new(move |tokens, position| {
        said.push(tokens.clone());
        let tokens = Tensor::cat(&said, 1)?;
        let states = whisper.decoder.forward(&tokens, &heard, position == 0)?;
        let last = states.narrow(1, tokens.dim(1)? - 1, 1)?;
        whisper.decoder.final_linear(&last)
    }))
}

/// 6 products of the encoder and 10 of the decoder; the output is computed in f32.
const PRODUCTS: usize = 6 + 10;

#[test]
fn whisper_q8_0() -> Result<()> {
    assert_agrees(&gguf(GgmlDType::Q8_0)?, PRODUCTS, load)
}

#[test]
fn whisper_q4k() -> Result<()> {
    assert_agrees(&gguf(GgmlDType::Q4K)?, PRODUCTS, load)
}
