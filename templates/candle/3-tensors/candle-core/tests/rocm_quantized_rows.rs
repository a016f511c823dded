//! Rows that indices select of quantized matrices, bit for bit as on the CPU, and a format that older releases do not read.
//!
//! As in rocm_basic.rs, a test without a GPU writes `SKIPPED: <test>: <reason>` to stderr.
#![cfg(feature = "rocm")]
use candle_core::quantized::{GgmlDType, QMatMul, QTensor};
use candle_core::{Device, Module, Result, Tensor};

mod rocm_gpu;
mod rocm_quantized;
use rocm_gpu::gpu;
use rocm_quantized::{assert_products, matrix, numbers, FORMATS};

#[test]
fn rows_are_the_cpus() -> Result<()> {
    let Some(device) = gpu("rows_are_the_cpus") else {
        return Ok(());
    };
    let plain = [
        GgmlDType::F32,
        GgmlDType::F16,
        GgmlDType::BF16,
        GgmlDType::Q8_1,
    ];
    for format in plain.into_iter().chain(FORMATS) {
        let k = 2 * format.block_size().max(32);
        let table = Tensor::from_vec(numbers(9 * k, 5), (9, k), &Device::Cpu)?;
        let ids = Tensor::new(&[[8u32, 0, 3], [3, 3, 7]], &Device::Cpu)?;
        let [wanted, found] = [&Device::Cpu, &device].map(|device| {
            let quantized = QTensor::quantize(&table.to_device(device)?, format)?;
            let rows = quantized.embedding(&ids.to_device(device)?)?;
            assert_eq!(rows.dims(), [2, 3, k]);
            rows.flatten_all()?.to_vec1::<f32>()
        });
        assert_eq!(found?, wanted?, "{format:?}");
    }
    Ok(())
}

#[test]
fn blocks_with_sums_are_read_and_multiplied() -> Result<()> {
    let Some(device) = gpu("blocks_with_sums_are_read_and_multiplied") else {
        return Ok(());
    };
    // The last has enough large tiles to be multiplied with them.
    for (rows, n) in [(1, 7), (2, 7), (3, 7), (8, 7), (21, 7), (300, 900)] {
        let (quantized, weights) = matrix(&device, GgmlDType::Q8_1, &[n, 96], 5)?;
        let found = quantized.dequantize(&Device::Cpu)?.flatten_all()?;
        assert_eq!(found.to_vec1::<f32>()?, weights);
        let half = quantized.dequantize_f16(&Device::Cpu)?;
        assert_eq!(half.dims(), [n, 96]);
        let x = numbers(rows * 96, 9);
        let ids = Tensor::zeros((rows, 1), candle_core::DType::U32, &device)?;
        let on_gpu = Tensor::from_slice(&x, (rows, 96), &device)?;
        let experts = matrix(&device, GgmlDType::Q8_1, &[1, n, 96], 5)?.0;
        let by_expert = experts.indexed_moe_forward(&on_gpu.unsqueeze(1)?, &ids)?;
        let by_expert = by_expert.flatten_all()?.to_vec1::<f32>()?;
        assert_products(&by_expert, &x, &weights, 96, 1e-6)?;
        let found = QMatMul::from_qtensor(quantized)?.forward(&on_gpu)?;
        let found = found.flatten_all()?.to_vec1::<f32>()?;
        assert_products(&found, &x, &weights, 96, 1e-6)?;
    }
    Ok(())
}
