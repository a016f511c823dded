//! Quantized matrices of every format, on GPU 0 and on the CPU.
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{DType, Device, Result, Tensor};

/// The formats of blocks that Candle's CPU backend reads in every release.
pub const FORMATS: [GgmlDType; 11] = [
    GgmlDType::Q4_0,
    GgmlDType::Q4_1,
    GgmlDType::Q5_0,
    GgmlDType::Q5_1,
    GgmlDType::Q8_0,
    GgmlDType::Q2K,
    GgmlDType::Q3K,
    GgmlDType::Q4K,
    GgmlDType::Q5K,
    GgmlDType::Q6K,
    GgmlDType::Q8K,
];

/// `count` numbers of (-1, 1), which repeat at no period that a kernel might have.
pub fn numbers(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (state >> 40) as f32 / (1u64 << 23) as f32 - 1.
    };
    (0..count).map(|_| next()).collect()
}

/// A quantized matrix of that shape on the GPU, and the numbers that its blocks stand for on the CPU.
pub fn matrix(
    device: &Device,
    format: GgmlDType,
    shape: &[usize],
    seed: u64,
) -> Result<(QTensor, Vec<f32>)> {
    let data = numbers(shape.iter().product(), seed);
    let whole = Tensor::from_vec(data, shape, &Device::Cpu)?;
    let on_cpu = QTensor::quantize(&whole, format)?.dequantize(&Device::Cpu)?;
    let quantized = QTensor::quantize(&whole.to_device(device)?, format)?;
    Ok((quantized, on_cpu.flatten_all()?.to_vec1()?))
}

/// Compares products with rows `x` of `k` numbers, one for each of the rows of weights.
///
/// Rounding a part of 32 numbers to 8 bits moves each by at most 1/254 of the part's largest; `relative` is what the
/// result's type adds.
#[track_caller]
pub fn assert_products(
    found: &[f32],
    x: &[f32],
    weights: &[f32],
    k: usize,
    relative: f32,
) -> Result<()> {
    let wide = |data: &[f32]| {
        Tensor::from_slice(data, (data.len() / k, k), &Device::Cpu)?.to_dtype(DType::F64)
    };
    let (x, weights) = (wide(x)?, wide(weights)?.t()?);
    let parts = x.abs()?.reshape((x.dim(0)?, k / 32, 32))?;
    let largest = parts.max_keepdim(2)?.broadcast_as(parts.shape())?;
    let rounded = largest.reshape(x.shape())?.matmul(&weights.abs()?)?;
    let flat = |x: Tensor| x.flatten_all()?.to_vec1::<f64>();
    let (exact, rounded) = (flat(x.matmul(&weights)?)?, flat(rounded)?);
    assert_eq!(found.len(), exact.len());
    for (i, (found, (exact, rounded))) in found.iter().zip(exact.iter().zip(rounded)).enumerate() {
        let most = rounded / 254. * 1.001 + f64::from(relative) * exact.abs();
        let error = (f64::from(*found) - exact).abs();
        assert!(
            error <= most,
            "{i}: {found} is {error} from {exact}, not {most}"
        );
    }
    Ok(())
}
