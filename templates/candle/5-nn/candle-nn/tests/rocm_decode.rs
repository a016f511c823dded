//! A llama whose step of decoding is captured: it says what one says whose operations are launched one by one.
//!
//! As in rocm_nn.rs, a test without a GPU writes `SKIPPED: <test>: <reason>` to stderr.
#![cfg(feature = "rocm")]
#[path = "../examples/rocm_decode/attention.rs"]
mod attention;
#[path = "../examples/rocm_decode/model.rs"]
mod model;
#[path = "../examples/rocm_decode/weights.rs"]
mod weights;

use candle::quantized::GgmlDType;
use candle::rocm::Captured;
use candle::{DType, Device, Result, Tensor};
use std::io::Write;
use weights::{random_llama, Format};

const PROMPT: [u32; 5] = [1, 17, 300, 42, 5];
const TOKENS: usize = 8;

/// GPU 0 with a stream of its own, which can be captured; None with a message where there is none.
fn own_gpu(test: &str) -> Result<Option<Device>> {
    if candle::rocm::is_available() {
        return Device::new_rocm_with_stream(0).map(Some);
    }
    // Past libtest's capture, so that nobody takes a skipped test for a passed one.
    let line = format!("SKIPPED: {test}: no ROCm device\n");
    let written = std::io::stderr().write_all(line.as_bytes());
    written.expect("stderr is open");
    Ok(None)
}

#[test]
fn a_captured_step_says_what_its_operations_say() -> Result<()> {
    let Some(device) = own_gpu("a_captured_step_says_what_its_operations_say")? else {
        return Ok(());
    };
    for format in [
        Format::Plain(DType::F32),
        Format::Plain(DType::F16),
        Format::Quantized(GgmlDType::Q4K),
    ] {
        let llama = random_llama(format, &device)?;
        let launched = llama.generate(&PROMPT, TOKENS, false)?;
        let captured = llama.generate(&PROMPT, TOKENS, true)?;
        assert_eq!(captured, launched, "{format:?}");
        let kinds: std::collections::HashSet<_> = launched.iter().collect();
        assert!(kinds.len() > TOKENS / 2, "{format:?}: {launched:?}");
    }
    Ok(())
}

#[test]
fn a_captured_step_says_what_the_cpu_says() -> Result<()> {
    let Some(device) = own_gpu("a_captured_step_says_what_the_cpu_says")? else {
        return Ok(());
    };
    let format = Format::Plain(DType::F32);
    let on_the_cpu = random_llama(format, &Device::Cpu)?;
    let expected = on_the_cpu.generate(&PROMPT, TOKENS, false)?;
    assert_eq!(
        on_the_cpu.generate(&PROMPT, TOKENS, true)?,
        expected,
        "the CPU does the step each time"
    );
    let llama = random_llama(format, &device)?;
    assert_eq!(llama.generate(&PROMPT, TOKENS, true)?, expected);
    Ok(())
}

/// A prompt at once, and one token after another by the same graph.
#[test]
fn a_graph_reads_a_prompt_token_by_token() -> Result<()> {
    let Some(device) = own_gpu("a_graph_reads_a_prompt_token_by_token")? else {
        return Ok(());
    };
    let llama = random_llama(Format::Plain(DType::F32), &device)?;
    let prompt: Vec<u32> = (0..12).map(|i| i * 37 % 320).collect();
    let all = Tensor::arange(0, prompt.len() as u32, &device)?;
    let expected = llama.forward(&Tensor::new(&prompt[..], &device)?, &all)?;
    let expected = expected.flatten_all()?.to_vec1::<f32>()?;
    let (token, position) = (
        Tensor::new(&[0u32], &device)?,
        Tensor::new(&[0u32], &device)?,
    );
    let mut step = Captured::new(&device, || llama.forward(&token, &position))?;
    assert!(step.is_graph());
    for (at, next) in prompt.iter().enumerate() {
        token.slice_set(&Tensor::new(&[*next], &device)?, 0, 0)?;
        position.slice_set(&Tensor::new(&[at as u32], &device)?, 0, 0)?;
        step.replay()?;
    }
    let found = step.output().flatten_all()?.to_vec1::<f32>()?;
    for (found, expected) in found.iter().zip(&expected) {
        assert!((found - expected).abs() < 1e-4, "{found} and {expected}");
    }
    Ok(())
}
