//! Where the kernels of an operation come from: built ahead of time, or compiled.

use crate::emulator::Emulator;
use candle::{DType, Device, Result, Tensor};

const FUNCTIONS: [&str; 2] = ["hiprtcCompileProgram", "hipModuleLoadData"];

/// Fills a tensor, which takes one family of kernels, and prints how often the functions were called for it.
pub fn run() -> Result<()> {
    let device = Device::new_rocm(0)?;
    let (filled, counts) = Emulator::open().counted(&FUNCTIONS, || Tensor::ones(3, DType::F32, &device));
    match filled {
        Err(error) => println!("error {error}"),
        Ok(filled) => {
            let [compiled, loaded] = counts[..] else { unreachable!("a count for each function") };
            println!("{:?}: {compiled} compiled, {loaded} loaded", filled.to_vec1::<f32>()?);
        }
    }
    Ok(())
}

/// The same, where the function fails the first time.
pub fn run_without(function: &str) -> Result<()> {
    const INTERNAL_ERROR: i32 = 11;
    Emulator::open().fail(function, 1, INTERNAL_ERROR);
    run()
}
