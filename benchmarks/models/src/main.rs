//! Times of drawn convolutions (`convolutions NUMBER SEED`) and of whole models (`models`), side by side on the devices of
//! one build. Weights are made up; results are compared between devices.
mod convolutions;
mod models;

use candle::{DType, Device, Result, Tensor};
use std::time::Instant;

/// Seconds of a measurement; of several, in turns, the shortest counts.
const SECONDS: f64 = 0.03;
const ROUNDS: usize = 3;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| {
        let text: &String = arguments
            .get(at)
            .ok_or_else(|| candle::Error::msg("a number is missing"))?;
        text.parse().map_err(candle::Error::wrap)
    };
    match arguments.first().map(String::as_str) {
        Some("convolutions") => convolutions::time(number(1)?, number(2)? as u64),
        Some("models") => models::time(),
        _ => candle::bail!("`convolutions NUMBER SEED` and `models` can be timed"),
    }
}

/// Those of this build that answer.
fn devices() -> Vec<(&'static str, Device)> {
    let all = [("cuda", Device::new_cuda(0)), ("rocm", Device::new_rocm(0))];
    let there = |(name, device): (_, Result<Device>)| device.ok().map(|device| (name, device));
    all.into_iter().filter_map(there).collect()
}

/// What is timed, on one device.
struct Work<'a> {
    device: &'a Device,
    run: Box<dyn Fn() -> Result<Tensor> + 'a>,
}

/// Seconds of each piece of work, and how far the last one's result is from the first one's.
fn measured(works: &[Work<'_>]) -> Result<(Vec<f64>, Option<f64>)> {
    let results = works.iter().map(|work| (work.run)());
    let results = results.collect::<Result<Vec<_>>>()?;
    let apart = match results.as_slice() {
        [first, .., last] => Some(difference(first, last)?),
        _ => None,
    };
    Ok((seconds(works)?, apart))
}

/// Seconds of each piece of work, in turns.
fn seconds(works: &[Work<'_>]) -> Result<Vec<f64>> {
    let mut best = vec![f64::INFINITY; works.len()];
    for _ in 0..ROUNDS {
        for (work, best) in works.iter().zip(&mut best) {
            *best = best.min(seconds_of(work)?);
        }
    }
    Ok(best)
}

/// Of one run, in a series of them.
fn seconds_of(work: &Work<'_>) -> Result<f64> {
    let mut count = 1;
    loop {
        work.device.synchronize()?;
        let start = Instant::now();
        for _ in 0..count {
            std::hint::black_box((work.run)()?);
        }
        work.device.synchronize()?;
        let took = start.elapsed().as_secs_f64();
        if took > SECONDS {
            return Ok(took / f64::from(count));
        }
        count = (f64::from(count) * (SECONDS / took * 1.2).clamp(1.5, 100.)) as u32;
    }
}

/// Relative difference of two results in the 2-norm.
fn difference(a: &Tensor, b: &Tensor) -> Result<f64> {
    let flat = |tensor: &Tensor| -> Result<Vec<f32>> {
        let tensor = tensor.to_dtype(DType::F32)?.to_device(&Device::Cpu)?;
        tensor.flatten_all()?.to_vec1()
    };
    let (a, b) = (flat(a)?, flat(b)?);
    let square = |x: f32| f64::from(x) * f64::from(x);
    let apart: f64 = a.iter().zip(&b).map(|(a, b)| square(a - b)).sum();
    let whole: f64 = a.iter().map(|a| square(*a)).sum();
    Ok((apart / whole).sqrt())
}

/// `name`, each device's time, and how many times as fast the last one is as the first one.
fn report(name: &str, devices: &[(&str, Device)], times: &[f64], difference: Option<f64>) {
    let each = devices
        .iter()
        .zip(times)
        .map(|((device, _), time)| format!("{device} {:.1} us", time * 1e6));
    let each: Vec<_> = each.collect();
    let factor = match times {
        [first, .., last] => format!(", {:.2} x", first / last),
        _ => String::new(),
    };
    let difference = difference.map_or(String::new(), |apart| format!(", {apart:.1e} apart"));
    println!("{name}: {}{factor}{difference}", each.join(", "));
}
