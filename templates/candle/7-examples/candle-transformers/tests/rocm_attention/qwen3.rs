//! qwen3 normalizes queries and keys of each head.
use super::{agrees, config, Norms, SEVERAL};
use candle::Result;
use candle_nn::VarBuilder;
use candle_transformers::models::qwen3::{Config, ModelForCausalLM};

#[test]
fn qwen3_agrees() -> Result<()> {
    let config: Config = config(
        r#""head_dim": 8, "attention_bias": false, "max_window_layers": 2, "use_sliding_window": false,
        "tie_word_embeddings": true"#,
    );
    let load = |vb: VarBuilder| model!(ModelForCausalLM::new(&config, vb)?);
    agrees(load, SEVERAL, Norms::Factors)
}
