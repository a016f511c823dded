//! A llama that decodes with one call of the host for each token.
//!
//! ```text
//! cargo run --release -p candle-nn --features rocm --example rocm_decode -- f16
//! ```
//!
//! f32, f16, bf16, q4k or q8_0: what the made-up weights are. The same tokens are made by steps that are launched operation
//! by operation, and by a step that is captured once and then replayed.
mod attention;
mod model;
mod weights;

use candle::quantized::GgmlDType;
use candle::{DType, Device, Result};
use std::time::Instant;
use weights::Format;

const PROMPT: [u32; 5] = [1, 17, 300, 42, 5];
const TOKENS: usize = 40;

fn format(name: &str) -> Result<Format> {
    match name {
        "f32" => Ok(Format::Plain(DType::F32)),
        "f16" => Ok(Format::Plain(DType::F16)),
        "bf16" => Ok(Format::Plain(DType::BF16)),
        "q4k" => Ok(Format::Quantized(GgmlDType::Q4K)),
        "q8_0" => Ok(Format::Quantized(GgmlDType::Q8_0)),
        _ => candle::bail!("weights are f32, f16, bf16, q4k or q8_0, and not {name}"),
    }
}

fn main() -> Result<()> {
    let name = std::env::args().nth(1).unwrap_or("f16".to_string());
    // Only a stream of the device's own can be captured.
    let device = Device::new_rocm_with_stream(0)?;
    let llama = weights::random_llama(format(&name)?, &device)?;
    let mut said = Vec::new();
    for captured in [false, true] {
        // Kernels are compiled at first.
        llama.generate(&PROMPT, TOKENS, captured)?;
        let began = Instant::now();
        said.push(llama.generate(&PROMPT, TOKENS, captured)?);
        let took = began.elapsed().as_secs_f64();
        let how = if captured { "captured" } else { "launched" };
        eprintln!("{how}: {TOKENS} tokens in {took:.3} s");
    }
    if said[0] != said[1] {
        candle::bail!("{:?} was said, and {:?} by a graph", said[0], said[1]);
    }
    let tokens: Vec<_> = said[0].iter().map(u32::to_string).collect();
    println!("{}", tokens.join(" "));
    Ok(())
}
