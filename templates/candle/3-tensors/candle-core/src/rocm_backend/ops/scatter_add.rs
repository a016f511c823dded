//! Elements added to those that indices name, in place.
use super::ids::{Update, ADDING};
use super::operand::Operand;
use crate::rocm_backend::plan;
use crate::rocm_backend::RocmStorage;
use crate::{Layout, Result};

/// y[l, ids[l, i, r], r] += x[l, i, r] in place.
pub(in crate::rocm_backend) fn scatter_add_set(
    y: &mut RocmStorage,
    layout: &Layout,
    ids: &RocmStorage,
    ids_layout: &Layout,
    x: &RocmStorage,
    x_layout: &Layout,
    dim: usize,
) -> Result<()> {
    const OP: &str = "scatter-add";
    let (x, ids) = (Operand::new(x, x_layout), Operand::new(ids, ids_layout));
    let update = Update::scattered(y, layout, x, ids, ADDING, dim, OP)?;
    let (y, x) = (update.y, update.x);
    plan::scatter_add(update.device, y, update.ids.planned(), x, dim, None)?;
    update.ids.check()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rocm_backend::testing::{gpu, launches_of};
    use crate::{DType, Device, Tensor};

    #[test]
    fn a_block_sums_neighbouring_columns() -> Result<()> {
        let Some(device) = gpu("a_block_sums_neighbouring_columns") else {
            return Ok(());
        };
        let device = Device::Rocm(device);
        // 20 targets in 32 columns take 8 bytes each; 33 columns are two blocks' for each of 3, or, of 20, all that a
        // launch has.
        for (left, blocks) in [(3, 6), (1, 2), (20, 32)] {
            let y = Tensor::zeros((left, 20, 33), DType::F32, &device)?;
            let x = Tensor::zeros((left, 40, 33), DType::F32, &device)?;
            let ids = Tensor::zeros((left, 40, 33), DType::U32, &device)?;
            let (result, launches) = launches_of(|| y.scatter_add(&ids, &x, 1));
            result?;
            let last = launches.last().expect("it is launched");
            let found = (last.kernel.as_str(), last.grid, last.lds);
            let lds = 20 * 32 * 8;
            assert_eq!(found, ("scatter_add_f32_lds", [blocks, 1, 1], lds));
        }
        Ok(())
    }
}
