//! One value written to every element of a view.
use super::operand::{uninit, Operand};
use crate::rocm_backend::plan;
use crate::rocm_backend::{RocmDevice, RocmStorage};
use crate::scalar::Scalar;
use crate::{DType, Layout, Result, Shape};

/// Sets every element of a view to `scalar`, which has their type.
pub(in crate::rocm_backend) fn const_set(
    y: &mut RocmStorage,
    scalar: Scalar,
    layout: &Layout,
) -> Result<()> {
    const OP: &str = "const-set";
    let base = y.pointer_mut();
    let y = Operand::new(y, layout);
    if scalar.dtype() != y.dtype() {
        let (lhs, rhs) = (y.dtype(), scalar.dtype());
        return Err(crate::Error::DTypeMismatchBinaryOp { lhs, rhs, op: OP }.bt());
    }
    let element = y.element(OP)?;
    let planned = plan::Operand {
        base,
        ..y.planned()
    };
    Ok(plan::fill(y.device(), planned, element, scalar.into())?)
}

/// A contiguous tensor of zeros; all bits 0 is zero in every element type.
pub(in crate::rocm_backend) fn zeros_impl(
    device: &RocmDevice,
    shape: &Shape,
    dtype: DType,
) -> Result<RocmStorage> {
    let mut zeros = uninit(shape.elem_count(), dtype, device)?;
    zeros.memory_mut().fill_zero()?;
    Ok(zeros)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rocm_backend::testing::{gpu, launches_of};

    #[test]
    fn a_thread_fills_16_bytes() -> Result<()> {
        let Some(device) = gpu("a_thread_fills_16_bytes") else {
            return Ok(());
        };
        // Elements, and how many of them, from the second on: 256 threads to a block write 4096 bytes.
        for (dtype, scalar, count, blocks) in [
            (DType::F32, Scalar::F32(1.5), 1025, &[2][..]),
            (DType::F32, Scalar::F32(1.5), 1024, &[1]),
            (DType::F64, Scalar::F64(1.5), 2049, &[5]),
            (DType::U8, Scalar::U8(9), 4095, &[1]),
            (DType::U8, Scalar::U8(9), 4099, &[1, 1]),
        ] {
            let size = dtype.size_in_bytes();
            let mut y = zeros_impl(&device, &Shape::from(count + 2), dtype)?;
            let layout = Layout::contiguous_with_offset(count, 1);
            let (done, launches) = launches_of(|| const_set(&mut y, scalar, &layout));
            done?;
            let found: Vec<u32> = launches.iter().map(|launch| launch.grid[0]).collect();
            assert_eq!(found, blocks, "{count} of {dtype:?}");
            let mut data = vec![0; y.size()];
            y.copy_to_host(&mut data)?;
            let one = match scalar {
                Scalar::F32(value) => value.to_ne_bytes().to_vec(),
                Scalar::F64(value) => value.to_ne_bytes().to_vec(),
                _ => vec![9],
            };
            let zero = vec![0; size];
            assert!(data == [zero.clone(), one.repeat(count), zero].concat());
        }
        Ok(())
    }

    #[test]
    fn rows_are_filled_up_to_their_ends() -> Result<()> {
        let Some(device) = gpu("rows_are_filled_up_to_their_ends") else {
            return Ok(());
        };
        // Half of each row of 16 bytes, in more rows than a launch takes.
        let mut y = zeros_impl(&device, &Shape::from(5000 * 4), DType::F32)?;
        let layout = Layout::contiguous((5000, 4)).narrow(1, 2, 2)?;
        let (done, launches) = launches_of(|| const_set(&mut y, Scalar::F32(2.), &layout));
        done?;
        // 8 bytes of each row are one element: 4096 of them and 904, of which a block fills 512.
        let found: Vec<u32> = launches.iter().map(|launch| launch.grid[0]).collect();
        assert_eq!(found, [8, 2]);
        let mut data = vec![0; y.size()];
        y.copy_to_host(&mut data)?;
        let row = [0f32, 0., 2., 2.].map(f32::to_ne_bytes).concat();
        assert!(data == row.repeat(5000));
        Ok(())
    }

    #[test]
    fn a_tensor_is_filled_with_its_own_type() -> Result<()> {
        let Some(device) = gpu("a_tensor_is_filled_with_its_own_type") else {
            return Ok(());
        };
        let mut y = zeros_impl(&device, &Shape::from(3), DType::F32)?;
        let layout = Layout::contiguous(Shape::from(3));
        assert!(const_set(&mut y, Scalar::F64(1.), &layout).is_err());
        const_set(&mut y, Scalar::F32(1.), &layout)
    }
}
