//! Blocks that are made of numbers in the host's memory, and by the importance of columns: the CPU's, byte for byte.
//!
//! As in rocm_basic.rs, a test without a GPU writes `SKIPPED: <test>: <reason>` to stderr.
#![cfg(feature = "rocm")]
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{DType, Device, Result, Tensor};

mod rocm_gpu;
mod rocm_quantized;
use rocm_gpu::gpu;
use rocm_quantized::{assert_products, matrix, numbers, FORMATS};

/// The formats that Candle's CPU backend makes with importances.
const WEIGHED: [GgmlDType; 5] = [
    GgmlDType::Q2K,
    GgmlDType::Q3K,
    GgmlDType::Q4K,
    GgmlDType::Q5K,
    GgmlDType::Q6K,
];

/// Two blocks of the K formats, so that a column's importance depends on the block's place in its row.
const COLUMNS: usize = 512;

fn whole() -> Result<Tensor> {
    Tensor::from_vec(numbers(5 * COLUMNS, 7), (5, COLUMNS), &Device::Cpu)
}

/// Those of (0, 10), different in each column.
fn importances() -> Vec<f32> {
    let numbers = numbers(COLUMNS, 11).into_iter();
    numbers.map(|number| 5. * (number + 1.)).collect()
}

#[track_caller]
fn assert_same(found: &QTensor, wanted: &QTensor) -> Result<()> {
    assert!(found.device().is_rocm());
    assert_eq!(
        (found.dtype(), found.shape()),
        (wanted.dtype(), wanted.shape())
    );
    assert!(found.data()? == wanted.data()?, "{:?}", wanted.dtype());
    Ok(())
}

#[test]
fn numbers_of_the_host_become_blocks_on_the_gpu() -> Result<()> {
    let Some(device) = gpu("numbers_of_the_host_become_blocks_on_the_gpu") else {
        return Ok(());
    };
    let whole = whole()?;
    for format in [GgmlDType::F32, GgmlDType::F16].into_iter().chain(FORMATS) {
        let wanted = QTensor::quantize(&whole, format)?;
        let found = QTensor::quantize_onto(&whole, format, &device)?;
        assert_same(&found, &wanted)?;
        let half = whole.to_dtype(DType::F16)?;
        let found = QTensor::quantize_onto(&half, format, &device)?;
        assert_same(&found, &QTensor::quantize(&half, format)?)?;
    }
    Ok(())
}

#[test]
fn importances_have_the_cpus_effect() -> Result<()> {
    let Some(device) = gpu("importances_have_the_cpus_effect") else {
        return Ok(());
    };
    let (whole, importances) = (whole()?, importances());
    for format in WEIGHED {
        let wanted = QTensor::quantize_imatrix(&whole, &importances, format)?;
        let unweighed = QTensor::quantize(&whole, format)?;
        assert!(wanted.data()? != unweighed.data()?, "{format:?}");
        let on_gpu = whole.to_device(&device)?;
        let found = QTensor::quantize_imatrix(&on_gpu, &importances, format)?;
        assert_same(&found, &wanted)?;
        let found = QTensor::quantize_imatrix_onto(&whole, &importances, format, &device)?;
        assert_same(&found, &wanted)?;
    }
    Ok(())
}

#[test]
fn blocks_made_by_importance_are_multiplied() -> Result<()> {
    let Some(device) = gpu("blocks_made_by_importance_are_multiplied") else {
        return Ok(());
    };
    let (whole, importances) = (whole()?, importances());
    for format in WEIGHED {
        let made = QTensor::quantize_imatrix_onto(&whole, &importances, format, &device)?;
        let on_cpu = QTensor::quantize_imatrix(&whole, &importances, format)?;
        let weights = on_cpu.dequantize(&Device::Cpu)?.flatten_all()?;
        let x = numbers(3 * COLUMNS, 9);
        let rows = Tensor::from_slice(&x, (3, COLUMNS), &device)?;
        let found = rows.apply_op1_no_bwd(&made)?.flatten_all()?;
        let (found, weights) = (found.to_vec1::<f32>()?, weights.to_vec1::<f32>()?);
        assert_products(&found, &x, &weights, COLUMNS, 1e-6)?;
    }
    Ok(())
}

#[test]
fn importances_of_other_columns_are_refused() -> Result<()> {
    let Some(device) = gpu("importances_of_other_columns_are_refused") else {
        return Ok(());
    };
    let whole = whole()?;
    let on_gpu = whole.to_device(&device)?;
    for count in [0, 1, COLUMNS - 1, COLUMNS + 1, 5 * COLUMNS] {
        let importances = vec![1.; count];
        for format in WEIGHED {
            assert!(QTensor::quantize_imatrix(&whole, &importances, format).is_err());
            assert!(QTensor::quantize_imatrix(&on_gpu, &importances, format).is_err());
            assert!(QTensor::quantize_imatrix_onto(&whole, &importances, format, &device).is_err());
        }
    }
    Ok(())
}

#[test]
fn only_numbers_of_the_host_are_put_onto_a_gpu() -> Result<()> {
    let Some(device) = gpu("only_numbers_of_the_host_are_put_onto_a_gpu") else {
        return Ok(());
    };
    let (quantized, _) = matrix(&device, GgmlDType::Q4K, &[5, COLUMNS], 5)?;
    let on_gpu = quantized.dequantize(&device)?;
    assert!(QTensor::quantize_onto(&on_gpu, GgmlDType::Q4K, &device).is_err());
    let importances = importances();
    let made = QTensor::quantize_imatrix_onto(&on_gpu, &importances, GgmlDType::Q4K, &device);
    assert!(made.is_err());
    Ok(())
}
