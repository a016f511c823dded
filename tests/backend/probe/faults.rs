//! Every call of a training step and of an inference fails once: errors that name it, and a device that still works.

use crate::emulator::Emulator;
use crate::training::Training;
use candle::quantized::{gguf_file, GgmlDType, QTensor};
use candle::{DType, Device, Result, Tensor};
use std::io::Cursor;
use std::panic::{catch_unwind, AssertUnwindSafe};

/// Functions that the backend calls, with the status that each is made to return.
const FUNCTIONS: [(&str, i32); 24] = [
    ("hipGetDeviceCount", 999),
    ("hipSetDevice", 999),
    ("hipGetDevicePropertiesR0600", 999),
    ("hipMemGetInfo", 999),
    ("hipMalloc", 999),
    ("hipFree", 999),
    ("hipHostMalloc", 999),
    ("hipHostFree", 999),
    ("hipMemcpyAsync", 999),
    ("hipMemsetAsync", 999),
    ("hipStreamCreateWithFlags", 999),
    ("hipStreamSynchronize", 999),
    ("hipStreamWaitEvent", 999),
    ("hipEventCreateWithFlags", 999),
    ("hipEventRecord", 999),
    ("hipEventQuery", 999),
    ("hipEventSynchronize", 999),
    ("hipModuleLoadData", 999),
    ("hipModuleGetFunction", 999),
    ("hipModuleLaunchKernel", 999),
    ("hiprtcCreateProgram", 11),
    ("hiprtcCompileProgram", 6),
    ("rocblas_create_handle", 6),
    ("rocblas_gemm_strided_batched_ex", 6),
];

fn training(device: &Device) -> Result<f32> {
    Training::new(device)?.step()
}

fn inference(device: &Device) -> Result<f32> {
    let table = Tensor::arange(0f32, 320., device)?.reshape((40, 8))?.affine(0.01, 0.)?;
    let ids = Tensor::new(&[3u32, 39, 0, 17], device)?;
    let x = table.embedding(&ids)?.to_dtype(DType::F16)?;
    let scores = x.matmul(&x.t()?)?.to_dtype(DType::F32)?;
    let weights = candle_nn::ops::softmax(&scores, 1)?;
    weights.matmul(&x.to_dtype(DType::F32)?)?.gelu()?.sum_all()?.to_scalar()
}

/// Five pinned buffers of 2 MiB: all four, and one again. Whole ones, so that each run takes the same number of them.
fn loading(device: &Device) -> Result<f32> {
    let numbers = Tensor::arange(0f32, 1310720., &Device::Cpu)?.repeat(2)?;
    let mut file = Cursor::new(Vec::new());
    gguf_file::write(&mut file, &[], &[("t", &QTensor::quantize(&numbers, GgmlDType::F32)?)])?;
    file.set_position(0);
    let content = gguf_file::Content::read(&mut file)?;
    let data = content.tensor(&mut file, "t", device)?.data()?.into_owned();
    Ok(data.into_iter().map(u64::from).sum::<u64>() as f32)
}

type Work = (&'static str, fn(&Device) -> Result<f32>);
/// Loading comes first, while no buffer has been begun.
const WORK: [Work; 3] = [("loading", loading), ("training", training), ("inference", inference)];

/// Prints a line for each call that was made to fail: work, function, number, and what came of it.
pub fn warm(device: &Device) -> Result<()> {
    let emulator = Emulator::open();
    let names = FUNCTIONS.map(|(name, _)| name);
    let ours = device.as_rocm_device()?;
    for (work, run) in WORK {
        let expected = run(device)?;
        run(device)?;
        ours.trim_memory()?;
        let free = ours.free_memory()?;
        let (result, counts) = emulator.counted(&names, || run(device));
        result?;
        for ((function, code), calls) in FUNCTIONS.into_iter().zip(counts) {
            for nth in 1..=calls {
                emulator.fail(function, nth, code);
                let outcome = catch_unwind(AssertUnwindSafe(|| run(device)));
                emulator.fail(function, 0, 0);
                emulator.reset();
                println!("{work} {function} {nth}: {}", said(outcome));
                let again = run(device)?;
                assert!(again == expected, "{work} after {function} {nth}: {again}, not {expected}");
            }
        }
        ours.trim_memory()?;
        assert!(ours.free_memory()? == free, "{work} leaves memory allocated: {} of {free}", ours.free_memory()?);
    }
    Ok(())
}

/// The same for a device that was never used: prints what comes of one call that fails on the way to a result, then
/// tries again.
pub fn cold(function: &str, nth: i64) -> Result<()> {
    let emulator = Emulator::open();
    let code = FUNCTIONS.into_iter().find(|(name, _)| *name == function).map_or(999, |(_, code)| code);
    emulator.fail(function, nth, code);
    let work = || {
        let device = Device::new_rocm(0)?;
        Ok(training(&device)? + inference(&device)?)
    };
    let outcome = catch_unwind(AssertUnwindSafe(work));
    emulator.fail(function, 0, 0);
    emulator.reset();
    println!("cold {function} {nth}: {}", said(outcome));
    let cpu = training(&Device::Cpu)? + inference(&Device::Cpu)?;
    let again = work()?;
    assert!((again - cpu).abs() < 1e-2 * cpu.abs(), "{again}, not {cpu}");
    Ok(())
}

/// Calls that a device makes from the start to the results of both pieces of work, by function.
pub fn list_cold() -> Result<()> {
    let names = FUNCTIONS.map(|(name, _)| name);
    let (result, counts) = Emulator::open().counted(&names, || {
        let device = Device::new_rocm(0)?;
        Ok::<_, candle::Error>(training(&device)? + inference(&device)?)
    });
    result?;
    for (name, calls) in names.iter().zip(counts) {
        println!("{name} {calls}");
    }
    Ok(())
}

fn said(outcome: std::thread::Result<Result<f32>>) -> String {
    match outcome {
        Err(_) => "panic".to_string(),
        Ok(Ok(value)) => format!("ok {value}"),
        Ok(Err(error)) => format!("error {}", error.to_string().replace('\n', " | ")),
    }
}
