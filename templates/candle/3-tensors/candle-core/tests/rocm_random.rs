//! Random numbers of every floating-point type: their range, their distribution, and what a seed gives.
//!
//! As in rocm_basic.rs, a test that lacks the GPU it needs writes `SKIPPED: <test>: <reason>` to stderr.
#![cfg(feature = "rocm")]
mod rocm_types;
mod rocm_ulp;

use candle_core::rocm::is_available;
use candle_core::{DType, Device, Result, Tensor};
use rocm_types::DTYPES;
use rocm_ulp::ulp;
use std::io::Write;

/// No multiple of what a thread draws at once, and more than a block of threads does.
const MANY: usize = 20_011;
/// Standard errors that a mean may be off; seeds are fixed, so a test that passes once always does.
const SIGMAS: f64 = 6.;

/// Each type, and the distance from 1 to the next larger number.
fn floats() -> impl Iterator<Item = (DType, f64)> {
    let floats = DTYPES.iter().filter(|dtype| dtype.is_float());
    floats.map(|&dtype| (dtype, ulp(dtype, 1.)))
}

/// GPU 0, as a device of its own; None with a message, past libtest's capture, so that nobody takes a skipped test for
/// a passed one.
fn gpu(test: &str) -> Option<Device> {
    if is_available() {
        return Some(Device::new_rocm(0).expect("GPU 0 of a runtime that counts at least one"));
    }
    let line = format!("SKIPPED: {test}: no ROCm device\n");
    let written = std::io::stderr().write_all(line.as_bytes());
    written.expect("stderr is open");
    None
}

fn like(dtype: DType, count: usize, device: &Device) -> Result<Tensor> {
    Tensor::zeros(count, DType::F32, device)?.to_dtype(dtype)
}

fn numbers(drawn: &Tensor) -> Result<Vec<f64>> {
    let wide = match drawn.dtype() {
        DType::F64 => drawn.clone(),
        _ => drawn.to_dtype(DType::F32)?,
    };
    wide.to_device(&Device::Cpu)?
        .to_dtype(DType::F64)?
        .to_vec1()
}

/// Mean and standard deviation.
fn moments(numbers: &[f64]) -> (f64, f64) {
    let count = numbers.len() as f64;
    let mean = numbers.iter().sum::<f64>() / count;
    let squares = numbers.iter().map(|x| (x - mean) * (x - mean));
    (mean, (squares.sum::<f64>() / count).sqrt())
}

fn assert_near(found: f64, wanted: f64, error: f64, what: &str) {
    assert!(
        (found - wanted).abs() <= error,
        "{what}: {found} instead of {wanted}, give or take {error}"
    );
}

#[test]
fn uniform_numbers_fill_their_range() -> Result<()> {
    let Some(device) = gpu("uniform_numbers_fill_their_range") else {
        return Ok(());
    };
    device.set_seed(11)?;
    for (dtype, epsilon) in floats() {
        for (lo, up) in [(0., 1.), (-3., 5.), (2., 2.5)] {
            let drawn = numbers(&like(dtype, MANY, &device)?.rand_like(lo, up)?)?;
            let what = format!("{dtype:?} in [{lo}, {up})");
            assert!(drawn.iter().all(|x| (lo..up).contains(x)), "{what}");
            let width = up - lo;
            let rounded = epsilon * f64::max(lo.abs(), up.abs());
            let of_mean = SIGMAS * width / (12. * MANY as f64).sqrt() + rounded;
            let (mean, deviation) = moments(&drawn);
            assert_near(mean, (lo + up) / 2., of_mean, &format!("mean of {what}"));
            let wanted = width / 12f64.sqrt();
            assert_near(deviation, wanted, of_mean, &format!("deviation of {what}"));
            let least = drawn.iter().copied().fold(f64::INFINITY, f64::min);
            let most = drawn.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let of_ends = width / 256. + rounded;
            assert_near(least, lo, of_ends, &format!("least of {what}"));
            assert_near(most, up, of_ends, &format!("most of {what}"));
        }
    }
    Ok(())
}

#[test]
fn normal_numbers_have_their_mean_and_deviation() -> Result<()> {
    let Some(device) = gpu("normal_numbers_have_their_mean_and_deviation") else {
        return Ok(());
    };
    device.set_seed(12)?;
    for (dtype, epsilon) in floats() {
        for (mean, std) in [(0., 1.), (-4., 0.5), (1., 3.)] {
            let drawn = numbers(&like(dtype, MANY, &device)?.randn_like(mean, std)?)?;
            let what = format!("{dtype:?} about {mean} by {std}");
            let rounded = epsilon * f64::max(mean.abs(), std);
            let of_mean = SIGMAS * std / (MANY as f64).sqrt() + rounded;
            let (found, deviation) = moments(&drawn);
            assert_near(found, mean, of_mean, &format!("mean of {what}"));
            assert_near(deviation, std, of_mean, &format!("deviation of {what}"));
            let beyond = drawn.iter().filter(|&&x| (x - mean).abs() > 2. * std);
            let share = beyond.count() as f64 / MANY as f64;
            assert_near(share, 0.0455, 0.01 + epsilon, &format!("tails of {what}"));
        }
    }
    Ok(())
}

#[test]
fn a_seed_gives_the_same_numbers_again_and_other_seeds_others() -> Result<()> {
    let Some(device) = gpu("a_seed_gives_the_same_numbers_again_and_other_seeds_others") else {
        return Ok(());
    };
    for (dtype, _) in floats() {
        let draw = |seed: u64| -> Result<[Vec<f64>; 3]> {
            device.set_seed(seed)?;
            let x = like(dtype, 1003, &device)?;
            Ok([
                numbers(&x.rand_like(0., 1.)?)?,
                numbers(&x.rand_like(0., 1.)?)?,
                numbers(&x.randn_like(0., 1.)?)?,
            ])
        };
        let [first, second, normal] = draw(5)?;
        assert_ne!(first, second, "{dtype:?}: the next call goes on");
        assert_eq!(draw(5)?, [first.clone(), second, normal], "{dtype:?}");
        assert_ne!(draw(6)?[0], first, "{dtype:?}: another seed");
    }
    Ok(())
}
