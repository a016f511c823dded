//! llama on several GPUs.
//!
//! ```text
//! cargo run --release -p candle-nn --features rocm-rccl --example rocm_llama_parallel -- \
//!     --weights model.safetensors --heads 32 --prompt 1,15043 --ranks 2
//! ```
//!
//! `--ranks N` parts each matrix among N GPUs, each with a process of its own, or with a thread (`--threads`). On several
//! machines, start one process for each GPU yourself, with `--ranks N --rank R --gpu G --hub HOST:PORT`; rank 0 listens
//! there. `--spread N` gives each of N GPUs layers of its own instead. Without weights, those of a small model are made up.
mod model;
mod ranks;

use candle::rocm::rccl::{Comm, Id};
use candle::{DType, Device, Error, Result};
use model::{Llama, Shape};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::Duration;

struct Options {
    weights: Vec<PathBuf>,
    shape: Shape,
    dtype: DType,
    prompt: Vec<u32>,
    tokens: usize,
    ranks: usize,
    threads: bool,
    rank: Option<usize>,
    gpu: Option<usize>,
    hub: String,
    patience: Duration,
    spread: usize,
}

fn list<T: std::str::FromStr>(text: &str) -> Result<Vec<T>> {
    let entry = |entry: &str| {
        entry
            .trim()
            .parse()
            .map_err(|_| Error::Msg(format!("{entry:?} in {text:?}")).bt())
    };
    text.split(',').map(entry).collect()
}

fn one<T: std::str::FromStr>(text: &str) -> Result<T> {
    let mut values = list(text)?;
    values
        .pop()
        .filter(|_| values.is_empty())
        .ok_or_else(|| Error::Msg(format!("one value: {text:?}")).bt())
}

impl Options {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self> {
        let mut options = Self {
            weights: Vec::new(),
            shape: Shape {
                heads: 32,
                rope_theta: 10_000.,
                rms_norm_eps: 1e-5,
            },
            dtype: DType::F32,
            prompt: vec![1],
            tokens: 16,
            ranks: 1,
            threads: false,
            rank: None,
            gpu: None,
            hub: "127.0.0.1:29500".to_string(),
            patience: ranks::PATIENCE,
            spread: 0,
        };
        while let Some(name) = arguments.next() {
            if name == "--threads" {
                options.threads = true;
                continue;
            }
            let Some(value) = arguments.next() else {
                candle::bail!("{name} needs a value");
            };
            match name.as_str() {
                "--weights" => options.weights = list(&value)?,
                "--heads" => options.shape.heads = one(&value)?,
                "--rope-theta" => options.shape.rope_theta = one(&value)?,
                "--eps" => options.shape.rms_norm_eps = one(&value)?,
                "--dtype" => options.dtype = dtype(&value)?,
                "--prompt" => options.prompt = list(&value)?,
                "--tokens" => options.tokens = one(&value)?,
                "--ranks" => options.ranks = one(&value)?,
                "--rank" => options.rank = Some(one(&value)?),
                "--gpu" => options.gpu = Some(one(&value)?),
                "--hub" => options.hub = value,
                "--patience" => options.patience = Duration::from_secs(one(&value)?),
                "--spread" => options.spread = one(&value)?,
                _ => candle::bail!("unknown option {name}"),
            }
        }
        if options.weights.is_empty() {
            let file =
                std::env::temp_dir().join(format!("rocm-llama-{}.safetensors", std::process::id()));
            options.shape = model::write_random(&file)?;
            options.weights.push(file);
        }
        Ok(options)
    }

    fn most(&self) -> usize {
        self.prompt.len() + self.tokens
    }
}

fn dtype(name: &str) -> Result<DType> {
    match name {
        "f32" => Ok(DType::F32),
        "f16" => Ok(DType::F16),
        "bf16" => Ok(DType::BF16),
        _ => candle::bail!("--dtype is f32, f16 or bf16"),
    }
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let options = Options::parse(arguments.iter().cloned())?;
    if let Some(rank) = options.rank {
        let (device, comm) = ranks::join(
            rank,
            options.ranks,
            options.gpu.unwrap_or(rank),
            &options.hub,
            options.patience,
        )?;
        return say(&options, rank, &mut part(&options, &device, Some(&comm))?);
    }
    match (options.ranks, options.spread) {
        (0 | 1, 0) => {
            let device = Device::new_rocm(options.gpu.unwrap_or(0))?;
            say(&options, 0, &mut part(&options, &device, None)?)
        }
        (0 | 1, count) => {
            let devices: Vec<_> = (0..count).map(Device::new_rocm).collect::<Result<_>>()?;
            let (files, shape) = (&options.weights, options.shape);
            let llama = Llama::spread(files, shape, options.dtype, &devices, options.most());
            say(&options, 0, &mut llama?)
        }
        (count, _) if options.threads => threads(&options, count),
        (count, _) => processes(&options, &arguments, count),
    }
}

/// A rank's part of the model, or all of it.
fn part(options: &Options, device: &Device, comm: Option<&Arc<Comm>>) -> Result<Llama> {
    let (files, shape) = (&options.weights, options.shape);
    Llama::tensor_parallel(files, shape, options.dtype, device, comm, options.most())
}

/// Generates, and prints if this is rank 0.
fn say(options: &Options, rank: usize, llama: &mut Llama) -> Result<()> {
    let began = std::time::Instant::now();
    let found = llama.generate(&options.prompt, options.tokens)?;
    if rank == 0 {
        let tokens: Vec<_> = found.iter().map(|(token, _)| token.to_string()).collect();
        println!("{}", tokens.join(" "));
        eprintln!(
            "{} tokens in {:.3} s",
            tokens.len(),
            began.elapsed().as_secs_f64()
        );
    }
    Ok(())
}

fn threads(options: &Options, count: usize) -> Result<()> {
    let id = Id::new()?;
    std::thread::scope(|scope| {
        let run = |rank| {
            let (device, comm) = ranks::meet(rank, count, rank, id)?;
            say(options, rank, &mut part(options, &device, Some(&comm))?)
        };
        let ranks: Vec<_> = (0..count)
            .map(|rank| scope.spawn(move || run(rank)))
            .collect();
        let ended = ranks.into_iter().map(|rank| rank.join().expect("no panic"));
        ended.collect::<Result<Vec<()>>>()
    })?;
    Ok(())
}

/// Starts this program once for each rank.
fn processes(options: &Options, arguments: &[String], count: usize) -> Result<()> {
    let files: Vec<_> = options
        .weights
        .iter()
        .map(|file| file.display().to_string())
        .collect();
    let mut running = Vec::new();
    for rank in 0..count {
        let child = Command::new(std::env::current_exe()?)
            .args(arguments)
            .args(["--weights", &files.join(",")])
            .args(["--heads", &options.shape.heads.to_string()])
            .args(["--rank", &rank.to_string()])
            .spawn()?;
        running.push((rank, child));
    }
    let ended = wait(&mut running);
    // Those that are left would wait for one that has ended.
    for (_, child) in &mut running {
        let _ = child.kill();
        let _ = child.wait();
    }
    ended
}

/// Waits until all processes have ended well, or one has not.
fn wait(running: &mut [(usize, Child)]) -> Result<()> {
    loop {
        let mut left = 0;
        for (rank, child) in &mut *running {
            match child.try_wait()? {
                None => left += 1,
                Some(status) if status.success() => {}
                Some(status) => candle::bail!("rank {rank} ended with {status}"),
            }
        }
        if left == 0 {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
