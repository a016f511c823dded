//! Memory of one process that another one reads and writes in place.
//!
//! As in rocm_basic.rs, a test without a GPU writes `SKIPPED: <test>: <reason>` to stderr.
#![cfg(feature = "rocm")]
mod rocm_gpu;

use candle_core::rocm::driver::{RocmIpcHandle, RocmSlice, StreamCaptureMode};
use candle_core::rocm::RocmDevice;
use candle_core::Result;
use rocm_gpu::gpu;
use std::process::Command;

/// Has the handle for the process that a test starts, as hexadecimal digits.
const HANDLE: &str = "ROCM_IPC_TEST_HANDLE";

fn device(test: &str) -> Result<Option<RocmDevice>> {
    let gpu = gpu(test);
    gpu.map(|gpu| Ok(gpu.as_rocm_device()?.clone())).transpose()
}

/// Runs a test in a process of its own, which opens the handle; what it says must be that it passed.
fn run_elsewhere(test: &str, handle: &RocmIpcHandle) -> Result<()> {
    let digits = handle.to_bytes().map(|byte| format!("{byte:02x}"));
    let alone = Command::new(std::env::current_exe()?)
        .args(["--exact", test])
        .env(HANDLE, digits.concat())
        .env_remove("CANDLE_ROCM_RECORD")
        .output()?;
    let said = String::from_utf8_lossy(&alone.stdout);
    let passed = alone.status.success() && said.contains("1 passed");
    assert!(passed, "{said}{}", String::from_utf8_lossy(&alone.stderr));
    Ok(())
}

/// The handle that another process has given to this one.
fn given() -> Option<RocmIpcHandle> {
    let digits = std::env::var(HANDLE).ok()?;
    let mut bytes = [0; RocmIpcHandle::SIZE];
    for (place, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&digits[2 * place..2 * place + 2], 16).ok()?;
    }
    Some(RocmIpcHandle::from_bytes(&bytes))
}

fn numbers(count: usize) -> Vec<f32> {
    (0..count).map(|i| i as f32 / 4.).collect()
}

#[test]
fn another_process_works_with_memory_in_place() -> Result<()> {
    const TEST: &str = "another_process_works_with_memory_in_place";
    const COUNT: usize = 3001;
    let Some(device) = device(TEST)? else {
        return Ok(());
    };
    if let Some(handle) = given() {
        assert_eq!(handle.num_bytes(), COUNT * 4);
        // SAFETY: the other process has made the memory of numbers, keeps it, and waits for this one.
        let mut slice: RocmSlice<f32> = unsafe { device.open_ipc_handle(&handle)? };
        assert_eq!(slice.len(), COUNT);
        assert_eq!(device.clone_dtoh(&slice)?, numbers(COUNT));
        // A copy is this process's own.
        let copy = slice.try_clone()?;
        device.memcpy_htod(&[-1f32, -2., -3.], &mut slice.slice_mut(1000..1003))?;
        device.synchronize()?;
        assert_eq!(device.clone_dtoh(&copy)?, numbers(COUNT));
        let error = slice
            .ipc_handle()
            .expect_err("the memory is not this process's");
        let expected = "memory of another process has no handle of this one";
        assert!(error.to_string().contains(expected), "{error}");
        return Ok(());
    }
    let neighbours = [
        device.clone_htod(&[7f32; 8])?,
        device.clone_htod(&[8f32; 8])?,
    ];
    let mut slice = device.clone_htod(&numbers(COUNT))?;
    run_elsewhere(TEST, &slice.ipc_handle()?)?;
    let mut expected = numbers(COUNT);
    expected[1000..1003].copy_from_slice(&[-1., -2., -3.]);
    assert_eq!(device.clone_dtoh(&slice)?, expected);
    assert_eq!(device.clone_dtoh(&neighbours[0])?, [7f32; 8]);
    assert_eq!(device.clone_dtoh(&neighbours[1])?, [8f32; 8]);
    // It can be opened any number of times, and what was written since is seen.
    device.memcpy_htod(&numbers(COUNT), &mut slice)?;
    run_elsewhere(TEST, &slice.ipc_handle()?)
}

#[test]
fn memory_that_was_opened_goes_back_when_it_is_dropped() -> Result<()> {
    const TEST: &str = "memory_that_was_opened_goes_back_when_it_is_dropped";
    let Some(device) = device(TEST)? else {
        return Ok(());
    };
    if let Some(handle) = given() {
        for round in 0..3 {
            // SAFETY: as above.
            let mut slice: RocmSlice<u32> = unsafe { device.open_ipc_handle(&handle)? };
            assert_eq!(device.clone_dtoh(&slice)?, [round, 1]);
            device.memcpy_htod(&[round + 1], &mut slice)?;
            device.synchronize()?;
        }
        return Ok(());
    }
    let slice = device.clone_htod(&[0u32, 1])?;
    run_elsewhere(TEST, &slice.ipc_handle()?)?;
    assert_eq!(device.clone_dtoh(&slice)?, [3, 1]);
    Ok(())
}

#[test]
fn what_is_no_handle_is_refused() -> Result<()> {
    const TEST: &str = "what_is_no_handle_is_refused";
    let Some(device) = device(TEST)? else {
        return Ok(());
    };
    if let Some(handle) = given() {
        // Three bytes, as numbers of four.
        // SAFETY: it fails.
        let error = unsafe { device.open_ipc_handle::<f32>(&handle) }.expect_err("no numbers");
        let expected = "3 bytes of another process are no elements of 4";
        assert!(error.to_string().contains(expected), "{error}");
        return Ok(());
    }
    let slice = device.clone_htod(&[1u8, 2, 3])?;
    let handle = slice.ipc_handle()?;
    run_elsewhere(TEST, &handle)?;
    // SAFETY: they fail.
    let (own, garbled) = unsafe {
        let garbled = RocmIpcHandle::from_bytes(&[1; RocmIpcHandle::SIZE]);
        let own = device.open_ipc_handle::<u8>(&handle);
        (own, device.open_ipc_handle::<u8>(&garbled))
    };
    for error in [own.map(drop), garbled.map(drop)] {
        let error = error.expect_err("no memory of another process").to_string();
        assert!(error.contains("hipIpcOpenMemHandle"), "{error}");
    }
    // SAFETY: it fails.
    let nothing = unsafe {
        let handle = RocmIpcHandle::from_bytes(&[0; RocmIpcHandle::SIZE]);
        device.open_ipc_handle::<u8>(&handle)
    };
    let error = nothing.expect_err("no memory at all").to_string();
    assert!(
        error.contains("this is no handle of another process's memory"),
        "{error}"
    );
    let empty = device.clone_htod(&[0u8; 0])?;
    let error = empty
        .ipc_handle()
        .expect_err("no memory at all")
        .to_string();
    assert!(
        error.contains("memory of no bytes has no handle"),
        "{error}"
    );
    Ok(())
}

#[test]
fn a_captured_stream_makes_no_handle() -> Result<()> {
    if gpu("a_captured_stream_makes_no_handle").is_none() {
        return Ok(());
    }
    let device = RocmDevice::new_with_stream(0)?;
    let slice = device.clone_htod(&[1u8, 2, 3])?;
    let stream = device.rocm_stream();
    stream.begin_capture(StreamCaptureMode::ThreadLocal)?;
    let refused = slice.ipc_handle();
    drop(stream.end_capture()?);
    let error = refused.expect_err("the stream is captured").to_string();
    assert!(error.contains("a handle for another process"), "{error}");
    slice.ipc_handle().map(drop)
}
