//! Quantized matrices: their numbers bit for bit as on the CPU, and products within the error of rounding rows to 8 bits.
//!
//! As in rocm_basic.rs, a test without a GPU writes `SKIPPED: <test>: <reason>` to stderr.
#![cfg(feature = "rocm")]
use candle_core::quantized::{GgmlDType, QMatMul, QTensor};
use candle_core::{DType, Device, Module, Result, Tensor};

mod rocm_gpu;
mod rocm_quantized;
use rocm_gpu::gpu;
use rocm_quantized::{assert_products, matrix, numbers, FORMATS};

/// Formats, and lengths of rows that are whole blocks of them.
fn shapes() -> impl Iterator<Item = (GgmlDType, usize)> {
    FORMATS.into_iter().flat_map(|format| {
        let block = format.block_size();
        [(format, block), (format, 3 * block)]
    })
}

#[test]
fn numbers_have_the_cpus_bits() -> Result<()> {
    let Some(device) = gpu("numbers_have_the_cpus_bits") else {
        return Ok(());
    };
    for format in [GgmlDType::F32, GgmlDType::F16].into_iter().chain(FORMATS) {
        let data = numbers(7 * 512, 3);
        let on_cpu = Tensor::from_vec(data, (7, 512), &Device::Cpu)?;
        let wanted = QTensor::quantize(&on_cpu, format)?;
        let found = QTensor::quantize(&on_cpu.to_device(&device)?, format)?;
        assert_eq!(found.dtype(), format);
        assert_eq!(
            found.storage_size_in_bytes(),
            wanted.storage_size_in_bytes()
        );
        let [found_f32, wanted_f32] = [&found, &wanted].map(|each| each.dequantize(&Device::Cpu));
        let bits = |numbers: Tensor| -> Result<Vec<u32>> {
            let numbers = numbers.flatten_all()?.to_vec1::<f32>()?;
            Ok(numbers.into_iter().map(f32::to_bits).collect())
        };
        let wanted_f32 = wanted_f32?;
        assert_eq!(bits(found_f32?)?, bits(wanted_f32.clone())?, "{format:?}");
        let half = |numbers: Tensor| numbers.to_dtype(DType::F32).and_then(bits);
        let found_f16 = found.dequantize_f16(&Device::Cpu)?;
        assert_eq!(found_f16.dtype(), DType::F16);
        let wanted_f16 = wanted_f32.to_dtype(DType::F16)?;
        assert_eq!(half(found_f16)?, half(wanted_f16)?, "{format:?}");
    }
    Ok(())
}

/// Numbers of rows of `k` elements, each multiplied with a matrix of `n` rows.
fn assert_each_product(
    device: &Device,
    (format, k): (GgmlDType, usize),
    n: usize,
    counts: &[usize],
) -> Result<()> {
    let (quantized, weights) = matrix(device, format, &[n, k], 5)?;
    let product = QMatMul::from_qtensor(quantized)?;
    for &rows in counts {
        let x = numbers(rows * k, 9);
        let on_gpu = Tensor::from_slice(&x, (rows, k), device)?;
        let found = product.forward(&on_gpu)?;
        assert_eq!(found.dims(), [rows, n]);
        let found = found.flatten_all()?.to_vec1::<f32>()?;
        assert_products(&found, &x, &weights, k, 1e-6)?;
    }
    Ok(())
}

#[test]
fn products_of_any_number_of_rows() -> Result<()> {
    let Some(device) = gpu("products_of_any_number_of_rows") else {
        return Ok(());
    };
    for shape in shapes() {
        assert_each_product(&device, shape, 1, &[1, 3])?;
        assert_each_product(&device, shape, 37, &[1, 2, 3, 5, 8, 9, 21, 70, 300])?;
    }
    Ok(())
}

/// Which are taken only if there are enough of them for the GPU.
#[test]
fn products_on_large_tiles() -> Result<()> {
    let Some(device) = gpu("products_on_large_tiles") else {
        return Ok(());
    };
    for format in FORMATS {
        assert_each_product(&device, (format, format.block_size()), 900, &[300])?;
    }
    Ok(())
}

/// Waves share rows of which there are few.
#[test]
fn products_of_long_rows() -> Result<()> {
    let Some(device) = gpu("products_of_long_rows") else {
        return Ok(());
    };
    for format in [GgmlDType::Q4_0, GgmlDType::Q6K] {
        assert_each_product(&device, (format, 69 * 256), 5, &[1, 2, 4, 8])?;
    }
    Ok(())
}

#[test]
fn products_have_the_type_of_their_rows() -> Result<()> {
    let Some(device) = gpu("products_have_the_type_of_their_rows") else {
        return Ok(());
    };
    for (format, dtype, relative) in [
        (GgmlDType::Q4K, DType::F16, 1e-3),
        (GgmlDType::Q4K, DType::BF16, 8e-3),
        (GgmlDType::Q8_0, DType::F16, 1e-3),
        (GgmlDType::F16, DType::F16, 1e-3),
        (GgmlDType::F16, DType::F32, 1e-5),
        (GgmlDType::F32, DType::BF16, 8e-3),
    ] {
        let (quantized, weights) = matrix(&device, format, &[19, 512], 5)?;
        let product = QTensor::quantize(&quantized.dequantize(&device)?, format)?;
        assert_eq!(product.shape().dims(), [19, 512]);
        let x = Tensor::from_vec(numbers(3 * 512, 9), (1, 3, 512), &device)?.to_dtype(dtype)?;
        let found = x.apply_op1_no_bwd(&product)?;
        assert_eq!((found.dtype(), found.dims()), (dtype, &[1, 3, 19][..]));
        let [found, x] = [found, x].map(|each| {
            let each = each.to_dtype(DType::F32)?.flatten_all()?;
            each.to_vec1::<f32>()
        });
        assert_products(&found?, &x?, &weights, 512, relative)?;
    }
    Ok(())
}

#[test]
fn rows_may_be_views() -> Result<()> {
    let Some(device) = gpu("rows_may_be_views") else {
        return Ok(());
    };
    for format in [GgmlDType::Q5_1, GgmlDType::Q6K, GgmlDType::F32] {
        let (quantized, weights) = matrix(&device, format, &[11, 256], 5)?;
        let product = QMatMul::from_qtensor(quantized)?;
        let wide = Tensor::from_vec(numbers(6 * 512, 9), (6, 512), &device)?;
        let views = [
            wide.narrow(1, 128, 256)?,
            wide.narrow(0, 2, 3)?.narrow(1, 256, 256)?,
            Tensor::from_vec(numbers(5 * 256, 9), (256, 5), &device)?.t()?,
            Tensor::from_vec(numbers(256, 9), (1, 256), &device)?.broadcast_as((4, 256))?,
        ];
        for view in views {
            let found = product.forward(&view)?.flatten_all()?.to_vec1::<f32>()?;
            let x = view.contiguous()?.flatten_all()?.to_vec1::<f32>()?;
            assert_products(&found, &x, &weights, 256, 1e-5)?;
        }
    }
    Ok(())
}

#[test]
fn what_does_not_fit_is_refused() -> Result<()> {
    let Some(device) = gpu("what_does_not_fit_is_refused") else {
        return Ok(());
    };
    let (quantized, _) = matrix(&device, GgmlDType::Q4_0, &[11, 64], 5)?;
    let product = QMatMul::from_qtensor(quantized)?;
    for (shape, dtype) in [
        (vec![2, 32], DType::F32),
        (vec![64], DType::F32),
        (vec![2, 64], DType::F64),
        (vec![2, 64], DType::U32),
    ] {
        let x = Tensor::zeros(shape.clone(), dtype, &device)?;
        assert!(product.forward(&x).is_err(), "{shape:?} {dtype:?}");
    }
    let none = product.forward(&Tensor::zeros((0, 64), DType::F32, &device)?)?;
    assert_eq!(none.dims(), [0, 11]);
    let odd = Tensor::zeros((2, 33), DType::F32, &device)?;
    assert!(QTensor::quantize(&odd, GgmlDType::Q4_0).is_err());
    Ok(())
}
