//! Elements picked and placed by indices; they only move, so that there is one kernel for each width.
use super::ids::{require_contiguous, Indices, Update, PICKING};
use super::operand::{uninit, Operand};
use crate::rocm_backend::plan::{self, Space};
use crate::rocm_backend::RocmStorage;
use crate::{Layout, Result};

/// x with `ids` (one dimension, any stride) in place of `dim`: y[l, i, r] = x[l, ids[i], r].
pub(crate) fn index_select(
    x: &RocmStorage,
    ids: &RocmStorage,
    layout: &Layout,
    ids_layout: &Layout,
    dim: usize,
) -> Result<RocmStorage> {
    const OP: &str = "index-select";
    require_contiguous(&[layout], OP)?;
    let (x, ids) = (Operand::new(x, layout), Operand::new(ids, ids_layout));
    let source = Space::of(layout.dims(), dim);
    let n = ids_layout.shape().dims1()?;
    let ids = Indices::new(ids, PICKING, source.n, OP)?;
    let step = ids_layout.stride()[0];
    let output = uninit(Space { n, ..source }.count(), x.dtype(), x.device())?;
    let (y, picked) = (output.pointer(), x.contiguous(OP)?);
    plan::index_select(x.device(), picked, dim, ids.planned(), [n, step], y)?;
    ids.check()?;
    Ok(output)
}

/// A tensor of the indices' shape: y[l, i, r] = x[l, ids[l, i, r], r].
pub(in crate::rocm_backend) fn gather(
    x: &RocmStorage,
    layout: &Layout,
    ids: &RocmStorage,
    ids_layout: &Layout,
    dim: usize,
) -> Result<RocmStorage> {
    const OP: &str = "gather";
    require_contiguous(&[layout, ids_layout], OP)?;
    let (x, ids) = (Operand::new(x, layout), Operand::new(ids, ids_layout));
    let shape = ids_layout.dims();
    let ids = Indices::new(ids, PICKING, layout.dims()[dim], OP)?;
    let output = uninit(shape.iter().product(), x.dtype(), x.device())?;
    let (y, picked) = (output.pointer(), x.contiguous(OP)?);
    plan::gather(x.device(), picked, dim, ids.planned(), shape, y)?;
    ids.check()?;
    Ok(output)
}

/// y[l, ids[l, i, r], r] = x[l, i, r] in place; of several elements with one target the last stays.
pub(in crate::rocm_backend) fn scatter_set(
    y: &mut RocmStorage,
    layout: &Layout,
    ids: &RocmStorage,
    ids_layout: &Layout,
    x: &RocmStorage,
    x_layout: &Layout,
    dim: usize,
) -> Result<()> {
    const OP: &str = "scatter";
    let (x, ids) = (Operand::new(x, x_layout), Operand::new(ids, ids_layout));
    let update = Update::scattered(y, layout, x, ids, PICKING, dim, OP)?;
    let (y, x) = (update.y, update.x);
    plan::scatter(update.device, y, update.ids.planned(), x, dim, None)?;
    update.ids.check()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rocm_backend::testing::{gpu, launches_of};
    use crate::{DType, Device, Tensor};

    #[test]
    fn rows_are_moved_in_packs() -> Result<()> {
        let Some(device) = gpu("rows_are_moved_in_packs") else {
            return Ok(());
        };
        let device = Device::Rocm(device);
        let ids = Tensor::zeros(100, DType::U32, &device)?;
        for (dtype, kernel, blocks) in [
            // 32 bytes of a row to a thread, 256 threads to a block: 4000 elements.
            (DType::U8, "index_select_b8", 1),
            (DType::BF16, "index_select_b16", 1),
            (DType::F32, "index_select_b32", 2),
            (DType::F64, "index_select_b64", 4),
        ] {
            let x = Tensor::zeros((3, 40), dtype, &device)?;
            let (result, launches) = launches_of(|| x.index_select(&ids, 0));
            result?;
            let found: Vec<_> = launches
                .iter()
                .map(|l| (l.kernel.as_str(), l.grid[0]))
                .collect();
            assert_eq!(found, [(kernel, blocks)]);
        }
        // Single elements are gathered, four to a thread.
        let x = Tensor::zeros((40, 3), DType::F32, &device)?;
        let (result, launches) = launches_of(|| x.index_select(&ids, 1));
        result?;
        let found: Vec<_> = launches
            .iter()
            .map(|l| (l.kernel.as_str(), l.grid[0]))
            .collect();
        assert_eq!(found, [("gather_b32", 4)]);
        Ok(())
    }
}
