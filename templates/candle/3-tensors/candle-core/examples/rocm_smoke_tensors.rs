//! Checks a ROCm installation from end to end: adds two tensors on GPU 0 and checks the result.
//!
//! ```text
//! cargo run -p candle-core --features rocm --example rocm_smoke
//! ```
//!
//! Exit status: 0 when the results are right, 1 when a step failed (the message says which), 77 when there is no device
//! to run on.
use candle_core::rocm::device_count;
use candle_core::{Device, Error, Result, Tensor};
use std::process::ExitCode;

const SKIPPED: u8 = 77;
/// A prime, so that the last block of threads is not full.
const LENGTH: usize = 1_000_003;

fn main() -> ExitCode {
    match smoke() {
        Ok(true) => {
            println!("OK: {LENGTH} sums are right");
            ExitCode::SUCCESS
        }
        Ok(false) => ExitCode::from(SKIPPED),
        Err(error) => {
            eprintln!("FAILED: {error}");
            ExitCode::FAILURE
        }
    }
}

/// False where there is no device.
fn smoke() -> Result<bool> {
    let count = device_count()?;
    let device = match Device::new_rocm(0) {
        Err(reason) if count == 0 => {
            println!("SKIPPED: no ROCm device: {reason}");
            return Ok(false);
        }
        device => device?,
    };
    println!("devices: {count}");
    let arch = device.as_rocm_device()?.gcn_arch_name()?;
    println!("architecture: {arch}");
    let a: Vec<f32> = (0..LENGTH).map(|i| (i % 1000) as f32).collect();
    let b: Vec<f32> = (0..LENGTH).map(|i| (i % 777) as f32 * 0.5).collect();
    let sum = (Tensor::new(&a[..], &device)? + Tensor::new(&b[..], &device)?)?;
    // Sums of such numbers are exact.
    let expected = a.iter().zip(&b).map(|(a, b)| a + b);
    for (index, (got, expected)) in sum.to_vec1::<f32>()?.into_iter().zip(expected).enumerate() {
        if got != expected {
            let message = format!("element {index} is {got}, expected {expected}");
            return Err(Error::Msg(message));
        }
    }
    Ok(true)
}
