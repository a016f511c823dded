//! Operations that are captured once, and launched as a graph with other inputs: results are those of the operations.
//!
//! As in rocm_basic.rs, a test without a GPU writes `SKIPPED: <test>: <reason>` to stderr.
#![cfg(feature = "rocm")]
mod rocm_gpu;

use candle_core::rocm::driver::{RocmGraph, RocmStream, StreamCaptureMode};
use candle_core::{DType, Device, Result, Tensor, D};
use rocm_gpu::gpu;
use std::sync::Arc;

/// A GPU with a stream of its own, which can be captured.
fn own_gpu(test: &str) -> Result<Option<Device>> {
    gpu(test)
        .map(|_| Device::new_rocm_with_stream(0))
        .transpose()
}

fn stream(device: &Device) -> Result<Arc<RocmStream>> {
    Ok(device.as_rocm_device()?.rocm_stream())
}

/// What `work` makes, and a graph of it. Its kernels are loaded before.
fn captured<T>(device: &Device, work: impl Fn() -> Result<T>) -> Result<(T, RocmGraph)> {
    work()?;
    let stream = stream(device)?;
    stream.begin_capture(StreamCaptureMode::ThreadLocal)?;
    let made = work();
    let graph = stream.end_capture()?.expect("something was captured");
    Ok((made?, graph))
}

/// Numbers of `shape` that differ from seed to seed.
fn numbers(shape: (usize, usize), seed: usize, device: &Device) -> Result<Tensor> {
    let number = |i: usize| ((i * 37 + seed * 11) % 29) as f32 / 7. - 2.;
    let numbers: Vec<f32> = (0..shape.0 * shape.1).map(number).collect();
    Tensor::from_vec(numbers, shape, device)
}

/// Products, reductions, copies, choices and casts, one after another.
fn operations(x: &Tensor, weights: &Tensor) -> Result<[Tensor; 3]> {
    let product = x.matmul(weights)?;
    let shifted = product
        .broadcast_sub(&product.max_keepdim(D::Minus1)?)?
        .exp()?;
    let shares = shifted.broadcast_div(&shifted.sum_keepdim(D::Minus1)?)?;
    let best = shares.argmax_keepdim(D::Minus1)?;
    let chosen = shares.gather(&best, D::Minus1)?;
    let both = Tensor::cat(&[&shares.t()?, &product.t()?], 0)?;
    let half = both.narrow(1, 1, 2)?.to_dtype(DType::F16)?;
    let negative = half.lt(0f64)?;
    let clipped = negative.where_cond(&half.zeros_like()?, &half)?;
    Ok([best, chosen, clipped])
}

/// The elements of tensors as f32, one tensor behind another.
fn elements(tensors: &[Tensor]) -> Result<Vec<f32>> {
    let of_each = tensors
        .iter()
        .map(|t| t.to_dtype(DType::F32)?.flatten_all()?.to_vec1());
    Ok(of_each.collect::<Result<Vec<_>>>()?.concat())
}

#[test]
fn a_graph_computes_what_its_operations_compute() -> Result<()> {
    let Some(device) = own_gpu("a_graph_computes_what_its_operations_compute")? else {
        return Ok(());
    };
    let weights = numbers((20, 33), 5, &device)?;
    let x = numbers((4, 20), 0, &device)?;
    let (made, graph) = captured(&device, || operations(&x, &weights))?;
    for seed in [1, 2, 3] {
        let input = numbers((4, 20), seed, &device)?;
        x.slice_set(&input, 0, 0)?;
        graph.launch()?;
        // Memory that others take meanwhile is not that of the graph.
        let others = operations(&numbers((4, 20), seed + 10, &device)?, &weights)?;
        let wanted = elements(&operations(&input, &weights)?)?;
        assert_eq!(elements(&made)?, wanted, "input {seed}");
        let kept = elements(&others)?;
        graph.launch()?;
        assert_eq!(elements(&others)?, kept, "input {seed}");
    }
    Ok(())
}

#[test]
fn a_graph_goes_on_from_where_the_last_launch_ended() -> Result<()> {
    let Some(device) = own_gpu("a_graph_goes_on_from_where_the_last_launch_ended")? else {
        return Ok(());
    };
    let state = Tensor::zeros((3, 5), DType::F32, &device)?;
    let step = || state.slice_set(&(&state + 1.5)?, 0, 0);
    let ((), graph) = captured(&device, step)?;
    assert_eq!(
        elements(std::slice::from_ref(&state))?,
        [1.5; 15],
        "the first run was no capture"
    );
    for launches in 1..4 {
        graph.launch()?;
        let wanted = 1.5 * (launches + 1) as f32;
        assert_eq!(elements(std::slice::from_ref(&state))?, vec![wanted; 15]);
    }
    Ok(())
}

#[test]
fn reading_a_tensor_during_a_capture_is_an_error_and_not_a_wrong_value() -> Result<()> {
    let test = "reading_a_tensor_during_a_capture_is_an_error_and_not_a_wrong_value";
    let Some(device) = own_gpu(test)? else {
        return Ok(());
    };
    let x = numbers((2, 2), 1, &device)?;
    let stream = stream(&device)?;
    stream.begin_capture(StreamCaptureMode::Relaxed)?;
    let read = x.to_vec2::<f32>();
    let waited = device.synchronize();
    stream.end_capture()?;
    for (error, call) in [
        (read.err(), "a copy to the host"),
        (waited.err(), "a wait for the stream"),
    ] {
        let error = error.expect("it cannot be captured").to_string();
        assert!(
            error.contains(&format!("{call} cannot be captured")),
            "{error}"
        );
    }
    assert_eq!(elements(&[x])?.len(), 4);
    Ok(())
}
