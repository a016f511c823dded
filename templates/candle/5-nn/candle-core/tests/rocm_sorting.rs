//! Sorted rows of one tile, of several to a tile, and of many tiles that are merged, for every order of numbers.
//!
//! As in rocm_basic.rs, a test without a GPU writes `SKIPPED: <test>: <reason>` to stderr.
#![cfg(feature = "rocm")]
mod rocm_gpu;

use candle_core::{DType, Device, Result, Tensor};
use rocm_gpu::gpu;

/// `count` integers of `0..below`, which repeat at no period that a kernel might have.
fn integers(count: usize, below: u64, seed: u64) -> Vec<f64> {
    let mut state = seed;
    let mut next = || {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        ((state >> 33) % below) as f64
    };
    (0..count).map(|_| next()).collect()
}

/// Rows of few different numbers, so that many are equal: these have to stay in order.
#[test]
fn rows_of_any_length_are_sorted() -> Result<()> {
    let Some(device) = gpu("rows_of_any_length_are_sorted") else {
        return Ok(());
    };
    for (rows, length) in [
        (7, 3),
        (300, 1),
        (3, 2049),
        (2, 4096),
        (2, 10_007),
        (1, 40_009),
    ] {
        for (dtype, least) in [
            (DType::U8, 0.),
            (DType::U32, 0.),
            (DType::I64, -30.),
            (DType::BF16, -30.),
            (DType::F16, -30.),
            (DType::F32, -30.),
            (DType::F64, -30.),
        ] {
            let drawn = integers(rows * length, 61, 1);
            let data: Vec<f64> = drawn.iter().map(|number| number + least).collect();
            let x = Tensor::from_slice(&data, (rows, length), &Device::Cpu)?
                .to_dtype(dtype)?
                .to_device(&device)?;
            for ascending in [true, false] {
                let found = x.arg_sort_last_dim(ascending)?.to_vec2::<u32>()?;
                for (row, found) in data.chunks(length).zip(&found) {
                    let mut wanted: Vec<u32> = (0..length as u32).collect();
                    wanted.sort_by(|&a, &b| {
                        let (a, b) = (row[a as usize], row[b as usize]);
                        let order = a.total_cmp(&b);
                        if ascending {
                            order
                        } else {
                            order.reverse()
                        }
                    });
                    let differs = found.iter().zip(&wanted).position(|(a, b)| a != b);
                    assert_eq!(differs, None, "{dtype:?}, {rows} x {length}, {ascending}");
                    assert_eq!(found.len(), length);
                }
            }
        }
    }
    Ok(())
}
