//! Products with the experts of a mixture, on ROCm against sums in f64 on the CPU.
//!
//! As in rocm_nn.rs, a test without a GPU writes `SKIPPED: <test>: <reason>` to stderr.
#![cfg(feature = "rocm")]
use candle::quantized::{GgmlDType, QTensor};
use candle::{DType, Device, Result, Tensor, D};
use candle_nn::moe::{moe_gemm, moe_gemm_gguf};
use std::io::Write;

/// GPU 0, or None with a message.
fn gpu(test: &str) -> Option<Device> {
    if !candle::rocm::is_available() {
        // Past libtest's capture, so that nobody takes a skipped test for a passed one.
        let line = format!("SKIPPED: {test}: no ROCm device\n");
        let written = std::io::stderr().write_all(line.as_bytes());
        written.expect("stderr is open");
        return None;
    }
    Some(Device::new_rocm(0).expect("GPU 0 of a runtime that counts at least one"))
}

/// `count` numbers of (-1, 1), which repeat at no period that a kernel might have.
fn numbers(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (state >> 40) as f32 / (1u64 << 23) as f32 - 1.
    };
    (0..count).map(|_| next()).collect()
}

/// Which experts rows are multiplied with.
struct Routing {
    rows: usize,
    topk: usize,
    /// One for each pair of a row and an expert.
    experts: Vec<u32>,
    device: Device,
}

impl Routing {
    fn new(device: &Device, rows: usize, topk: usize, experts: usize) -> Self {
        let chosen = |number: &f32| ((number + 1.) / 2. * experts as f32) as u32;
        Self {
            rows,
            topk,
            experts: numbers(rows * topk, 3).iter().map(chosen).collect(),
            device: device.clone(),
        }
    }

    fn pairs(&self) -> usize {
        self.experts.len()
    }

    /// The pairs in the order of their experts, and those, as a mixture makes them.
    fn lists(&self) -> Result<[Tensor; 2]> {
        let experts = Tensor::from_slice(&self.experts, self.pairs(), &self.device)?;
        let (experts, order) = experts.sort_last_dim(true)?;
        Ok([order, experts])
    }

    /// One weight for each pair.
    fn weights(&self) -> Result<Tensor> {
        let weights = numbers(self.pairs(), 7);
        Tensor::from_vec(weights, (self.rows, self.topk), &self.device)
    }
}

/// The numbers of a tensor in the order of its elements.
fn read(tensor: &Tensor) -> Result<Vec<f32>> {
    tensor.to_dtype(DType::F32)?.flatten_all()?.to_vec1()
}

/// Compares products of rows x with weights w (experts, n, k).
///
/// `of_rows` is what rounding a row's elements costs at most, relative to the largest of 32 neighbours, and `relative`
/// what the rest does, relative to the terms' magnitudes and the result.
#[track_caller]
fn assert_products(
    found: &Tensor,
    x: &[f32],
    w: &[f32],
    routing: &Routing,
    weights: Option<&[f32]>,
    (of_rows, relative): (f64, f64),
) -> Result<()> {
    let n = found.dim(D::Minus1)?;
    assert_eq!(found.dims(), [routing.pairs(), n]);
    let k = x.len()
        / if weights.is_some() {
            routing.pairs()
        } else {
            routing.rows
        };
    for (at, found) in read(found)?.into_iter().enumerate() {
        let (pair, column) = (at / n, at % n);
        let row = if weights.is_some() {
            pair
        } else {
            pair / routing.topk
        };
        let x = &x[row * k..][..k];
        let w = &w[(routing.experts[pair] as usize * n + column) * k..][..k];
        let weight = f64::from(weights.map_or(1., |weights| weights[pair]));
        let (mut exact, mut magnitude, mut rounded) = (0f64, 0f64, 0f64);
        for (x, w) in x.chunks(32).zip(w.chunks(32)) {
            let largest = x.iter().fold(0f32, |most, x| most.max(x.abs()));
            for (x, w) in x.iter().zip(w) {
                let term = f64::from(*x) * f64::from(*w);
                exact += term;
                magnitude += term.abs();
                rounded += f64::from(w.abs()) * f64::from(largest) * of_rows;
            }
        }
        let summed = magnitude * k as f64 * f64::from(f32::EPSILON);
        let most = weight.abs() * (rounded * 1.001 + summed + relative * exact.abs()) + 1e-7;
        let error = (f64::from(found) - weight * exact).abs();
        assert!(
            error <= most,
            "{at}: {found} is {error} from {exact} * {weight}, not {most}"
        );
    }
    Ok(())
}

#[test]
fn rows_meet_their_experts() -> Result<()> {
    let Some(device) = gpu("rows_meet_their_experts") else {
        return Ok(());
    };
    // Few pairs of an expert, and many.
    for (rows, topk, experts, n, k) in [(1, 2, 8, 5, 64), (3, 2, 37, 67, 19), (70, 3, 4, 9, 40)] {
        let routing = Routing::new(&device, rows, topk, experts);
        let [order, ids] = routing.lists()?;
        for (dtype, relative) in [(DType::F32, 0.), (DType::F16, 1e-3), (DType::BF16, 8e-3)] {
            let tensor = |shape: &[usize], seed| {
                let numbers = numbers(shape.iter().product(), seed);
                Tensor::from_vec(numbers, shape, &device)?.to_dtype(dtype)
            };
            let w = tensor(&[experts, n, k], 5)?;
            for weights in [None, Some(routing.weights()?)] {
                let own = if weights.is_some() {
                    routing.pairs()
                } else {
                    rows
                };
                let x = tensor(&[own, k], 9)?;
                let found = moe_gemm(&x, &w, &weights, &order, &ids, topk, rows > 1)?;
                assert_eq!(found.dtype(), dtype);
                let weights = weights.as_ref().map(read).transpose()?;
                let (x, w) = (read(&x)?, read(&w)?);
                let errors = (0., relative);
                assert_products(&found, &x, &w, &routing, weights.as_deref(), errors)?;
            }
        }
    }
    Ok(())
}

#[test]
fn rows_meet_their_quantized_experts() -> Result<()> {
    let Some(device) = gpu("rows_meet_their_quantized_experts") else {
        return Ok(());
    };
    for format in [
        GgmlDType::Q4_0,
        GgmlDType::Q4_1,
        GgmlDType::Q5_0,
        GgmlDType::Q5_1,
        GgmlDType::Q8_0,
        GgmlDType::Q8_1,
        GgmlDType::Q2K,
        GgmlDType::Q3K,
        GgmlDType::Q4K,
        GgmlDType::Q5K,
        GgmlDType::Q6K,
        GgmlDType::Q8K,
    ] {
        for rows in [3, 7] {
            assert_meet(&device, format, rows)?;
        }
    }
    Ok(())
}

/// The least number of rows has a wave for each result, the other has tiles.
fn assert_meet(device: &Device, format: GgmlDType, rows: usize) -> Result<()> {
    let (topk, experts, n, k) = (3, 5, 13, 512);
    let routing = Routing::new(device, rows, topk, experts);
    let [order, ids] = routing.lists()?;
    let w = Tensor::from_vec(numbers(experts * n * k, 5), (experts, n, k), device)?;
    let w = QTensor::quantize(&w, format)?;
    // The CPU of Candle before 0.11.0 cannot tell what blocks of Q8_1 stand for.
    let values = w.dequantize(device)?;
    for weights in [None, Some(routing.weights()?)] {
        let own = if weights.is_some() {
            routing.pairs()
        } else {
            rows
        };
        let x = Tensor::from_vec(numbers(own * k, 9), (own, k), device)?;
        for prefill in [false, true] {
            let dtype = DType::F16;
            let found = moe_gemm_gguf(&x, &w, &weights, &order, &ids, topk, prefill, dtype)?;
            assert_eq!(found.dtype(), DType::F32);
            let weights = weights.as_ref().map(read).transpose()?;
            let (x, w) = (read(&x)?, read(&values)?);
            let errors = (1. / 254., 1e-6);
            assert_products(&found, &x, &w, &routing, weights.as_deref(), errors)?;
        }
    }
    Ok(())
}

#[test]
fn views_are_read_as_what_they_are() -> Result<()> {
    let Some(device) = gpu("views_are_read_as_what_they_are") else {
        return Ok(());
    };
    let (rows, topk, experts, n, k) = (6, 2, 3, 4, 32);
    let routing = Routing::new(&device, rows, topk, experts);
    let [order, ids] = routing.lists()?;
    let w = Tensor::from_vec(numbers(experts * n * k, 5), (experts, n, k), &device)?;
    let turned = Tensor::from_vec(numbers(rows * k, 9), (k, rows), &device)?.t()?;
    let later = Tensor::from_vec(numbers((rows + 2) * k, 9), (rows + 2, k), &device)?;
    let quantized = QTensor::quantize(&w, GgmlDType::Q8_0)?;
    let values = read(&quantized.dequantize(&Device::Cpu)?)?;
    for x in [turned, later.narrow(0, 2, rows)?] {
        let found = moe_gemm(&x, &w, &None, &order, &ids, topk, false)?;
        assert_products(&found, &read(&x)?, &read(&w)?, &routing, None, (0., 0.))?;
        let found = moe_gemm_gguf(&x, &quantized, &None, &order, &ids, topk, false, DType::F16)?;
        let errors = (1. / 254., 1e-6);
        assert_products(&found, &read(&x)?, &values, &routing, None, errors)?;
    }
    // Lists and weights behind others.
    let padded = |list: &Tensor| Tensor::cat(&[&list.narrow(0, 0, 1)?, list], 0);
    let later = |list: &Tensor| padded(list)?.narrow(0, 1, list.dim(0)?);
    let weights = routing.weights()?.flatten_all()?;
    let x = Tensor::from_vec(
        numbers(routing.pairs() * k, 9),
        (routing.pairs(), k),
        &device,
    )?;
    let (order, ids, given) = (later(&order)?, later(&ids)?, Some(later(&weights)?));
    let found = moe_gemm(&x, &w, &given, &order, &ids, topk, false)?;
    let weights = read(&weights)?;
    assert_products(
        &found,
        &read(&x)?,
        &read(&w)?,
        &routing,
        Some(&weights),
        (0., 0.),
    )
}

#[test]
fn what_does_not_fit_is_an_error() -> Result<()> {
    let Some(device) = gpu("what_does_not_fit_is_an_error") else {
        return Ok(());
    };
    let zeros = |shape: &[usize], dtype| Tensor::zeros(shape, dtype, &device);
    let (x, w) = (
        zeros(&[2, 32], DType::F32)?,
        zeros(&[3, 4, 32], DType::F32)?,
    );
    let ids = zeros(&[4], DType::U32)?;
    let weights = zeros(&[2, 1], DType::F32)?;
    let fails = |x: &Tensor, w: &Tensor, weights: Option<&Tensor>, ids: [&Tensor; 2]| {
        let weights = weights.cloned();
        let found = moe_gemm(x, w, &weights, ids[0], ids[1], 2, false);
        let message = found.map(|_| ()).unwrap_err().to_string();
        let by_blocks = QTensor::quantize(&w.to_dtype(DType::F32)?, GgmlDType::Q8_0)?;
        let other = moe_gemm_gguf(
            x,
            &by_blocks,
            &weights,
            ids[0],
            ids[1],
            2,
            false,
            DType::F16,
        );
        Result::Ok((message, other.is_err()))
    };
    let both = [&ids, &ids];
    for dtype in [DType::F64, DType::U8] {
        let message = fails(&x.to_dtype(dtype)?, &w.to_dtype(dtype)?, None, both)?.0;
        assert!(message.contains("unsupported dtype"), "{message}");
    }
    let (message, _) = fails(&x, &w.to_dtype(DType::F16)?, None, both)?;
    assert!(message.contains("dtype mismatch"), "{message}");
    let (message, other) = fails(&x, &zeros(&[3, 4, 64], DType::F32)?, None, both)?;
    assert!(
        message.contains("rows of 32 elements") && other,
        "{message}"
    );
    let short = ids.narrow(0, 0, 3)?;
    for (weights, ids) in [
        (None, [&short, &ids]),
        (None, [&ids, &short]),
        (Some(&weights), both),
    ] {
        let (message, other) = fails(&x, &w, weights, ids)?;
        assert!(message.contains("pairs, and not") && other, "{message}");
    }
    let halves = weights.to_dtype(DType::F16)?;
    let two = ids.narrow(0, 0, 2)?;
    assert!(fails(&x, &w, Some(&halves), [&two, &two])?.1);
    let floats = ids.to_dtype(DType::F32)?;
    assert!(fails(&x, &w, None, [&floats, &ids])?.1);
    let on_cpu = ids.to_device(&Device::Cpu)?;
    assert!(fails(&x, &w, None, [&ids, &on_cpu])?.1);
    Ok(())
}

/// Where indices are checked; elsewhere such pairs read nothing.
#[test]
fn pairs_and_experts_that_do_not_exist_are_errors() -> Result<()> {
    let Some(device) = gpu("pairs_and_experts_that_do_not_exist_are_errors") else {
        return Ok(());
    };
    let (x, w) = (
        Tensor::zeros((2, 32), DType::F32, &device)?,
        Tensor::zeros((3, 4, 32), DType::F32, &device)?,
    );
    let blocks = QTensor::quantize(&w, GgmlDType::Q8_0)?;
    let both = |order: [u32; 4], experts: [u32; 4]| {
        let (order, experts) = (
            Tensor::new(&order, &device)?,
            Tensor::new(&experts, &device)?,
        );
        let floats = moe_gemm(&x, &w, &None, &order, &experts, 2, false);
        let quantized = moe_gemm_gguf(&x, &blocks, &None, &order, &experts, 2, false, DType::F16);
        Result::Ok([floats, quantized].map(|found| found.map(|_| ()).map_err(|e| e.to_string())))
    };
    assert_eq!(both([3, 1, 2, 0], [0, 0, 1, 2])?, [Ok(()), Ok(())]);
    if cfg!(debug_assertions) {
        for (order, experts, wrong) in [
            ([0, 1, 2, 4], [0, 0, 1, 2], "index 4"),
            ([0, 1, 2, 3], [0, 0, 1, 7], "index 7"),
        ] {
            for found in both(order, experts)? {
                let message = found.unwrap_err();
                assert!(message.contains(wrong), "{message}");
            }
        }
    }
    Ok(())
}

#[test]
fn nobody_to_multiply_with_is_no_work() -> Result<()> {
    let Some(device) = gpu("nobody_to_multiply_with_is_no_work") else {
        return Ok(());
    };
    let w = Tensor::zeros((3, 4, 32), DType::F32, &device)?;
    let (x, ids) = (
        Tensor::zeros((0, 32), DType::F32, &device)?,
        Tensor::zeros(0, DType::U32, &device)?,
    );
    let found = moe_gemm(&x, &w, &None, &ids, &ids, 2, false)?;
    assert_eq!(found.dims(), [0, 4]);
    Ok(())
}
