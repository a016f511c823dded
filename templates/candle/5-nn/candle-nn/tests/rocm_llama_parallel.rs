//! llama in parts: what it says is what one GPU says, token by token.
//!
//! Tests that need two GPUs write `SKIPPED: <test>: <reason>` to stderr where there are fewer, and return. cargo shows it,
//! because it does not go through the captured output.
#![cfg(feature = "rocm-rccl")]
#[path = "../examples/rocm_llama_parallel/model.rs"]
mod model;
#[path = "../examples/rocm_llama_parallel/ranks.rs"]
mod ranks;

use candle::{DType, Device, Result};
use model::{Llama, Shape};
use std::io::Write;
use std::path::PathBuf;

const PROMPT: [u32; 5] = [1, 17, 300, 42, 5];
const TOKENS: usize = 12;
const MOST: usize = PROMPT.len() + TOKENS;

type Said = Vec<(u32, Vec<f32>)>;

/// How many GPUs there are. None with a message where there is one only.
fn gpus(test: &str) -> Option<usize> {
    let there = candle::rocm::device_count().unwrap_or(0);
    if there > 1 {
        return Some(there.min(8));
    }
    let line = format!("SKIPPED: {test}: {there} ROCm devices, and each part needs one\n");
    let written = std::io::stderr().write_all(line.as_bytes());
    written.expect("stderr is open");
    None
}

fn weights(test: &str) -> Result<(Vec<PathBuf>, Shape)> {
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}.safetensors"));
    // Programs that run for other GPUs at this time write the same file, and read it.
    let own = file.with_extension(std::process::id().to_string());
    let shape = model::write_random(&own)?;
    std::fs::rename(own, &file)?;
    Ok((vec![file], shape))
}

/// An address at which nobody listens.
fn free_address() -> Result<String> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    Ok(listener.local_addr()?.to_string())
}

fn alone(files: &[PathBuf], shape: Shape, dtype: DType, device: &Device) -> Result<Said> {
    let mut llama = Llama::tensor_parallel(files, shape, dtype, device, None, MOST)?;
    llama.generate(&PROMPT, TOKENS)
}

/// The same tokens, and logits that differ by no more than sums in another order do.
fn assert_same(found: &Said, expected: &Said, tolerance: f32) {
    let tokens = |said: &Said| said.iter().map(|(token, _)| *token).collect::<Vec<_>>();
    assert_eq!(tokens(found), tokens(expected));
    for ((_, found), (_, expected)) in found.iter().zip(expected) {
        let differences = found.iter().zip(expected).map(|(a, b)| (a - b).abs());
        let most = differences.fold(0f32, f32::max);
        assert!(most <= tolerance, "{most}");
    }
}

#[test]
fn one_gpu_says_what_the_cpu_says() -> Result<()> {
    if gpus("one_gpu_says_what_the_cpu_says").is_none() {
        return Ok(());
    }
    let (files, shape) = weights("one_gpu_says_what_the_cpu_says")?;
    let on_the_cpu = alone(&files, shape, DType::F32, &Device::Cpu)?;
    let kinds: std::collections::HashSet<_> = on_the_cpu.iter().map(|(token, _)| token).collect();
    assert!(
        kinds.len() > TOKENS / 2,
        "a model that repeats itself shows little: {kinds:?}"
    );
    assert_same(
        &alone(&files, shape, DType::F32, &Device::new_rocm(0)?)?,
        &on_the_cpu,
        1e-4,
    );
    Ok(())
}

#[test]
fn ranks_say_what_one_gpu_says() -> Result<()> {
    let Some(there) = gpus("ranks_say_what_one_gpu_says") else {
        return Ok(());
    };
    let (files, shape) = weights("ranks_say_what_one_gpu_says")?;
    let files = &files;
    for (dtype, tolerance) in [(DType::F32, 1e-4), (DType::F64, 1e-6)] {
        let expected = alone(files, shape, dtype, &Device::new_rocm(0)?)?;
        for ranks in [2, 4, 8].into_iter().filter(|ranks| *ranks <= there) {
            let hub = &free_address()?;
            let said: Vec<Said> = std::thread::scope(|scope| {
                let one = |rank| -> Result<Said> {
                    let (device, comm) = ranks::join(rank, ranks, rank, hub, ranks::PATIENCE)?;
                    let comm = Some(&comm);
                    let llama = Llama::tensor_parallel(files, shape, dtype, &device, comm, MOST);
                    llama?.generate(&PROMPT, TOKENS)
                };
                let threads: Vec<_> = (0..ranks)
                    .map(|rank| scope.spawn(move || one(rank)))
                    .collect();
                threads
                    .into_iter()
                    .map(|thread| thread.join().expect("no panic"))
                    .collect::<Result<_>>()
            })?;
            for own in &said {
                assert_eq!(own, &said[0], "all ranks have the same bits");
                assert_same(own, &expected, tolerance);
            }
        }
    }
    Ok(())
}

#[test]
fn layers_on_several_gpus_say_what_one_gpu_says() -> Result<()> {
    let Some(there) = gpus("layers_on_several_gpus_say_what_one_gpu_says") else {
        return Ok(());
    };
    let (files, shape) = weights("layers_on_several_gpus_say_what_one_gpu_says")?;
    let devices: Vec<_> = (0..there.min(3))
        .map(Device::new_rocm_with_stream)
        .collect::<Result<_>>()?;
    let mut llama = Llama::spread(&files, shape, DType::F32, &devices, MOST)?;
    let expected = alone(&files, shape, DType::F32, &devices[0])?;
    assert_same(&llama.generate(&PROMPT, TOKENS)?, &expected, 1e-4);
    Ok(())
}

#[test]
fn a_model_that_cannot_be_parted_is_an_error() -> Result<()> {
    if gpus("a_model_that_cannot_be_parted_is_an_error").is_none() {
        return Ok(());
    }
    let (files, shape) = weights("a_model_that_cannot_be_parted_is_an_error")?;
    let wrong = Shape { heads: 7, ..shape };
    let device = Device::Cpu;
    let refused = Llama::tensor_parallel(&files, wrong, DType::F32, &device, None, MOST).err();
    let refused = refused.expect("128 rows are no 7 heads").to_string();
    assert!(
        refused.contains("128 rows of queries are no 7 heads"),
        "{refused}"
    );
    Ok(())
}
