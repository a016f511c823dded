//! Rows multiplied with the quantized matrices of the experts that indices select for them.
//!
//! As in rocm_basic.rs, a test without a GPU writes `SKIPPED: <test>: <reason>` to stderr.
#![cfg(feature = "rocm")]
use candle_core::{DType, Result, Tensor};

mod rocm_gpu;
mod rocm_quantized;
use rocm_gpu::gpu;
use rocm_quantized::{assert_products, matrix, numbers, FORMATS};

#[test]
fn each_row_meets_its_experts() -> Result<()> {
    let Some(device) = gpu("each_row_meets_its_experts") else {
        return Ok(());
    };
    let (experts, n, batch, top) = (5, 13, 7, 3);
    let chosen: Vec<u32> = (0..batch * top).map(|i| (i * i % experts) as u32).collect();
    for format in FORMATS {
        let k = 2 * format.block_size();
        let (quantized, weights) = matrix(&device, format, &[experts, n, k], 5)?;
        let ids = Tensor::from_slice(&chosen, (batch, top), &device)?;
        for (each, dtype, relative) in [
            (1, DType::F32, 1e-6),
            (top, DType::F32, 1e-6),
            (1, DType::F16, 1e-3),
        ] {
            let x = Tensor::from_vec(numbers(batch * each * k, 9), (batch, each, k), &device)?;
            let x = x.to_dtype(dtype)?;
            let found = quantized.indexed_moe_forward(&x, &ids)?;
            assert_eq!((found.dtype(), found.dims()), (dtype, &[batch, top, n][..]));
            let [found, x] = [found, x].map(|each| {
                let each = each.to_dtype(DType::F32)?.flatten_all()?;
                each.to_vec1::<f32>()
            });
            let (found, x) = (found?, x?);
            for (pair, expert) in chosen.iter().enumerate() {
                let row = if each == 1 { pair / top } else { pair };
                let weights = &weights[*expert as usize * n * k..][..n * k];
                let (found, x) = (&found[pair * n..][..n], &x[row * k..][..k]);
                assert_products(found, x, weights, k, relative)?;
            }
        }
    }
    Ok(())
}
