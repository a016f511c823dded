//! Matrix products by a kernel of our own, which takes any strides.
use super::matmul::Matrices;
use crate::rocm_backend::launcher::MAX_GRID_Y;
use crate::rocm_backend::hip::HipResult;
use crate::rocm_backend::launcher::MAX_GRID;
use crate::rocm_backend::launcher::MAX_LAUNCH;
use crate::rocm_backend::plan::table::matmul::{BLOCK, MATMUL, TILE};
use crate::rocm_backend::plan::table::Element;
use crate::rocm_backend::plan::{Argument, Pointer};
use crate::rocm_backend::plan::{KernelLayout, Merged};
use crate::rocm_backend::{RocmDevice, RocmError};

/// `candle::Product`: products of matrices that lie alike.
#[repr(C)]
struct Product {
    rows: u64,
    columns: u64,
    depth: u64,
    left: Strides,
    right: Strides,
    /// Of the factors' first elements.
    batch: KernelLayout<2>,
}

/// `candle::Strides`: elements from a row to the next, and from a column to the next.
#[repr(C)]
struct Strides {
    row: i64,
    column: i64,
}

// SAFETY: the same fields in the same order, with C's layout on both sides.
unsafe impl Argument for Product {}

impl Strides {
    fn of([(_, row), (_, column)]: [(usize, usize); 2]) -> Self {
        Self {
            row: row as i64,
            column: column as i64,
        }
    }
}

/// `y[.., m, n] = left[.., m, k] * right[.., k, n]`, none of the sizes 0, and `y` contiguous memory for the result.
pub(super) fn multiply(
    device: &RocmDevice,
    element: Element,
    left: Matrices<'_>,
    right: Matrices<'_>,
    y: Pointer,
) -> HipResult<()> {
    let kernel = MATMUL.kernel(&[element]);
    let kernel =
        kernel.ok_or_else(|| RocmError::Other(format!("no kernel multiplies {element:?}")))?;
    let [(rows, _), (depth, _)] = left.sides();
    let [_, (columns, _)] = right.sides();
    let batch = Merged::of([left.corners(), right.corners()])?;
    let size = element.size();
    batch.launches(MAX_LAUNCH, &mut |first, part| {
        let product = Product {
            rows: rows as u64,
            columns: columns as u64,
            depth: depth as u64,
            left: Strides::of(left.sides()),
            right: Strides::of(right.sides()),
            batch: part.pack(),
        };
        let [from_left, from_right] = part.offsets;
        let pointers = [
            y.offset(first * rows * columns * size),
            left.base.offset(from_left * size),
            right.base.offset(from_right * size),
        ];
        let across = columns.div_ceil(TILE).min(MAX_GRID);
        let launch = device.launch(kernel)?.threads(across, BLOCK);
        let launch = launch.blocks_y(rows.div_ceil(TILE).min(MAX_GRID_Y));
        let launch = launch.blocks_z(part.count().min(MAX_GRID_Y));
        let launch = launch.arg(&pointers[0]).arg(&pointers[1]).arg(&pointers[2]);
        let launch = launch.arg(&product);
        // SAFETY: the kernel's arguments; y has all the results, Candle's views stay within their storages, and whatever
        // is done to those later is queued behind this.
        unsafe { launch.enqueue() }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
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
}
