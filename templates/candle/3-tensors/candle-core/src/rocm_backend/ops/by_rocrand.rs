//! What rocRAND draws where the program has the feature `rocm-rocrand`: f16, bf16, f32 and f64.
use super::cast::to_dtype;
use super::operand::uninit;
use crate::rocm_backend::element::element;
use crate::rocm_backend::plan::random::uniform_from;
use crate::rocm_backend::plan::{Distribution, Drawn};
use crate::rocm_backend::rocrand::Precision;
use crate::rocm_backend::{RocmDevice, RocmStorage};
use crate::{DType, Layout, Result, Shape};

/// The precision drawn for an element type, and its type in Candle; `None` if rocRAND is not used for it.
fn drawn(dtype: DType) -> Option<(Precision, DType)> {
    match dtype {
        DType::F16 | DType::BF16 | DType::F32 => Some((Precision::Single, DType::F32)),
        DType::F64 => Some((Precision::Double, DType::F64)),
        _ => None,
    }
}

/// Numbers of the `candle::Uniform` with these `numbers`: rocRAND's are in (0, 1], a kernel moves them to [low, up).
pub(super) fn uniform(
    device: &RocmDevice,
    shape: &Shape,
    dtype: DType,
    numbers: &[f64],
    name: &'static str,
) -> Result<Option<RocmStorage>> {
    let Some((precision, wide)) = drawn(dtype) else {
        return Ok(None);
    };
    let count = shape.elem_count();
    if count == 0 {
        return uninit(count, dtype, device).map(Some);
    }
    let units = uninit(count, wide, device)?;
    device.with_rocrand(|generator| {
        // SAFETY: the GPU is the current device, `units` has `count` numbers, and whatever is done to them later is
        // queued behind this.
        unsafe { generator.uniform(units.pointer(), count, precision) }
    })?;
    let element = element(dtype, name)?;
    let x = units.pointer();
    let output = match wide == dtype {
        true => units,
        false => uninit(count, dtype, device)?,
    };
    let start = output.pointer();
    let drawn = Drawn {
        start,
        element,
        count,
    };
    uniform_from(device, x, drawn, Distribution::of(numbers, element))?;
    Ok(Some(output))
}

/// Numbers of the normal distribution with that mean and standard deviation.
pub(super) fn normal(
    device: &RocmDevice,
    shape: &Shape,
    dtype: DType,
    numbers: [f64; 2],
) -> Result<Option<RocmStorage>> {
    let Some((precision, wide)) = drawn(dtype) else {
        return Ok(None);
    };
    let count = shape.elem_count();
    let even = count.next_multiple_of(2);
    let pairs = uninit(even, wide, device)?;
    if count > 0 {
        device.with_rocrand(|generator| {
            // SAFETY: as above, of `even` numbers.
            unsafe { generator.normal(pairs.pointer(), even, precision, numbers) }
        })?;
    }
    if wide == dtype && even == count {
        return Ok(Some(pairs));
    }
    // The last number of an odd count's last pair is left behind, and others are rounded.
    to_dtype(&pairs, &Layout::contiguous(count), dtype).map(Some)
}
