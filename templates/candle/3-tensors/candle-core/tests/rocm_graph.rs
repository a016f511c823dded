//! Operations that are captured once, and launched as a graph with other inputs: results are those of the operations.
//!
//! As in rocm_basic.rs, a test without a GPU writes `SKIPPED: <test>: <reason>` to stderr.
#![cfg(feature = "rocm")]
mod rocm_gpu;

use candle_core::rocm::driver::{RocmGraph, RocmStream, StreamCaptureMode};
use candle_core::rocm::Captured;
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

#[test]
fn captured_work_computes_what_it_computes_uncaptured() -> Result<()> {
    let test = "captured_work_computes_what_it_computes_uncaptured";
    let Some(device) = own_gpu(test)? else {
        return Ok(());
    };
    for device in [device, Device::Cpu] {
        let weights = numbers((20, 33), 5, &device)?;
        let x = numbers((4, 20), 0, &device)?;
        let mut work = Captured::new(&device, || operations(&x, &weights))?;
        assert_eq!(work.is_graph(), device.is_rocm());
        let first = elements(&operations(&x, &weights)?)?;
        assert_eq!(elements(work.output())?, first, "done once");
        for seed in [1, 2, 3] {
            let input = numbers((4, 20), seed, &device)?;
            x.slice_set(&input, 0, 0)?;
            let wanted = elements(&operations(&input, &weights)?)?;
            assert_eq!(elements(work.replay()?)?, wanted, "input {seed}");
            assert_eq!(elements(work.output())?, wanted, "input {seed}");
        }
    }
    Ok(())
}

#[test]
fn each_replay_does_captured_work_once() -> Result<()> {
    let Some(device) = own_gpu("each_replay_does_captured_work_once")? else {
        return Ok(());
    };
    for device in [device, Device::Cpu] {
        let state = Tensor::zeros((3, 5), DType::F32, &device)?;
        let mut step = Captured::new(&device, || state.slice_set(&(&state + 1.5)?, 0, 0))?;
        for done in 1..5 {
            let found = elements(std::slice::from_ref(&state))?;
            assert_eq!(found, vec![1.5 * done as f32; 15]);
            step.replay()?;
        }
    }
    Ok(())
}

#[test]
fn a_graph_keeps_what_it_reads() -> Result<()> {
    let Some(device) = own_gpu("a_graph_keeps_what_it_reads")? else {
        return Ok(());
    };
    let weights = std::sync::Mutex::new(Some(numbers((20, 33), 5, &device)?));
    let x = numbers((4, 20), 0, &device)?;
    let mut work = Captured::new(&device, || {
        let weights = weights.lock().expect("nobody has panicked");
        operations(&x, weights.as_ref().expect("they are there"))
    })?;
    let wanted = elements(work.output())?;
    // Nobody else gets their memory.
    weights.lock().expect("nobody has panicked").take();
    let others = [(); 9].map(|()| numbers((20, 33), 9, &device));
    assert_eq!(elements(work.replay()?)?, wanted);
    for other in others {
        let kept = numbers((20, 33), 9, &Device::Cpu)?;
        assert_eq!(elements(&[other?])?, elements(&[kept])?);
    }
    Ok(())
}

#[test]
fn work_that_cannot_be_captured_leaves_the_device_as_it_was() -> Result<()> {
    let test = "work_that_cannot_be_captured_leaves_the_device_as_it_was";
    let Some(device) = own_gpu(test)? else {
        return Ok(());
    };
    let x = numbers((2, 2), 1, &device)?;
    let error = Captured::new(&device, || (&x + 1.)?.to_vec2::<f32>()).err();
    let error = error.expect("it is read on the host").to_string();
    assert!(
        error.contains("a copy to the host cannot be captured"),
        "{error}"
    );
    assert!(!stream(&device)?.is_capturing());
    let shared = Device::new_rocm(0)?;
    let error = Captured::new(&shared, || numbers((2, 2), 1, &shared)).err();
    let error = error.expect("its stream is shared").to_string();
    assert!(error.contains("`new_with_stream`"), "{error}");
    let calls = std::cell::Cell::new(0);
    let panics = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        Captured::new(&device, || {
            calls.set(calls.get() + 1);
            assert_eq!(calls.get(), 1, "the capture has begun");
            &x + 1.
        })
        .map(|_| ())
    }));
    assert!(panics.is_err());
    assert!(!stream(&device)?.is_capturing());
    let mut work = Captured::new(&device, || &x + 1.)?;
    let wanted = elements(&[(&x + 1.)?])?;
    assert_eq!(elements(std::slice::from_ref(work.replay()?))?, wanted);
    Ok(())
}
