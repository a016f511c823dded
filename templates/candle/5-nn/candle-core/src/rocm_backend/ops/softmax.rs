//! Softmax along the last dimension.
use super::operand::{kernel_form, uninit, Operand};
use crate::rocm_backend::nn_plan;
use crate::rocm_backend::plan::table::softmax as table;
use crate::rocm_backend::plan::Contiguous;
use crate::rocm_backend::RocmStorage;
use crate::{Error, Layout, Result, Shape};

/// exp(x) over the sum of exp(x) along the last dimension, and its shape, which is that of `x`.
///
/// For bf16, f16, f32 and f64. An error for a scalar, and for a view that is not contiguous.
pub fn softmax_last_dim(x: &RocmStorage, layout: &Layout) -> Result<(RocmStorage, Shape)> {
    const OP: &str = "softmax-last-dim";
    let x = Operand::new(x, layout);
    if !layout.is_contiguous() {
        return Err(Error::RequiresContiguous { op: OP }.bt());
    }
    if layout.dims().is_empty() {
        crate::bail!("{OP} of a scalar, which has no dimension")
    }
    let element = x.element(OP)?;
    kernel_form(
        &table::SOFTMAX,
        table::FORM_STREAMED,
        &[element],
        x.dtype(),
        OP,
    )?;
    let y = uninit(layout.shape().elem_count(), x.dtype(), x.device())?;
    let rows = Contiguous {
        start: x.start(),
        element,
        shape: layout.dims(),
    };
    nn_plan::softmax(x.device(), rows, y.pointer())?;
    Ok((y, layout.shape().clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rocm_backend::ops::{storage_from_slice, to_cpu_storage, zeros_impl};
    use crate::rocm_backend::plan::Launcher;
    use crate::rocm_backend::testing::{gpu, launches_of};
    use crate::rocm_backend::RocmDevice;
    use crate::{CpuStorage, DType};

    /// The kernels for zeros of this shape.
    fn kernels(device: &RocmDevice, dtype: DType, shape: &[usize]) -> Result<Vec<String>> {
        let shape = Shape::from(shape);
        let x = zeros_impl(device, &shape, dtype)?;
        let layout = Layout::contiguous(shape);
        let (result, launches) = launches_of(|| softmax_last_dim(&x, &layout));
        result?;
        Ok(launches.into_iter().map(|launch| launch.kernel).collect())
    }

    #[test]
    fn a_tensor_has_a_type_and_a_dimension() -> Result<()> {
        let Some(device) = gpu("a_tensor_has_a_type_and_a_dimension") else {
            return Ok(());
        };
        assert_eq!(kernels(&device, DType::F32, &[3, 8])?, ["softmax_f32_held"]);
        assert_eq!(kernels(&device, DType::F32, &[8])?, ["softmax_f32_held"]);
        assert!(kernels(&device, DType::F32, &[3, 0])?.is_empty());
        assert!(kernels(&device, DType::F32, &[]).is_err());
        assert!(kernels(&device, DType::U8, &[3, 8]).is_err());
        Ok(())
    }

    #[test]
    fn a_long_row_keeps_the_card_busy() -> Result<()> {
        let Some(device) = gpu("a_long_row_keeps_the_card_busy") else {
            return Ok(());
        };
        let length = 20 * table::LEAST_CHUNK;
        let x = zeros_impl(&device, &Shape::from(length), DType::F32)?;
        let (result, launches) = launches_of(|| softmax_last_dim(&x, &Layout::contiguous(length)));
        result?;
        let room = table::BLOCKS_PER_PROCESSOR.on(device.tuning());
        let most = device.card().multiprocessors * room;
        for launch in launches {
            assert_eq!(launch.grid, [most.min(20) as u32, 1, 1]);
        }
        Ok(())
    }

    #[test]
    fn chunks_of_a_row_share_its_total() -> Result<()> {
        let Some(device) = gpu("chunks_of_a_row_share_its_total") else {
            return Ok(());
        };
        for (rows, length) in [(1, 40_003), (2, 50_000)] {
            let data: Vec<f32> = (0..rows * length)
                .map(|i| (i * 37 % 101) as f32 / 9.)
                .collect();
            let x = storage_from_slice(&device, &data)?;
            let layout = Layout::contiguous((rows, length));
            let (result, launches) = launches_of(|| softmax_last_dim(&x, &layout));
            assert_eq!(launches.len(), 2, "{rows} x {length}");
            let CpuStorage::F32(found) = to_cpu_storage(&result?.0)? else {
                panic!("f32 stays f32")
            };
            for (row, found) in data.chunks(length).zip(found.chunks(length)) {
                let powers = row.iter().map(|&x| f64::from(x).exp());
                let total: f64 = powers.clone().sum();
                for (power, &found) in powers.zip(found) {
                    let wanted = power / total;
                    let error = (f64::from(found) - wanted).abs() / wanted;
                    assert!(error < 1e-5, "{found} instead of {wanted}");
                }
            }
        }
        Ok(())
    }
}
