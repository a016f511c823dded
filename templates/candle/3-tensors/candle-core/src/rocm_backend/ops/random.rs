//! Random numbers from a counter: what a seed gives does not depend on the GPU or on what else it computes.
#[cfg(feature = "rocm-rocrand")]
use super::by_rocrand;
use super::nearest::nearest;
use super::operand::uninit;
use crate::rocm_backend::element::element;
use crate::rocm_backend::plan::table::random as table;
use crate::rocm_backend::plan::{self, Counter, Distribution, Drawn, Op};
use crate::rocm_backend::{RocmDevice, RocmStorage};
use crate::{DType, Result, Shape};

/// Numbers in [lo, up), whose bounds are rounded to the element type.
///
/// As on the CPU, an error if no number lies between them, or if their distance overflows.
pub(in crate::rocm_backend) fn rand_uniform(
    device: &RocmDevice,
    shape: &Shape,
    dtype: DType,
    lo: f64,
    up: f64,
) -> Result<RocmStorage> {
    const OP: &str = "rand_uniform";
    let (lowest, _) = nearest(lo, dtype, OP)?;
    let (upper, last) = nearest(up, dtype, OP)?;
    let extent = match dtype {
        DType::F64 => upper - lowest,
        _ => ((upper - lowest) as f32).into(),
    };
    if lowest >= upper || !extent.is_finite() {
        crate::bail!("{OP}: no distribution of {dtype:?} is uniform in [{lo}, {up})")
    }
    let numbers = [lowest, extent, last];
    #[cfg(feature = "rocm-rocrand")]
    if let Some(drawn) = by_rocrand::uniform(device, shape, dtype, &numbers, OP)? {
        return Ok(drawn);
    }
    filled(device, shape, dtype, &table::RAND_UNIFORM, OP, &numbers)
}

/// Numbers of a normal distribution, whose parameters are rounded to the element type.
///
/// As on the CPU, an error if the standard deviation is not finite then.
pub(in crate::rocm_backend) fn rand_normal(
    device: &RocmDevice,
    shape: &Shape,
    dtype: DType,
    mean: f64,
    std: f64,
) -> Result<RocmStorage> {
    const OP: &str = "rand_normal";
    let (mean, _) = nearest(mean, dtype, OP)?;
    let (deviation, _) = nearest(std, dtype, OP)?;
    if !deviation.is_finite() {
        crate::bail!("{OP}: no distribution of {dtype:?} has a standard deviation of {std}")
    }
    let numbers = [mean, deviation];
    #[cfg(feature = "rocm-rocrand")]
    if let Some(drawn) = by_rocrand::normal(device, shape, dtype, numbers)? {
        return Ok(drawn);
    }
    filled(device, shape, dtype, &table::RAND_NORMAL, OP, &numbers)
}

fn filled(
    device: &RocmDevice,
    shape: &Shape,
    dtype: DType,
    op: &Op,
    name: &'static str,
    numbers: &[f64],
) -> Result<RocmStorage> {
    let element = element(dtype, name)?;
    let count = shape.elem_count();
    let output = uninit(count, dtype, device)?;
    if count == 0 {
        return Ok(output);
    }
    let start = output.pointer();
    let drawn = Drawn {
        start,
        element,
        count,
    };
    let (seed, first) = device.random_offset(drawn.groups() as u64);
    let call = 0;
    let counter = Counter { seed, call, first };
    let distribution = Distribution::of(numbers, element);
    plan::random(device, op, drawn, counter, distribution)?;
    Ok(output)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::BackendDevice;
    use crate::rocm_backend::ops::to_cpu_storage;
    use crate::rocm_backend::testing::gpu;
    use crate::CpuStorage;

    #[test]
    fn a_draw_goes_on_where_the_last_one_ended() -> Result<()> {
        let Some(device) = gpu("a_draw_goes_on_where_the_last_one_ended") else {
            return Ok(());
        };
        // A thread draws 16 bytes.
        for (dtype, lanes) in [
            (DType::F64, 2),
            (DType::F32, 4),
            (DType::F16, 8),
            (DType::BF16, 8),
        ] {
            let drawn = |counts: &[usize]| -> Result<Vec<u8>> {
                device.set_seed(299792458)?;
                let mut all = Vec::new();
                for count in counts {
                    let y = rand_uniform(&device, &Shape::from(*count), dtype, 0., 1.)?;
                    let mut bytes = vec![0; y.size()];
                    y.copy_to_host(&mut bytes)?;
                    all.extend(bytes);
                }
                Ok(all)
            };
            let whole = drawn(&[lanes * 100])?;
            assert_eq!(drawn(&[lanes * 3, lanes * 97])?, whole, "{dtype:?}");
            assert_eq!(drawn(&[0, lanes * 40, lanes * 60])?, whole, "{dtype:?}");
        }
        Ok(())
    }

    #[test]
    fn ranges_have_an_end() -> Result<()> {
        let Some(device) = gpu("ranges_have_an_end") else {
            return Ok(());
        };
        let shape = Shape::from(1000);
        let uniform = |dtype, lo, up| rand_uniform(&device, &shape, dtype, lo, up);
        for dtype in [DType::F16, DType::F32, DType::F64] {
            assert!(uniform(dtype, 2., 2.).is_err(), "{dtype:?}");
            assert!(uniform(dtype, 2., 1.).is_err(), "{dtype:?}");
            assert!(uniform(dtype, f64::NAN, 1.).is_err(), "{dtype:?}");
            assert!(rand_normal(&device, &shape, dtype, 0., f64::INFINITY).is_err());
            assert!(rand_normal(&device, &shape, dtype, 0., f64::NAN).is_err());
        }
        assert!(
            uniform(DType::F32, -3e38, 3e38).is_err(),
            "their distance overflows"
        );
        assert!(uniform(DType::F32, 0., 3e38).is_ok());
        assert!(uniform(DType::F64, -1e308, 1e308).is_err());
        assert!(uniform(DType::F64, 0., 1e300).is_ok());
        let CpuStorage::F64(drawn) = to_cpu_storage(&uniform(DType::F64, 5., 7.)?)? else {
            panic!("f64 stays f64")
        };
        assert!(drawn.iter().all(|x| (5. ..7.).contains(x)));
        assert!(drawn.iter().any(|x| *x < 5.1) && drawn.iter().any(|x| *x > 6.9));
        Ok(())
    }
}
