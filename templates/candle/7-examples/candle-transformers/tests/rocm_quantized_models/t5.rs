//! T5, as the example `quantized-t5` loads it: what the encoder makes of a prompt, and the decoder token by token.
use crate::agreement::{assert_agrees, Model};
use crate::gguf::{Formats, Gguf, HIDDEN, VOCABULARY};
use candle::quantized::GgmlDType;
use candle::{Device, Result, Tensor};
use candle_transformers::models::quantized_t5::{Config, T5ForConditionalGeneration, VarBuilder};
use std::path::Path;

const HEADS: usize = 4;
const HEAD: usize = 64;
const FEED_FORWARD: usize = 512;
const BUCKETS: usize = 32;

fn config() -> Config {
    let config = format!(
        r#"{{
        "vocab_size": {VOCABULARY}, "d_model": {HIDDEN}, "d_kv": {HEAD}, "d_ff": {FEED_FORWARD},
        "num_layers": 1, "num_heads": {HEADS}, "relative_attention_num_buckets": {BUCKETS},
        "dropout_rate": 0.1, "layer_norm_epsilon": 1e-6, "initializer_factor": 1.0,
        "feed_forward_proj": "gated-gelu", "tie_word_embeddings": false, "is_encoder_decoder": true,
        "pad_token_id": 0, "eos_token_id": 1
    }}"#
    );
    serde_json::from_str(&config).expect("a configuration")
}

fn attention(gguf: &mut Gguf, prefix: &str) -> Result<()> {
    let inner = HEADS * HEAD;
    // Scores are not divided by the root of a head's length: the weights are that much smaller.
    let scale = (HEAD as f64).sqrt().recip();
    gguf.matrix(&format!("{prefix}.q.weight"), inner, HIDDEN, scale)?;
    gguf.matrix(&format!("{prefix}.k.weight"), inner, HIDDEN, 1.)?;
    gguf.matrix(&format!("{prefix}.v.weight"), inner, HIDDEN, 1.)?;
    gguf.matrix(&format!("{prefix}.o.weight"), HIDDEN, inner, 1.)
}

fn gguf(format: GgmlDType) -> Result<Gguf> {
    let mut gguf = Gguf::new(Formats::all(format));
    gguf.embeddings("shared.weight", 1.)?;
    gguf.output("lm_head.weight", "shared.weight")?;
    for (stack, parts) in [
        ("encoder", &["SelfAttention"][..]),
        ("decoder", &["SelfAttention", "EncDecAttention"]),
    ] {
        let layers = format!("{stack}.block.0.layer");
        for (i, part) in parts.iter().enumerate() {
            attention(&mut gguf, &format!("{layers}.{i}.{part}"))?;
            gguf.norm(&format!("{layers}.{i}.layer_norm.weight"), HIDDEN)?;
        }
        let bias = format!("{layers}.0.SelfAttention.relative_attention_bias.weight");
        gguf.plain(&bias, &[BUCKETS, HEADS], 1.)?;
        let last = format!("{layers}.{}", parts.len());
        let dense = format!("{last}.DenseReluDense");
        gguf.matrix(&format!("{dense}.wi_0.weight"), FEED_FORWARD, HIDDEN, 1.)?;
        gguf.matrix(&format!("{dense}.wi_1.weight"), FEED_FORWARD, HIDDEN, 1.)?;
        gguf.matrix(&format!("{dense}.wo.weight"), HIDDEN, FEED_FORWARD, 1.)?;
        gguf.norm(&format!("{last}.layer_norm.weight"), HIDDEN)?;
        gguf.norm(&format!("{stack}.final_layer_norm.weight"), HIDDEN)?;
    }
    Ok(gguf)
}

fn load(path: &Path, device: &Device) -> Result<Model> {
    let weights = VarBuilder::from_gguf(path, device)?;
    let mut t5 = T5ForConditionalGeneration::load(weights, &config())?;
    let mut encoded: Option<Tensor> = None;
    Ok(Box::new(move |tokens, _| match &encoded {
        None => {
            let states = t5.encode(tokens)?;
            let start = tokens.zeros_like()?.narrow(1, 0, 1)?;
            let logits = t5.decode(&start, &states)?;
            encoded = Some(states);
            Ok(logits)
        }
        Some(states) => t5.decode(tokens, states),
    }))
}

/// 7 products of the encoder, 11 of the decoder and the output.
const PRODUCTS: usize = 7 + 11 + 1;

#[test]
fn t5_q8_0() -> Result<()> {
    assert_agrees(&gguf(GgmlDType::Q8_0)?, PRODUCTS, load)
}

#[test]
fn t5_q6k() -> Result<()> {
    assert_agrees(&gguf(GgmlDType::Q6K)?, PRODUCTS, load)
}
