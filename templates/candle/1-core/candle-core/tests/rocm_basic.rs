//! Devices, memory and errors of the ROCm backend.
//!
//! Tests that need a GPU write `SKIPPED: <test>: <reason>` to stderr where there is none, and return. cargo shows it,
//! because it does not go through the captured output.
#![cfg(feature = "rocm")]
#[path = "rocm_basic/tensors.rs"]
mod tensors;

use candle_core::backend::{BackendDevice, BackendStorage};
use candle_core::rocm::{device_count, is_available, not_generated};
use candle_core::{
    DType, Device, DeviceLocation, Error, Layout, Result, RocmDevice, RocmError, RocmStorage, Shape,
};
use std::collections::HashSet;
use std::io::Write;

const NO_DEVICE: u32 = 100;

/// Past libtest's capture, so that nobody takes a skipped test for a passed one.
fn skipped(test: &str, reason: &str) {
    let line = format!("SKIPPED: {test}: {reason}\n");
    let written = std::io::stderr().write_all(line.as_bytes());
    written.expect("stderr is open");
}

/// GPU 0, or None with a message.
fn gpu(test: &str) -> Option<RocmDevice> {
    if !is_available() {
        skipped(test, "no ROCm device");
        return None;
    }
    Some(RocmDevice::new(0).expect("GPU 0 of a runtime that counts at least one"))
}

fn bytes(length: usize) -> Vec<u8> {
    (0..length).map(|i| (i % 251) as u8).collect()
}

fn uploaded(data: &[u8], device: &RocmDevice) -> Result<RocmStorage> {
    let data = device.clone_htod(data)?;
    Ok(RocmStorage::wrap_rocm_slice(data, device.clone()))
}

fn downloaded(storage: &RocmStorage) -> Result<Vec<u8>> {
    storage.device().clone_dtoh(storage.as_rocm_slice::<u8>()?)
}

/// Copies to the beginning of a storage.
fn overwrite(storage: &mut RocmStorage, data: &[u8]) -> Result<()> {
    let device = storage.device().clone();
    device.memcpy_htod(data, storage.as_rocm_slice_mut::<u8>()?)
}

/// The error without the backtrace that RUST_BACKTRACE gives it.
fn bare(error: Error) -> Error {
    match error {
        Error::WithBacktrace { inner, .. } => bare(*inner),
        error => error,
    }
}

mod always {
    use super::*;

    #[test]
    fn error_texts() {
        let cases = [
            (
                RocmError::Hip {
                    call: "hipMalloc",
                    code: 1,
                    name: "hipErrorInvalidValue".to_string(),
                    message: "invalid argument".to_string(),
                },
                "hipMalloc failed with hipErrorInvalidValue (1): invalid argument",
            ),
            (
                RocmError::Blas {
                    call: "rocblas_sgemm",
                    status: 6,
                    name: "rocblas_status_internal_error".to_string(),
                },
                "rocblas_sgemm failed with rocblas_status_internal_error (6)",
            ),
            (
                RocmError::Miopen {
                    call: "miopenCreate",
                    status: 7,
                    name: "miopenStatusUnknownError".to_string(),
                },
                "miopenCreate failed with miopenStatusUnknownError (7)",
            ),
            (
                RocmError::Rocrand {
                    call: "rocrand_set_seed",
                    status: 101,
                    name: "ROCRAND_STATUS_NOT_CREATED".to_string(),
                },
                "rocrand_set_seed failed with ROCRAND_STATUS_NOT_CREATED (101)",
            ),
            (
                RocmError::DeviceNotFound {
                    ordinal: 3,
                    count: 2,
                },
                "ROCm device 3 not found: 2 device(s) visible, counted from 0",
            ),
            (
                RocmError::OutOfMemory {
                    requested: 30,
                    free: 10,
                    total: 20,
                },
                "out of memory on ROCm: 30 bytes requested, 10 of 20 free",
            ),
            (
                RocmError::LengthMismatch {
                    call: "copy_to_host",
                    expected: 8,
                    got: 7,
                },
                "copy_to_host: the device memory has 8 bytes, the host memory 7",
            ),
            (
                RocmError::TooShort {
                    call: "memcpy_htod",
                    len: 8,
                    size: 7,
                },
                "memcpy_htod: 8 bytes do not fit into the 7 of the destination",
            ),
            (
                RocmError::UnexpectedDType {
                    msg: "as_rocm_slice",
                    expected: DType::F32,
                    got: DType::U8,
                },
                "as_rocm_slice, expected: F32, got: U8",
            ),
            (
                RocmError::NotGenerated {
                    op: "affine",
                    phase: 3,
                },
                "`affine` is not available on ROCm yet: it comes with phase 3 of candle-rocm, which this build does not have (`candle-rocm status CANDLE` on its tree says whether it can be applied)",
            ),
            (RocmError::from("text"), "text"),
            (RocmError::from("text".to_string()), "text"),
        ];
        for (error, text) in cases {
            assert_eq!(error.to_string(), text);
        }
    }

    #[test]
    fn errors_are_small_enough_for_results() {
        // From 128 bytes on, clippy complains of every function that returns one.
        assert!(std::mem::size_of::<Error>() < 128);
    }

    #[test]
    fn candle_errors_keep_the_type() {
        let error = Error::from(RocmError::Other("reason".to_string()));
        assert!(error.to_string().contains("reason"), "{error}");
        let error = bare(error);
        assert!(matches!(&error, Error::Rocm(RocmError::Other(text)) if text == "reason"));
    }

    #[test]
    fn a_stand_in_names_operation_and_phase() {
        match not_generated::<()>("affine", 3).map_err(bare) {
            Err(Error::Rocm(RocmError::NotGenerated { op, phase })) => {
                assert_eq!((op, phase), ("affine", 3));
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn availability_follows_the_device_count() {
        let count = device_count().unwrap_or(0);
        assert_eq!(is_available(), count > 0);
        assert_eq!(Device::is_rocm_available(), count > 0);
    }

    #[test]
    fn without_a_device_the_error_names_call_and_code() {
        if is_available() {
            return skipped(
                "without_a_device_the_error_names_call_and_code",
                "a device is there",
            );
        }
        for made in [RocmDevice::new(0), RocmDevice::new_with_stream(0)] {
            let error = made.expect_err("there is no device");
            assert!(error.to_string().contains("hipGetDeviceCount"), "{error}");
            assert!(
                error.to_string().contains("hipErrorNoDevice (100)"),
                "{error}"
            );
            match bare(error) {
                Error::Rocm(RocmError::Hip {
                    call, code, name, ..
                }) => {
                    assert_eq!((call, code), ("hipGetDeviceCount", NO_DEVICE));
                    assert_eq!(name, "hipErrorNoDevice");
                }
                other => panic!("{other}"),
            }
        }
        assert!(matches!(
            Device::new_rocm(0).map_err(bare),
            Err(Error::Rocm(RocmError::Hip { .. }))
        ));
        assert_eq!(device_count().expect("no device is no error"), 0);
    }

    #[test]
    fn rocm_if_available_falls_back_to_the_cpu() -> Result<()> {
        let device = Device::rocm_if_available(0)?;
        assert_eq!(device.is_rocm(), is_available());
        assert_eq!(device.is_cpu(), !is_available());
        Ok(())
    }

    #[test]
    fn the_cpu_is_no_rocm_device() {
        assert!(!Device::Cpu.is_rocm());
        assert!(Device::Cpu.as_rocm_device().is_err());
    }

    #[test]
    fn types_can_cross_threads() {
        fn check<T: Send + Sync>() {}
        check::<RocmDevice>();
        check::<RocmStorage>();
        check::<RocmError>();
    }
}

mod device {
    use super::*;

    #[test]
    fn the_count_is_positive() -> Result<()> {
        if gpu("the_count_is_positive").is_some() {
            assert!(device_count()? > 0);
            assert_eq!(Device::rocm_device_count()?, device_count()?);
        }
        Ok(())
    }

    #[test]
    fn a_device_knows_its_location() -> Result<()> {
        if gpu("a_device_knows_its_location").is_none() {
            return Ok(());
        }
        let device = Device::new_rocm(0)?;
        assert_eq!(device.location(), DeviceLocation::Rocm { gpu_id: 0 });
        assert!(device.is_rocm());
        assert!(!device.is_cpu());
        assert_eq!(device.as_rocm_device()?.ordinal(), 0);
        Ok(())
    }

    #[test]
    fn a_missing_ordinal_is_named() -> Result<()> {
        if gpu("a_missing_ordinal_is_named").is_none() {
            return Ok(());
        }
        let count = device_count()?;
        match RocmDevice::new(count).map_err(bare) {
            Err(Error::Rocm(RocmError::DeviceNotFound { ordinal, count: of })) => {
                assert_eq!((ordinal, of), (count, count));
            }
            other => panic!("{other:?}"),
        }
        Ok(())
    }

    #[test]
    fn properties_make_sense() -> Result<()> {
        let Some(device) = gpu("properties_make_sense") else {
            return Ok(());
        };
        let (major, minor) = device.compute_capability()?;
        let (total, free) = (device.total_memory()?, device.free_memory()?);
        println!("{} {major}.{minor}, {free} of {total} free", device.name()?);
        assert!(!device.name()?.is_empty());
        assert!(!device.gcn_arch_name()?.is_empty());
        assert!(major > 0);
        assert!(minor >= 0);
        assert!(total > 0);
        assert!(free <= total);
        Ok(())
    }

    #[test]
    fn a_gpu_is_one_device_however_often_it_is_opened() -> Result<()> {
        let Some(device) = gpu("a_gpu_is_one_device_however_often_it_is_opened") else {
            return Ok(());
        };
        let again = RocmDevice::new(0)?;
        assert_eq!(device, again);
        assert!(device.same_device(&again));
        assert_eq!(HashSet::from([device, again]).len(), 1);
        assert!(Device::new_rocm(0)?.same_device(&Device::new_rocm(0)?));
        Ok(())
    }

    #[test]
    fn a_stream_of_its_own_is_another_device() -> Result<()> {
        let Some(device) = gpu("a_stream_of_its_own_is_another_device") else {
            return Ok(());
        };
        let (one, other) = (
            RocmDevice::new_with_stream(0)?,
            RocmDevice::new_with_stream(0)?,
        );
        assert!(one.same_device(&one.clone()));
        assert!(!one.same_device(&other));
        assert!(!one.same_device(&device));
        assert_eq!(one.location(), device.location());
        assert_eq!(HashSet::from([one, other, device]).len(), 3);
        Ok(())
    }

    #[test]
    fn seeds_are_kept_and_shared_by_clones() -> Result<()> {
        let Some(device) = gpu("seeds_are_kept_and_shared_by_clones") else {
            return Ok(());
        };
        let clone = device.clone();
        device.set_seed(42)?;
        assert_eq!((device.seed(), clone.seed()), (42, 42));
        Device::Rocm(device).set_seed(u64::MAX)?;
        assert_eq!(clone.seed(), u64::MAX);
        Ok(())
    }

    #[test]
    fn synchronize_waits_on_any_thread() -> Result<()> {
        let Some(device) = gpu("synchronize_waits_on_any_thread") else {
            return Ok(());
        };
        let here = device.clone();
        std::thread::spawn(move || device.synchronize())
            .join()
            .expect("the thread does not panic")?;
        here.synchronize()?;
        Device::Rocm(here).synchronize()
    }
}

mod memory {
    use super::*;

    #[test]
    fn storage_knows_size_type_and_device() -> Result<()> {
        let Some(device) = gpu("storage_knows_size_type_and_device") else {
            return Ok(());
        };
        let slice = device.alloc_zeros::<f32>(1 << 18)?;
        let storage = RocmStorage::wrap_rocm_slice(slice, device.clone());
        assert_eq!(storage.size(), 1 << 20);
        assert_eq!(storage.dtype(), DType::F32);
        assert_eq!(storage.device(), &device);
        assert_eq!(storage.device, device);
        Ok(())
    }

    #[test]
    fn copies_come_back_unchanged() -> Result<()> {
        let Some(device) = gpu("copies_come_back_unchanged") else {
            return Ok(());
        };
        for device in [device, RocmDevice::new_with_stream(0)?] {
            for length in [0, 1, 256, 4099, (1 << 20) + 3] {
                let data = bytes(length);
                let storage = uploaded(&data, &device)?;
                assert!(downloaded(&storage)? == data, "{length} bytes");
            }
        }
        Ok(())
    }

    #[test]
    fn a_later_copy_overwrites_an_earlier_one() -> Result<()> {
        let Some(device) = gpu("a_later_copy_overwrites_an_earlier_one") else {
            return Ok(());
        };
        let mut storage = uploaded(&[1; 100], &device)?;
        overwrite(&mut storage, &[2; 100])?;
        assert_eq!(downloaded(&storage)?, [2; 100]);
        Ok(())
    }

    #[test]
    fn a_clone_is_a_copy() -> Result<()> {
        let Some(device) = gpu("a_clone_is_a_copy") else {
            return Ok(());
        };
        let data = bytes(1009);
        let mut storage = uploaded(&data, &device)?;
        let layout = Layout::contiguous(Shape::from(data.len()));
        let clone = storage.try_clone(&layout)?;
        overwrite(&mut storage, &vec![0; data.len()])?;
        drop(storage);
        assert_eq!(downloaded(&clone)?, data);
        assert_eq!(clone.dtype(), DType::U8);
        assert_eq!(clone.device(), &device);
        Ok(())
    }

    #[test]
    fn too_much_is_out_of_memory() -> Result<()> {
        let Some(device) = gpu("too_much_is_out_of_memory") else {
            return Ok(());
        };
        let wanted = 64 * device.total_memory()?;
        // SAFETY: nobody reads it.
        match unsafe { device.alloc::<u8>(wanted) }.map_err(bare) {
            Err(Error::Rocm(RocmError::OutOfMemory {
                requested,
                free,
                total,
            })) => {
                assert_eq!(requested, wanted);
                assert_eq!(total, device.total_memory()?);
                assert!(free <= total);
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(downloaded(&uploaded(&[7; 3], &device)?)?, [7; 3]);
        Ok(())
    }

    #[test]
    fn dropped_memory_can_be_used_again() -> Result<()> {
        let Some(device) = gpu("dropped_memory_can_be_used_again") else {
            return Ok(());
        };
        // In all several times what the GPU has, one eighth at a time.
        let size = device.free_memory()? / 8;
        for _ in 0..32 {
            // SAFETY: nobody reads it.
            drop(unsafe { device.alloc::<u8>(size) }?);
        }
        Ok(())
    }

    #[test]
    fn threads_can_copy_at_the_same_time() -> Result<()> {
        let Some(device) = gpu("threads_can_copy_at_the_same_time") else {
            return Ok(());
        };
        let threads: Vec<_> = (0..8u8)
            .map(|i| {
                let device = device.clone();
                std::thread::spawn(move || -> Result<bool> {
                    let data = vec![i; 10_007];
                    let storage = uploaded(&data, &device)?;
                    Ok(downloaded(&storage)? == data)
                })
            })
            .collect();
        for thread in threads {
            assert!(thread.join().expect("the thread does not panic")?);
        }
        Ok(())
    }
}
