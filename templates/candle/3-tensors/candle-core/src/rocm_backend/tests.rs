//! What HIP is asked for, where results cannot show it: what is taken is given back, a GPU is made current where there
//! are several, and nothing is done twice.
use super::hip::HipResult;
use super::memory::DeviceMemory;
use super::testing::{gpu, gpu_of, is_alone, with_calls};
use super::{api, device_count, RocmDevice};
use crate::quantized::{gguf_file, GgmlType, QTensor};
use crate::{Device, Result, Tensor};
use std::io::Cursor;

const MIB: usize = 1 << 20;

#[test]
fn an_event_is_destroyed_once() -> Result<()> {
    let test = "an_event_is_destroyed_once";
    let Some(device) = gpu(test) else {
        return Ok(());
    };
    if !is_alone(module_path!(), test, &[]) {
        return Ok(());
    }
    let made = [
        ("hipEventCreateWithFlags", 1),
        ("hipEventRecord", 1),
        ("hipEventDestroy", 0),
    ];
    let event = with_calls(&made, || device.rocm_stream().record_event())?;
    event.synchronize()?;
    assert!(event.is_done()?);
    with_calls(&[("hipEventDestroy", 1)], || drop(event));
    Ok(())
}

#[test]
fn all_that_a_stream_has_ends_with_its_last_device() -> Result<()> {
    let test = "all_that_a_stream_has_ends_with_its_last_device";
    let Some(device) = gpu_of(test, 0) else {
        return Ok(());
    };
    if !is_alone(module_path!(), test, &[]) {
        return Ok(());
    }
    let clone = device.clone();
    let mut memory = DeviceMemory::alloc(3 * MIB, &device)?;
    memory.copy_from_host(&vec![1; 3 * MIB])?;
    device.queue().with_blas(|_| Ok(()))?;
    let none = [
        ("hipFree", 0),
        ("hipHostFree", 0),
        ("rocblas_destroy_handle", 0),
        ("hipStreamDestroy", 0),
        ("hipStreamSynchronize", 0),
    ];
    with_calls(&none, || drop(clone));
    let all = [
        // The memory, and what rocBLAS worked in.
        ("hipFree", 2),
        ("hipHostFree", 2),
        ("rocblas_destroy_handle", 1),
        ("hipStreamDestroy", 1),
    ];
    with_calls(&all, || {
        drop(memory);
        drop(device);
    });
    Ok(())
}

/// A file's blocks go through pinned buffers, so that the next tensor is read while they are copied.
#[test]
fn a_file_is_loaded_without_waiting() -> Result<()> {
    let test = "a_file_is_loaded_without_waiting";
    let Some(rocm) = gpu_of(test, 0) else {
        return Ok(());
    };
    if !is_alone(module_path!(), test, &[]) {
        return Ok(());
    }
    let names = ["a", "b", "c"];
    let numbers = Tensor::arange(0f32, (MIB / 4 * 3 / 2) as f32, &Device::Cpu)?;
    let numbers = QTensor::quantize(&numbers, f32::DTYPE)?;
    let mut file = Cursor::new(Vec::new());
    gguf_file::write(&mut file, &[], &names.map(|name| (name, &numbers)))?;
    file.set_position(0);
    let content = gguf_file::Content::read(&mut file)?;
    let device = Device::Rocm(rocm.clone());
    // Buffers have 2 MiB, tensors one and a half: the second and the third end in another buffer than they begin in.
    let queued = [
        ("hipHostMalloc", 3),
        ("hipMemcpyAsync", 5),
        ("hipMemcpy", 0),
        ("hipStreamSynchronize", 0),
        ("hipEventSynchronize", 0),
        ("hipDeviceSynchronize", 0),
    ];
    let loaded = with_calls(&queued, || -> Result<Vec<QTensor>> {
        let tensors = names.iter();
        tensors
            .map(|name| content.tensor(&mut file, name, &device))
            .collect()
    })?;
    // A large tensor takes what is left of the third buffer, a fourth one, and then each again that has been copied.
    let large = Tensor::arange(0f32, (MIB / 4 * 12) as f32, &Device::Cpu)?;
    let large = QTensor::quantize(&large, f32::DTYPE)?;
    let mut large_file = Cursor::new(Vec::new());
    gguf_file::write(&mut large_file, &[], &[("t", &large)])?;
    large_file.set_position(0);
    let content = gguf_file::Content::read(&mut large_file)?;
    let queued = [
        ("hipHostMalloc", 1),
        ("hipMemcpyAsync", 7),
        ("hipMemcpy", 0),
        ("hipStreamSynchronize", 0),
        ("hipEventSynchronize", 5),
        ("hipDeviceSynchronize", 0),
    ];
    let loaded_large = with_calls(&queued, || content.tensor(&mut large_file, "t", &device))?;
    let [found, wanted] = [&loaded_large, &large].map(|tensor| {
        let numbers = tensor.dequantize(&Device::Cpu)?;
        numbers.to_vec1::<f32>()
    });
    assert!(found? == wanted?);
    drop(file);
    let numbers = numbers.dequantize(&Device::Cpu)?.to_vec1::<f32>()?;
    for tensor in loaded {
        assert!(tensor.dequantize(&Device::Cpu)?.to_vec1::<f32>()? == numbers);
    }
    Ok(())
}

#[test]
fn a_stream_has_done_its_work_when_its_last_device_is_dropped() -> Result<()> {
    let test = "a_stream_has_done_its_work_when_its_last_device_is_dropped";
    let Some(device) = gpu_of(test, 0) else {
        return Ok(());
    };
    if !is_alone(module_path!(), test, &[]) {
        return Ok(());
    }
    let mut memory = DeviceMemory::alloc(16 * MIB, &device)?;
    memory.fill_zero()?;
    let done = device.rocm_stream().record_event()?;
    drop(memory);
    with_calls(&[("hipStreamSynchronize", 1)], || drop(device));
    assert!(done.is_done()?);
    Ok(())
}

#[test]
fn streams_of_others_are_not_destroyed() -> Result<()> {
    let test = "streams_of_others_are_not_destroyed";
    let Some(owner) = gpu_of(test, 0) else {
        return Ok(());
    };
    if !is_alone(module_path!(), test, &[]) {
        return Ok(());
    }
    // SAFETY: `owner` keeps the stream.
    let guest = unsafe { RocmDevice::from_raw_stream(0, owner.rocm_stream().hip_stream()) }?;
    let default = RocmDevice::new(0)?;
    with_calls(&[("hipStreamDestroy", 0)], || {
        drop(guest);
        drop(default);
    });
    Ok(())
}

/// The default stream's device is not one whose stream is its own, in whatever order they are made.
#[test]
fn the_default_stream_is_null() -> Result<()> {
    let Some(own) = gpu_of("the_default_stream_is_null", 0) else {
        return Ok(());
    };
    let default = RocmDevice::new(0)?;
    assert!(default.rocm_stream().hip_stream().is_null());
    assert!(!own.rocm_stream().hip_stream().is_null());
    assert_ne!(default, own);
    assert_eq!(default, RocmDevice::new(0)?);
    Ok(())
}

/// The calls for which a GPU has to be current tell HIP so if another one could be.
fn check_that_a_gpu_is_made_current() -> Result<()> {
    let device = RocmDevice::new_with_stream(0)?;
    let named = usize::from(device_count()? > 1);
    let calls = [("hipSetDevice", named), ("hipStreamSynchronize", 1)];
    with_calls(&calls, || device.synchronize())
}

#[test]
fn a_gpu_is_made_current_where_there_are_others() -> Result<()> {
    let test = "a_gpu_is_made_current_where_there_are_others";
    if gpu_of(test, 1).is_some() && is_alone(module_path!(), test, &[]) {
        check_that_a_gpu_is_made_current()?;
    }
    Ok(())
}

#[test]
fn a_lone_gpu_need_not_be_named() -> Result<()> {
    let test = "a_lone_gpu_need_not_be_named";
    let only = [("HIP_VISIBLE_DEVICES", "0"), ("CUDA_VISIBLE_DEVICES", "0")];
    if gpu(test).is_some() && is_alone(module_path!(), test, &only) {
        assert_eq!(device_count()?, 1);
        check_that_a_gpu_is_made_current()?;
    }
    Ok(())
}

fn uploaded(bytes: &[u8], device: &RocmDevice) -> HipResult<DeviceMemory> {
    let mut memory = DeviceMemory::alloc(bytes.len(), device)?;
    memory.copy_from_host(bytes)?;
    Ok(memory)
}

fn downloaded(memory: &DeviceMemory) -> HipResult<Vec<u8>> {
    let mut bytes = vec![0; memory.size()];
    memory.copy_to_host(&mut bytes)?;
    Ok(bytes)
}

/// Whether GPU 0 can read the memory of GPU 1.
fn can_reach() -> bool {
    let mut can = 0;
    // SAFETY: `can` lives through the call.
    let status = unsafe { api::hipDeviceCanAccessPeer(&mut can, 0, 1) };
    assert_eq!(status, api::hipSuccess);
    can != 0
}

#[test]
fn access_to_another_gpu_is_enabled_once() -> Result<()> {
    let test = "access_to_another_gpu_is_enabled_once";
    let Some(other) = gpu_of(test, 1) else {
        return Ok(());
    };
    if !is_alone(module_path!(), test, &[]) {
        return Ok(());
    }
    let (one, beside) = (
        RocmDevice::new_with_stream(0)?,
        RocmDevice::new_with_stream(0)?,
    );
    let source = uploaded(&[7; 1000], &other)?;
    let first = [
        ("hipDeviceCanAccessPeer", 1),
        ("hipDeviceEnablePeerAccess", usize::from(can_reach())),
        ("hipMemcpyPeerAsync", 1),
        ("hipMemcpyAsync", 0),
    ];
    let copy = with_calls(&first, || source.transfer(&one))?;
    let later = [
        ("hipDeviceCanAccessPeer", 0),
        ("hipDeviceEnablePeerAccess", 0),
        ("hipMemcpyPeerAsync", 1),
        ("hipMemcpyAsync", 0),
    ];
    let again = with_calls(&later, || source.transfer(&beside))?;
    let inside = [("hipMemcpyPeerAsync", 0), ("hipMemcpyAsync", 1)];
    let within = with_calls(&inside, || copy.transfer(&beside))?;
    for memory in [&copy, &again, &within] {
        assert_eq!(downloaded(memory)?, [7; 1000]);
    }
    if can_reach() {
        one.gpu().make_current()?;
        // SAFETY: no preconditions.
        let status = unsafe { api::hipDeviceEnablePeerAccess(1, 0) };
        assert_eq!(status, api::hipErrorPeerAccessAlreadyEnabled);
    }
    Ok(())
}

#[test]
fn access_that_other_code_has_enabled_is_no_error() -> Result<()> {
    let test = "access_that_other_code_has_enabled_is_no_error";
    let Some(other) = gpu_of(test, 1) else {
        return Ok(());
    };
    if !is_alone(module_path!(), test, &[]) {
        return Ok(());
    }
    let one = RocmDevice::new_with_stream(0)?;
    if can_reach() {
        one.gpu().make_current()?;
        // SAFETY: no preconditions.
        let status = unsafe { api::hipDeviceEnablePeerAccess(1, 0) };
        assert_eq!(status, api::hipSuccess);
    }
    let copy = uploaded(&[9; 1000], &other)?.transfer(&one)?;
    assert_eq!(downloaded(&copy)?, [9; 1000]);
    Ok(())
}

#[test]
fn uploads_share_four_buffers() -> Result<()> {
    let test = "uploads_share_four_buffers";
    let Some(device) = gpu_of(test, 0) else {
        return Ok(());
    };
    if !is_alone(module_path!(), test, &[]) {
        return Ok(());
    }
    // Buffers have 2 MiB, and an upload takes whole cache lines of 64 bytes.
    let cases = [
        // (bytes, new buffers, copies)
        (1, 1, 1),
        (2 * MIB - 64, 0, 1),
        (2 * MIB, 1, 1),
        (2 * MIB + 1, 2, 2),
        (2 * MIB - 64, 0, 1),
        (6 * MIB, 0, 3),
        (7 * MIB, 0, 4),
        (MIB, 0, 1),
        (1, 0, 1),
    ];
    for (size, buffers, copies) in cases {
        let bytes: Vec<u8> = (0..size).map(|i| (i % 251) as u8).collect();
        let mut memory = DeviceMemory::alloc(size, &device)?;
        let calls = [("hipHostMalloc", buffers), ("hipMemcpyAsync", copies)];
        with_calls(&calls, || memory.copy_from_host(&bytes))?;
        assert!(downloaded(&memory)? == bytes, "{size} bytes");
    }
    Ok(())
}

#[test]
fn only_readers_that_have_not_come_are_waited_for() -> Result<()> {
    let test = "only_readers_that_have_not_come_are_waited_for";
    let Some(device) = gpu_of(test, 0) else {
        return Ok(());
    };
    if !is_alone(module_path!(), test, &[]) {
        return Ok(());
    }
    let (one, other) = (
        RocmDevice::new_with_stream(0)?,
        RocmDevice::new_with_stream(0)?,
    );
    let mut memory = DeviceMemory::alloc(1000, &device)?;
    let waits = |memory: &mut DeviceMemory, times| {
        with_calls(&[("hipStreamWaitEvent", times)], || memory.as_mut_ptr());
    };
    waits(&mut memory, 0);
    memory.read_by(&one)?;
    one.synchronize()?;
    memory.read_by(&other)?;
    waits(&mut memory, 1);
    waits(&mut memory, 0);

    let mut busy = DeviceMemory::alloc(16 * MIB, &one)?;
    for _ in 0..10 {
        busy.fill_zero()?;
    }
    memory.read_by(&one)?;
    memory.read_by(&other)?;
    if !one.rocm_stream().record_event()?.is_done()? {
        waits(&mut memory, 2);
    }
    Ok(())
}

#[test]
fn a_kernel_is_looked_up_once() -> Result<()> {
    let test = "a_kernel_is_looked_up_once";
    let Some(device) = gpu_of(test, 0) else {
        return Ok(());
    };
    if !is_alone(module_path!(), test, &[]) {
        return Ok(());
    }
    let x = Tensor::from_slice(&[1f32, 4., 9.], 3, &Device::Rocm(device))?;
    let calls = |files, functions| {
        [
            ("hipModuleLoadData", files),
            ("hipModuleGetFunction", functions),
            ("hipModuleLaunchKernel", 1),
        ]
    };
    let roots = with_calls(&calls(1, 1), || x.sqrt())?;
    let again = with_calls(&calls(0, 0), || x.sqrt())?;
    // Another one of the same file.
    let squares = with_calls(&calls(0, 1), || roots.sqr())?;
    assert_eq!(again.to_vec1::<f32>()?, [1., 2., 3.]);
    assert_eq!(squares.to_vec1::<f32>()?, [1., 4., 9.]);
    Ok(())
}
