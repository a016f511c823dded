//! Blocks that are in the host's memory already, as in a file that is mapped.
//!
//! As in rocm_basic.rs, a test without a GPU writes `SKIPPED: <test>: <reason>` to stderr.
#![cfg(feature = "rocm")]
use candle_core::quantized::{GgmlDType, QStorage, QTensor};
use candle_core::{rocm::is_available, Device, Result, RocmDevice};
use std::borrow::Cow;
use std::io::Write;

/// GPU 0 on a stream of its own, so that other tests do not change its statistics, or None with a message.
fn gpu(test: &str) -> Option<RocmDevice> {
    if !is_available() {
        // Past libtest's capture, so that nobody takes a skipped test for a passed one.
        let line = format!("SKIPPED: {test}: no ROCm device\n");
        let written = std::io::stderr().write_all(line.as_bytes());
        written.expect("stderr is open");
        return None;
    }
    Some(RocmDevice::new_with_stream(0).expect("GPU 0 of a runtime that counts at least one"))
}

#[test]
fn blocks_begin_at_any_byte() -> Result<()> {
    let Some(rocm) = gpu("blocks_begin_at_any_byte") else {
        return Ok(());
    };
    let device = Device::Rocm(rocm);
    let mapped: Vec<u8> = (0..=255).collect();
    for (format, size) in [
        (GgmlDType::F32, 128),
        (GgmlDType::BF16, 64),
        (GgmlDType::Q4_0, 18),
        (GgmlDType::Q6K, 210),
    ] {
        for start in 0..4 {
            let blocks = &mapped[start..start + size];
            let storage = QStorage::from_data(Cow::Borrowed(blocks), &device, format)?;
            let elements = size / format.type_size() * format.block_size();
            let tensor = QTensor::new(storage, elements)?;
            assert_eq!(tensor.data()?, blocks, "{format:?} from {start} on");
        }
    }
    Ok(())
}

#[test]
fn owned_blocks_are_free_at_once() -> Result<()> {
    let Some(rocm) = gpu("owned_blocks_are_free_at_once") else {
        return Ok(());
    };
    let device = Device::Rocm(rocm);
    // Large enough for the host to unmap it.
    let blocks: Vec<u8> = (0..18 * 200_000).map(|i| (i % 251) as u8).collect();
    let storage = QStorage::from_data(Cow::Owned(blocks.clone()), &device, GgmlDType::Q4_0)?;
    let tensor = QTensor::new(storage, (200_000, 32))?;
    assert!(tensor.data()? == blocks);
    Ok(())
}

#[test]
fn parts_of_a_block_are_refused() -> Result<()> {
    let Some(rocm) = gpu("parts_of_a_block_are_refused") else {
        return Ok(());
    };
    let device = Device::Rocm(rocm.clone());
    for (format, size) in [
        (GgmlDType::F32, 6),
        (GgmlDType::Q4_0, 35),
        (GgmlDType::Q8K, 291),
    ] {
        let blocks = vec![0; size];
        let Err(error) = QStorage::from_data(Cow::Owned(blocks), &device, format) else {
            panic!("{size} bytes of {format:?} were taken");
        };
        let error = error.to_string();
        assert!(error.contains(&format!("{size} bytes")), "{error}");
        assert!(error.contains("whole number"), "{error}");
    }
    assert_eq!(rocm.memory_stats().device_allocations, 0);
    Ok(())
}
