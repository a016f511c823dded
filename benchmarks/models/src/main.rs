//! Times of drawn convolutions (`convolutions NUMBER SEED [FROM]`) and of whole models (`models [NAME...]`), side by side
//! on the devices of one build. Weights are made up; results are compared between devices. A row is timed if its name
//! contains one of the names given, and printed as soon as it is.
mod convolutions;
mod decode;
mod images;
mod llama;
mod made_up;
mod texts;
mod training;

// The llama of Candle's example `rocm_decode`, whose step can be captured.
#[path = "../../../templates/candle/5-nn/candle-nn/examples/rocm_decode/attention.rs"]
mod attention;
#[path = "../../../templates/candle/5-nn/candle-nn/examples/rocm_decode/model.rs"]
#[allow(dead_code)] // It generates texts, too.
mod model;

use candle::{DType, Device, Result, Tensor};
use std::time::Instant;

/// Seconds of a measurement; of several, in turns, the shortest counts.
const SECONDS: f64 = 0.03;
/// Seconds of a run from which on one measurement is enough.
const LONG: f64 = 1.;
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
        Some("convolutions") => {
            let from = arguments.get(3).map_or(Ok(1), |_| number(3))?;
            convolutions::time(number(1)?, number(2)? as u64, from)
        }
        Some("models") => {
            models(&Rows(arguments[1..].to_vec()));
            Ok(())
        }
        _ => candle::bail!("`convolutions NUMBER SEED [FROM]` and `models [NAME...]` can be timed"),
    }
}

fn models(rows: &Rows) {
    decode::time(rows);
    llama::time(rows);
    texts::time(rows);
    images::time(rows);
    training::time(rows);
}

/// The rows that are asked for, by parts of their names; all of them if there are none.
struct Rows(Vec<String>);

impl Rows {
    fn want(&self, name: &str) -> bool {
        self.0.is_empty() || self.0.iter().any(|part| name.contains(part))
    }

    /// Times a row if it is asked for. An error is the row's own.
    fn time(&self, name: &str, row: impl FnOnce() -> Result<String>) {
        if self.want(name) {
            let said = row().unwrap_or_else(|error| error.to_string());
            println!("{name}: {said}");
        }
    }
}

/// Those of this build that answer.
fn devices() -> Vec<(&'static str, Device)> {
    let rocm = Device::new_rocm_with_stream(0);
    let all = [("cuda", Device::new_cuda(0)), ("rocm", rocm)];
    let there = |(name, device): (_, Result<Device>)| device.ok().map(|device| (name, device));
    all.into_iter().filter_map(there).collect()
}

/// What is timed, on one device.
struct Work<'a> {
    name: &'a str,
    device: &'a Device,
    run: Box<dyn Fn() -> Result<Tensor> + 'a>,
}

/// What is counted in a second.
#[derive(Clone, Copy)]
struct Rate(usize, &'static str);

/// Each piece of work's time, how many times as fast the last one is as the first one, and how far its result is from the
/// first one's.
fn measured(works: &[Work<'_>], rate: Option<Rate>) -> Result<String> {
    let apart = difference_of(works)?;
    Ok(said(works, &seconds(works)?, rate) + &apart.map_or(String::new(), apart_said))
}

fn apart_said(apart: f64) -> String {
    format!(", {apart:.1e} apart")
}

/// Between the results of the first and the last one.
fn difference_of(works: &[Work<'_>]) -> Result<Option<f64>> {
    let results = works.iter().map(|work| (work.run)());
    let results = results.collect::<Result<Vec<_>>>()?;
    match results.as_slice() {
        [first, .., last] => difference(first, last).map(Some),
        _ => Ok(None),
    }
}

/// Seconds of each piece of work, in turns.
fn seconds(works: &[Work<'_>]) -> Result<Vec<f64>> {
    let mut best = vec![f64::INFINITY; works.len()];
    for _ in 0..ROUNDS {
        for (work, best) in works.iter().zip(&mut best) {
            if best.is_infinite() || *best < LONG {
                *best = best.min(seconds_of(work)?);
            }
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

/// Each piece of work's time, and how many times as fast the last one is as the first one.
fn said(works: &[Work<'_>], times: &[f64], rate: Option<Rate>) -> String {
    let each = works.iter().zip(times).map(|(work, time)| {
        let rate = rate.map_or(String::new(), |Rate(count, of)| {
            format!(" ({:.0} {of}/s)", count as f64 / time)
        });
        format!("{} {:.1} us{rate}", work.name, time * 1e6)
    });
    let each: Vec<_> = each.collect();
    let factor = match times {
        [first, .., last] => format!(", {:.2} x", first / last),
        _ => String::new(),
    };
    each.join(", ") + &factor
}
