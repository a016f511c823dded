//! What rocRAND draws where the program has the feature `rocm-rocrand`: f16, bf16, f32 and f64.
use super::cast::to_dtype;
use super::operand::{kernel, uninit};
use super::random::Distribution;
use crate::rocm_backend::plan::PACK;
use crate::rocm_backend::element::element;
use crate::rocm_backend::launcher::MAX_GRID;
use crate::rocm_backend::plan::table::random as table;
use crate::rocm_backend::rocrand::Precision;
use crate::rocm_backend::{RocmDevice, RocmStorage};
use crate::{DType, Layout, Result, Shape};

/// What is drawn for an element type, and its type in Candle; `None` if rocRAND is not asked for it.
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
    let kernel = kernel(&table::RAND_UNIFORM_FROM, &[element], dtype, name)?;
    let x = units.pointer();
    let output = match wide == dtype {
        true => units,
        false => uninit(count, dtype, device)?,
    };
    let (y, count_argument) = (output.pointer(), count as u64);
    let distribution = Distribution::of(numbers, element);
    let packs = (count * wide.size_in_bytes()).div_ceil(PACK);
    let blocks = packs.div_ceil(table::BLOCK).min(MAX_GRID);
    let launch = device.launch(kernel)?.threads(blocks, table::BLOCK);
    let launch = launch.arg(&y).arg(&x).arg(&count_argument);
    // SAFETY: the arguments of the kernel; input and output have `count` elements, and may be the same.
    unsafe { launch.arg(&distribution).enqueue() }?;
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
