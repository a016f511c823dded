//! How long the host takes to have small operations done by GPU 0, and when they are done.
//!
//! ```text
//! cargo run --release -p candle-nn --features rocm --example rocm_overhead
//! ```
//!
//! "host" is the time until the call returns, with the result's memory allocated and the launch queued; "done" is the
//! time until the GPU has finished, per call where many follow each other. Medians of bursts, in microseconds.
use candle::rocm_backend::driver::LaunchConfig;
use candle::rocm_backend::WrapErr;
use candle::{DType, Device, Module, Result, Tensor, D};
use candle_nn::{loss, ops, rotary_emb, Linear, Optimizer, VarBuilder, VarMap, SGD};
use std::time::Instant;

/// Calls in a row, fewer than a GPU's queue takes before it makes the host wait.
const CALLS: usize = 100;
const BURSTS: usize = 31;

fn main() -> Result<()> {
    let device = Device::new_rocm(0)?;
    println!("{:36} {:>8} {:>8}", "microseconds", "host", "done");
    parts(&device)?;
    small_operations(&device)?;
    chain(&device)?;
    training_step(&device)?;
    transformer_block(&device)
}

/// What a burst of calls took, per call.
struct Timing {
    host: f64,
    done: f64,
}

/// Median microseconds of a call.
fn timed(device: &Device, calls: usize, mut call: impl FnMut() -> Result<()>) -> Result<Timing> {
    let (mut host, mut done) = (Vec::new(), Vec::new());
    for burst in 0..=BURSTS {
        device.synchronize()?;
        let start = Instant::now();
        for _ in 0..calls {
            call()?;
        }
        let queued = start.elapsed();
        device.synchronize()?;
        // The first burst compiles kernels and fills the cache of memory.
        if burst > 0 {
            host.push(queued.as_secs_f64());
            done.push(start.elapsed().as_secs_f64());
        }
    }
    let median = |times: &mut Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2] * 1e6 / calls as f64
    };
    Ok(Timing {
        host: median(&mut host),
        done: median(&mut done),
    })
}

fn report(
    device: &Device,
    name: &str,
    calls: usize,
    call: impl FnMut() -> Result<()>,
) -> Result<()> {
    let timing = timed(device, calls, call)?;
    println!("{name:36} {:8.2} {:8.2}", timing.host, timing.done);
    Ok(())
}

/// As `report`, and how much of the memory came from the cache.
fn report_with_memory(
    device: &Device,
    name: &str,
    mut call: impl FnMut() -> Result<()>,
) -> Result<()> {
    const CALLS: usize = 4;
    timed(device, CALLS, &mut call)?;
    let before = device.as_rocm_device()?.memory_stats();
    report(device, name, CALLS, call)?;
    let after = device.as_rocm_device()?.memory_stats();
    println!(
        "    allocations: {} from the cache, {} by the GPU's runtime",
        after.reuses - before.reuses,
        after.device_allocations - before.device_allocations
    );
    Ok(())
}

/// Numbers between -1 and 1.
fn numbers(shape: (usize, usize), device: &Device) -> Result<Tensor> {
    let numbers = (0..shape.0 * shape.1).map(|i| (i % 255) as f32 / 127. - 1.);
    Tensor::from_vec(numbers.collect::<Vec<_>>(), shape, device)
}

/// What each operation is made of: a tensor, memory for it, and a launch.
fn parts(device: &Device) -> Result<()> {
    const ELEMENTS: usize = 128 * 128;
    const NOTHING: &str = "extern \"C\" __global__ void nothing() {}";
    let rocm = device.as_rocm_device()?;
    let square = numbers((128, 128), device)?;
    report(device, "view of a tensor", CALLS, || square.t().map(drop))?;
    report(device, "memory of 64 KiB from the cache", CALLS, || {
        // SAFETY: nobody reads it.
        unsafe { rocm.alloc::<f32>(ELEMENTS) }.map(drop)
    })?;
    let nothing = rocm.get_or_load_custom_func("nothing", "nothing.hip", NOTHING)?;
    let config = LaunchConfig::for_num_elems(ELEMENTS as u32);
    report(device, "launch of an empty kernel", CALLS, || {
        // SAFETY: a kernel without parameters that touches no memory.
        unsafe { nothing.builder().launch(config) }.w()
    })
}

fn small_operations(device: &Device) -> Result<()> {
    let square = numbers((128, 128), device)?;
    let rows = numbers((16, 1024), device)?;
    let long = numbers((4, 4096), device)?;
    let alpha = Tensor::ones(4096, DType::F32, device)?;
    let turned = square.t()?;
    type Operation<'a> = Box<dyn Fn() -> Result<Tensor> + 'a>;
    let operations: [(&str, Operation); 9] = [
        ("relu 128x128", Box::new(|| square.relu())),
        ("gelu 128x128", Box::new(|| square.gelu())),
        ("add 128x128", Box::new(|| &square + &square)),
        ("affine 128x128", Box::new(|| square.affine(1.5, 0.25))),
        (
            "cast f32 to f16 128x128",
            Box::new(|| square.to_dtype(DType::F16)),
        ),
        ("transpose 128x128", Box::new(|| turned.contiguous())),
        (
            "sum of the last dimension 16x1024",
            Box::new(|| rows.sum_keepdim(D::Minus1)),
        ),
        ("softmax 16x1024", Box::new(|| ops::softmax_last_dim(&rows))),
        (
            "rms_norm 4x4096",
            Box::new(|| ops::rms_norm(&long, &alpha, 1e-5)),
        ),
    ];
    for (name, operation) in operations {
        report(device, name, CALLS, || operation().map(drop))?;
    }
    Ok(())
}

/// 50 operations that need each other's results.
fn chain(device: &Device) -> Result<()> {
    const STEPS: usize = 10;
    let start = numbers((128, 128), device)?;
    let run = || {
        let mut x = start.clone();
        for _ in 0..STEPS {
            x = (x.affine(0.5, 0.1)?.tanh()? + &start)?
                .t()?
                .contiguous()?
                .relu()?;
        }
        Ok(())
    };
    let timing = timed(device, 4, run)?;
    let each = |time: f64| time / (5 * STEPS) as f64;
    let (host, done) = (each(timing.host), each(timing.done));
    println!(
        "{:36} {host:8.2} {done:8.2}",
        "each of 50 operations in a chain"
    );
    Ok(())
}

/// A step of a small classifier: forward, backward and update.
fn training_step(device: &Device) -> Result<()> {
    let variables = VarMap::new();
    let vb = VarBuilder::from_varmap(&variables, DType::F32, device);
    let first = candle_nn::linear(784, 128, vb.pp("first"))?;
    let second = candle_nn::linear(128, 10, vb.pp("second"))?;
    let images = numbers((64, 784), device)?;
    let labels = Tensor::from_vec((0..64).map(|i| i % 10).collect::<Vec<u32>>(), 64, device)?;
    let mut optimizer = SGD::new(variables.all_vars(), 0.01)?;
    report_with_memory(device, "training step, 784-128-10, 64 images", || {
        let logits = second.forward(&first.forward(&images)?.relu()?)?;
        optimizer.backward_step(&loss::cross_entropy(&logits, &labels)?)
    })
}

/// Attention and a feed-forward part of a llama's layer.
fn transformer_block(device: &Device) -> Result<()> {
    const WIDTH: usize = 1024;
    const HEADS: usize = 16;
    const TOKENS: usize = 128;
    const HEAD: usize = WIDTH / HEADS;
    let weight = |rows: usize, columns: usize| -> Result<Linear> {
        let weight = (numbers((rows, columns), device)? * 0.03)?;
        Ok(Linear::new(weight.to_dtype(DType::F16)?, None))
    };
    let (query, key, value, output) = (
        weight(WIDTH, WIDTH)?,
        weight(WIDTH, WIDTH)?,
        weight(WIDTH, WIDTH)?,
        weight(WIDTH, WIDTH)?,
    );
    let (gate, up, down) = (
        weight(4 * WIDTH, WIDTH)?,
        weight(4 * WIDTH, WIDTH)?,
        weight(WIDTH, 4 * WIDTH)?,
    );
    let alpha = Tensor::ones(WIDTH, DType::F16, device)?;
    let angles = numbers((TOKENS, HEAD / 2), device)?;
    let (cos, sin) = (
        angles.cos()?.to_dtype(DType::F16)?,
        angles.sin()?.to_dtype(DType::F16)?,
    );
    let tokens = numbers((TOKENS, WIDTH), device)?.to_dtype(DType::F16)?;
    let tokens = tokens.unsqueeze(0)?;
    let heads = |x: Tensor| -> Result<Tensor> {
        x.reshape((1, TOKENS, HEADS, HEAD))?
            .transpose(1, 2)?
            .contiguous()
    };
    report_with_memory(device, "transformer block, 128x1024, f16", || {
        let x = ops::rms_norm(&tokens, &alpha, 1e-5)?;
        let q = rotary_emb::rope(&heads(query.forward(&x)?)?, &cos, &sin)?;
        let k = rotary_emb::rope(&heads(key.forward(&x)?)?, &cos, &sin)?;
        let v = heads(value.forward(&x)?)?;
        let scores = (q.matmul(&k.t()?)? * (1. / (HEAD as f64).sqrt()))?;
        let mixed = ops::softmax_last_dim(&scores)?.matmul(&v)?;
        let mixed = mixed.transpose(1, 2)?.reshape((1, TOKENS, WIDTH))?;
        let x = (output.forward(&mixed)? + &tokens)?;
        let y = ops::rms_norm(&x, &alpha, 1e-5)?;
        let y = (gate.forward(&y)?.silu()? * up.forward(&y)?)?;
        (down.forward(&y)? + x).map(drop)
    })
}
