//! What the ROCm backend does on the emulated HIP device that Candle's own tests do not ask.
//!
//! The first argument says what is run; what it prints is judged by the tests beside this folder.

mod counts;
mod emulator;
mod faults;
mod indices;
mod kernels;
mod stress;
mod training;

use candle::{Device, Result};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let number = |word: &str| word.parse().expect("a number");
    match words[..] {
        ["counts"] => counts::run(&Device::new_rocm(0)?),
        ["training", steps] => training::run(&Device::new_rocm(0)?, number(steps)),
        ["faults"] => faults::warm(&Device::new_rocm(0)?),
        ["cold-calls"] => faults::list_cold(),
        ["cold-fault", function, nth] => faults::cold(function, number(nth) as i64),
        ["indices"] => indices::run(&Device::new_rocm(0)?),
        ["kernels"] => kernels::run(),
        ["kernels-without", function] => kernels::run_without(function),
        ["stress", threads, rounds, seed] => stress::run(number(threads), number(rounds), number(seed) as u64),
        ["fill"] => fill(&Device::new_rocm(0)?),
        ["device"] => device(|| ()),
        ["no-device"] => no_device(),
        _ => panic!("what shall be run?"),
    }
}

/// Allocates until there is no more, then shows the error and that the device still works.
fn fill(device: &Device) -> Result<()> {
    let mut kept = vec![];
    let error = loop {
        match candle::Tensor::zeros(1 << 20, candle::DType::F32, device) {
            Ok(tensor) => kept.push(tensor),
            Err(error) => break error,
        }
        assert!(kept.len() < 1 << 16, "memory has no end");
    };
    println!("after {} tensors: {error}", kept.len());
    kept.clear();
    let sum: f32 = candle::Tensor::ones(1 << 20, candle::DType::F32, device)?.sum_all()?.to_scalar()?;
    println!("then {sum}");
    Ok(())
}

/// What a program sees that asks for a device; `before` is called before each question.
fn device(before: impl Fn()) -> Result<()> {
    before();
    match Device::new_rocm(0) {
        Ok(_) => println!("new_rocm: a device"),
        Err(error) => println!("new_rocm: {error}"),
    }
    before();
    println!("rocm_if_available: {:?}", Device::rocm_if_available(0)?.location());
    before();
    println!("is_rocm_available: {}", Device::is_rocm_available());
    Ok(())
}

/// The same where HIP says that there is none.
fn no_device() -> Result<()> {
    const NO_DEVICE: i32 = 100;
    let emulator = emulator::Emulator::open();
    device(|| emulator.fail("hipGetDeviceCount", 1, NO_DEVICE))
}
