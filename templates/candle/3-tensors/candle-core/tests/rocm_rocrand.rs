//! Random numbers by rocRAND: their range and distribution, lengths, seeds and sequences.
//!
//! Tests that need a GPU write `SKIPPED: <test>: <reason>` to stderr where there is none, and return. cargo shows it,
//! because it does not go through the captured output.
#![cfg(feature = "rocm-rocrand")]
mod rocm_types;

use candle_core::rocm::is_available;
use candle_core::{DType, Device, Result, Tensor};
use std::io::Write;

const DTYPES: [DType; 4] = [DType::F16, DType::BF16, DType::F32, DType::F64];
const MANY: usize = 20_001;

/// GPU 0, as a device of its own; None with a message, past libtest's capture, so that nobody takes a skipped test for
/// a passed one.
fn device(test: &str) -> Option<Device> {
    if is_available() {
        return Some(Device::new_rocm(0).expect("GPU 0 of a runtime that counts at least one"));
    }
    let line = format!("SKIPPED: {test}: no ROCm device\n");
    let written = std::io::stderr().write_all(line.as_bytes());
    written.expect("stderr is open");
    None
}

fn uniform(device: &Device, dtype: DType, count: usize, lo: f64, up: f64) -> Result<Vec<f64>> {
    numbers(Tensor::zeros(count, dtype, device)?.rand_like(lo, up)?)
}

fn normal(device: &Device, dtype: DType, count: usize, mean: f64, std: f64) -> Result<Vec<f64>> {
    numbers(Tensor::zeros(count, dtype, device)?.randn_like(mean, std)?)
}

fn numbers(drawn: Tensor) -> Result<Vec<f64>> {
    drawn
        .to_device(&Device::Cpu)?
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

/// The distance from 1 to the next larger number.
fn epsilon(dtype: DType) -> f64 {
    match dtype {
        DType::BF16 => 2f64.powi(-7),
        DType::F16 => 2f64.powi(-10),
        DType::F32 => f64::from(f32::EPSILON),
        _ => f64::EPSILON,
    }
}

#[test]
fn uniform_numbers_fill_their_range() -> Result<()> {
    let Some(device) = device("uniform_numbers_fill_their_range") else {
        return Ok(());
    };
    device.set_seed(1)?;
    let (lo, up) = (-2., 6.);
    for dtype in DTYPES {
        let drawn = uniform(&device, dtype, MANY, lo, up)?;
        assert_eq!(drawn.len(), MANY);
        assert!(drawn.iter().all(|x| (lo..up).contains(x)), "{dtype:?}");
        // Five standard deviations of the mean, half a unit in the last place of the largest numbers, and of how many
        // numbers lie in an eighth of the range.
        let (mean, _) = moments(&drawn);
        let sigma = (up - lo) / 12f64.sqrt();
        let near = 5. * sigma / (MANY as f64).sqrt() + 2. * epsilon(dtype);
        assert!((mean - 2.).abs() < near, "{dtype:?}: {mean}");
        for eighth in 0..8 {
            let from = lo + f64::from(eighth);
            let inside = drawn.iter().filter(|x| (from..from + 1.).contains(*x));
            let share = inside.count() as f64 / MANY as f64;
            let near = 5. * (7. / 64. / MANY as f64).sqrt() + epsilon(dtype);
            assert!((share - 0.125).abs() < near, "{dtype:?} {from}: {share}");
        }
    }
    Ok(())
}

#[test]
fn the_upper_bound_is_never_returned() -> Result<()> {
    let Some(device) = device("the_upper_bound_is_never_returned") else {
        return Ok(());
    };
    for dtype in DTYPES {
        // Two numbers lie in the range, and most of what is drawn rounds to a bound.
        let up = 1. + 2. * epsilon(dtype);
        let mut drawn = uniform(&device, dtype, MANY, 1., up)?;
        drawn.sort_by(f64::total_cmp);
        drawn.dedup();
        assert_eq!(drawn, [1., 1. + epsilon(dtype)], "{dtype:?}");
    }
    Ok(())
}

#[test]
fn normal_numbers_have_mean_and_deviation() -> Result<()> {
    let Some(device) = device("normal_numbers_have_mean_and_deviation") else {
        return Ok(());
    };
    device.set_seed(2)?;
    for dtype in DTYPES {
        let drawn = normal(&device, dtype, MANY, 3., 0.5)?;
        assert_eq!(drawn.len(), MANY);
        let (mean, deviation) = moments(&drawn);
        let root = (MANY as f64).sqrt();
        assert!((mean - 3.).abs() < 5. * 0.5 / root, "{dtype:?}: {mean}");
        // Rounding to the type adds the variance of its steps, which are 2 epsilon wide between 2 and 4.
        let rounding = epsilon(dtype) * epsilon(dtype);
        let near = 5. * 0.5 / (2f64.sqrt() * root) + rounding;
        assert!((deviation - 0.5).abs() < near, "{dtype:?}: {deviation}");
        let within = drawn.iter().filter(|x| (*x - 3.).abs() < 0.5).count();
        let share = within as f64 / MANY as f64;
        let near = 5. * (0.6827f64 * 0.3173).sqrt() / root + epsilon(dtype);
        assert!((share - 0.6827).abs() < near, "{dtype:?}: {share}");
    }
    Ok(())
}

#[test]
fn any_length_is_the_beginning_of_a_longer_one() -> Result<()> {
    let Some(device) = device("any_length_is_the_beginning_of_a_longer_one") else {
        return Ok(());
    };
    for dtype in DTYPES {
        // Even, because rocRAND makes normal numbers in pairs.
        device.set_seed(3)?;
        let normals = normal(&device, dtype, 1024, 0., 1.)?;
        device.set_seed(3)?;
        let uniforms = uniform(&device, dtype, 1024, 0., 1.)?;
        assert_ne!(normals, uniforms);
        for count in [0, 1, 2, 3, 7, 64, 257, 1023] {
            device.set_seed(3)?;
            let short = normal(&device, dtype, count, 0., 1.)?;
            assert_eq!(short, normals[..count], "{dtype:?} {count}");
            device.set_seed(3)?;
            let short = uniform(&device, dtype, count, 0., 1.)?;
            assert_eq!(short, uniforms[..count], "{dtype:?} {count}");
        }
    }
    Ok(())
}

#[test]
fn a_seed_starts_its_sequence() -> Result<()> {
    let Some(device) = device("a_seed_starts_its_sequence") else {
        return Ok(());
    };
    let draw = || uniform(&device, DType::F32, 501, 0., 1.);
    let unseeded = draw()?;
    device.set_seed(7)?;
    let (first, second) = (draw()?, draw()?);
    assert!(first != second && first != unseeded);
    device.set_seed(7)?;
    assert_eq!((draw()?, draw()?), (first.clone(), second));
    // The seed that is set already, after the beginning, and one with other upper bits.
    device.set_seed(7)?;
    assert_eq!(draw()?, first);
    device.set_seed(7 | 1 << 40)?;
    assert_ne!(draw()?, first);
    Ok(())
}

#[test]
fn what_rocrand_lacks_does_not_disturb_its_sequence() -> Result<()> {
    let Some(device) = device("what_rocrand_lacks_does_not_disturb_its_sequence") else {
        return Ok(());
    };
    device.set_seed(8)?;
    let expected = uniform(&device, DType::F32, 100, 0., 1.)?;
    device.set_seed(8)?;
    assert!(uniform(&device, DType::U32, 100, 0., 1.).is_err());
    assert!(uniform(&device, DType::F32, 100, 1., 1.).is_err());
    assert!(normal(&device, DType::F32, 100, 1., f64::INFINITY).is_err());
    // f8e4m3, which old releases do not have.
    let narrow = |dtype: &&DType| dtype.is_float() && dtype.size_in_bytes() == 1;
    for dtype in rocm_types::DTYPES.iter().filter(narrow) {
        let narrow = Tensor::zeros(100, DType::F32, &device)?.to_dtype(*dtype)?;
        let drawn = narrow.rand_like(0., 1.)?.to_dtype(DType::F32)?;
        assert!(numbers(drawn)?.iter().all(|x| (0. ..1.).contains(x)));
    }
    assert_eq!(uniform(&device, DType::F32, 100, 0., 1.)?, expected);
    Ok(())
}

#[test]
fn devices_made_apart_have_sequences_apart_and_clones_share_one() -> Result<()> {
    let name = "devices_made_apart_have_sequences_apart_and_clones_share_one";
    let (Some(first), Some(second)) = (device(name), device(name)) else {
        return Ok(());
    };
    let draw = |device: &Device| uniform(device, DType::F64, 33, 0., 1.);
    first.set_seed(9)?;
    second.set_seed(9)?;
    let (one, two) = (draw(&first)?, draw(&first.clone())?);
    assert_ne!(one, two);
    assert_eq!((draw(&second)?, draw(&second)?), (one, two));
    Ok(())
}

#[test]
fn numbers_outlive_the_device_and_threads_share_it() -> Result<()> {
    let name = "numbers_outlive_the_device_and_threads_share_it";
    let Some(device) = device(name) else {
        return Ok(());
    };
    device.set_seed(10)?;
    let last = Tensor::rand(0f32, 1., 1000, &device)?;
    let drawn: Vec<Vec<f64>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| normal(&device, DType::F32, 999, 0., 1.)))
            .collect();
        let joined = threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"));
        joined.collect::<Result<_>>()
    })?;
    drop(device);
    for (i, numbers) in drawn.iter().enumerate() {
        assert!(drawn[..i].iter().all(|others| others != numbers));
        let (mean, deviation) = moments(numbers);
        assert!(mean.abs() < 0.2 && (deviation - 1.).abs() < 0.2);
    }
    assert!(numbers(last)?.iter().all(|x| (0. ..1.).contains(x)));
    Ok(())
}
