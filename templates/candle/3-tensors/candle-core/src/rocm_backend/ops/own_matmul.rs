//! Tests of matrix products by a kernel of our own.
use crate::rocm_backend::launcher::MAX_LAUNCH;
use crate::rocm_backend::testing::{gpu, is_alone, launches_of, OWN_PRODUCTS};
use crate::{DType, Device, Result, Tensor};

fn integers(shape: &[usize], dtype: DType, device: &Device) -> Result<Tensor> {
    let count: usize = shape.iter().product();
    let data: Vec<f32> = (0..count).map(|i| (i * 7 % 5) as f32 - 2.).collect();
    Tensor::from_vec(data, shape, &Device::Cpu)?
        .to_dtype(dtype)?
        .to_device(device)
}

fn flat(x: &Tensor) -> Result<Vec<f64>> {
    let x = x.to_device(&Device::Cpu)?.to_dtype(DType::F64)?;
    x.flatten_all()?.to_vec1()
}

/// By the CPU, in f64 and of one batch.
fn by_the_cpu(left: &Tensor, right: &Tensor) -> Result<Vec<f64>> {
    let plain = |x: &Tensor| -> Result<Tensor> {
        let x = x.to_device(&Device::Cpu)?.to_dtype(DType::F64)?;
        x.contiguous()?.flatten_to(x.rank() - 3)
    };
    flat(&plain(left)?.matmul(&plain(right)?)?)
}

#[test]
fn any_views_are_multiplied_as_they_lie() -> Result<()> {
    let test = "any_views_are_multiplied_as_they_lie";
    let Some(device) = gpu(test) else {
        return Ok(());
    };
    if !is_alone(module_path!(), test, &OWN_PRODUCTS) {
        return Ok(());
    }
    let on = Device::Rocm(device);
    for dtype in [DType::F32, DType::F64, DType::F16, DType::BF16] {
        // Integers whose sums the narrow types hold: the results are exact.
        let x = |shape: &[usize]| integers(shape, dtype, &on);
        let cases = [
            (x(&[1, 1, 1])?, x(&[1, 1, 1])?),
            (x(&[3, 70, 20])?, x(&[3, 20, 66])?),
            (x(&[2, 3, 20, 70])?.t()?, x(&[2, 3, 66, 20])?.t()?),
            (
                x(&[1, 5, 20])?.broadcast_as((4, 5, 20))?,
                x(&[4, 40, 9])?.narrow(1, 11, 20)?,
            ),
            (
                x(&[7, 1, 16])?.broadcast_as((7, 3, 16))?,
                x(&[16, 7, 5])?.transpose(0, 1)?,
            ),
            // More matrices than blocks in the grid's third dimension, in batches that do not merge.
            (
                x(&[3, 5, 2, 3, 4])?.permute((1, 0, 2, 3, 4))?,
                x(&[5, 3, 2, 4, 6])?,
            ),
            // More tiles than blocks in its first and second.
            (x(&[1, 330, 3])?, x(&[1, 3, 2100])?),
        ];
        for (left, right) in cases {
            let (found, launches) = launches_of(|| left.matmul(&right));
            let wanted = by_the_cpu(&left, &right)?;
            assert_eq!(flat(&found?)?, wanted, "{left:?} {right:?}");
            let kernels: Vec<_> = launches.iter().map(|l| &l.kernel[..]).collect();
            assert_eq!(kernels, [format!("matmul_{}", dtype.as_str())]);
        }
    }
    Ok(())
}

#[test]
fn many_products_take_several_launches() -> Result<()> {
    let test = "many_products_take_several_launches";
    let Some(device) = gpu(test) else {
        return Ok(());
    };
    if !is_alone(module_path!(), test, &OWN_PRODUCTS) {
        return Ok(());
    }
    let on = Device::Rocm(device);
    let left = integers(&[MAX_LAUNCH + 3, 1, 2], DType::F32, &on)?;
    let right = integers(&[MAX_LAUNCH + 3, 2, 1], DType::F32, &on)?;
    let (found, launches) = launches_of(|| left.matmul(&right));
    assert!(flat(&found?)? == by_the_cpu(&left, &right)?);
    assert_eq!(launches.len(), 2, "{launches:?}");
    Ok(())
}
