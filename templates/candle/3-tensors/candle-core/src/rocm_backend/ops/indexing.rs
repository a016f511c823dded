//! Elements picked and placed by indices; they only move, so that there is one kernel for each width.
use super::ids::{require_contiguous, targets, Indices, Space, Update, PICKING};
use super::operand::{kernel, uninit, Operand};
use super::rows::PACK;
use crate::rocm_backend::hip::HipResult;
use crate::rocm_backend::launcher::MAX_LAUNCH;
use crate::rocm_backend::plan::table::indexing as table;
use crate::rocm_backend::plan::{Kernel, Pointer};
use crate::rocm_backend::{DeviceMemory, RocmStorage};
use crate::{Error, Layout, Result};

/// x with `ids` (one dimension, any stride) in place of `dim`: y[l, i, r] = x[l, ids[i], r].
pub(in crate::rocm_backend) fn index_select(
    x: &RocmStorage,
    ids: &RocmStorage,
    layout: &Layout,
    ids_layout: &Layout,
    dim: usize,
) -> Result<RocmStorage> {
    const OP: &str = "index-select";
    require_contiguous(&[layout], OP)?;
    let (x, ids) = (Operand::new(x, layout), Operand::new(ids, ids_layout));
    let element = x.element(OP)?.bits();
    let source = Space::of(layout.dims(), dim);
    let n = ids_layout.shape().dims1()?;
    let space = Space { n, ..source };
    let strides = [0, ids_layout.stride()[0], 0];
    let ids = Indices::new(ids, PICKING, strides, source.n, OP)?;
    // Without rows to move, neighbouring elements have neighbouring indices: that is what gather is good at.
    let selected = table::SELECTED * PACK / element.size();
    let (op, lanes) = if space.right > 1 {
        (&table::INDEX_SELECT, selected)
    } else {
        (&table::GATHER, table::LANES)
    };
    let kernel = kernel(op, &[element], x.dtype(), OP)?;
    pick(kernel, lanes, x, &ids, space, space.right)
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
    let source = Space::of(layout.dims(), dim);
    let space = Space::of(ids_layout.dims(), dim);
    let ids = Indices::new(ids, PICKING, space.strides(), source.n, OP)?;
    let kernel = kernel(&table::GATHER, &[x.element(OP)?.bits()], x.dtype(), OP)?;
    pick(kernel, table::LANES, x, &ids, space, source.right)
}

/// Reads x (left, size, right) through indices into a new contiguous tensor over the space, `lanes` elements a thread.
fn pick(
    kernel: Kernel,
    lanes: usize,
    x: Operand<'_>,
    ids: &Indices<'_>,
    space: Space,
    right: usize,
) -> Result<RocmStorage> {
    let (device, size) = (x.device(), x.size());
    let output = uninit(space.count(), x.dtype(), device)?;
    let stride = right as i64;
    let views = space.merged([targets(ids.size, right), ids.strides])?;
    views.launches(MAX_LAUNCH, &mut |first, piece| {
        let [source, indices] = piece.offsets;
        let y = output.pointer().offset(first * size);
        let x = x.start().offset(source * size);
        let ids = ids.argument(indices);
        let layout = piece.pack();
        let blocks = piece.count().div_ceil(lanes * table::BLOCK);
        let launch = device.launch(kernel)?.strided(blocks, table::BLOCK);
        let launch = launch.arg(&y).arg(&x).arg(&ids).arg(&stride).arg(&layout);
        // SAFETY: the arguments of kernels that pick; the output has an element for each of the space, x for each index
        // below `size`, and kernels leave out other indices.
        unsafe { launch.enqueue() }
    })?;
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
    let element = update.x.element(OP)?.bits();
    let form = |variant| {
        let kernel = table::SCATTER.variant(variant, &[element]);
        kernel.ok_or_else(|| Error::UnsupportedDTypeForOp(x.dtype(), OP).bt())
    };
    if walks(update.space, MAX_LAUNCH) {
        update.walk_columns(form(table::FORM_PLAIN)?, table::BLOCK)?;
    } else {
        let size = update.targets() * std::mem::size_of::<u32>();
        let mut marks = DeviceMemory::alloc(size, update.device)?;
        marks.fill_zero()?;
        scatter_marked(&update, form(table::FORM_MARKED)?, &mut marks)?;
    }
    update.ids.check()
}

/// Whether threads walk along columns: short ones, or so many that the card is busy, or more elements than a launch has,
/// whose marks number them.
fn walks(space: Space, launch: usize) -> bool {
    let Space { left, n, right } = space;
    n <= table::SHORT || left * right >= table::WALK || space.count() > launch
}

/// The launch that finds each target's last writer, and the launch that lets it write.
///
/// `marks` are a u32 for each element of y, 0 at first.
fn scatter_marked(update: &Update<'_>, kernel: Kernel, marks: &mut DeviceMemory) -> Result<()> {
    let Update { space, ids, .. } = update;
    let (y, x, marks) = (update.y, update.x.start(), Pointer(marks.as_mut_ptr()));
    let (ids_argument, stride) = (ids.argument(0), space.right as i64);
    let views = space.merged([targets(ids.size, space.right), ids.strides])?;
    views.launches(MAX_LAUNCH, &mut |_, piece| {
        let layout = piece.pack();
        let blocks = piece.count().div_ceil(table::BLOCK);
        for writes in [0u32, 1] {
            let launch = update.device.launch(kernel)?.strided(blocks, table::BLOCK);
            let launch = launch.arg(&y).arg(&x).arg(&marks).arg(&writes);
            let launch = launch.arg(&ids_argument).arg(&stride).arg(&layout);
            // SAFETY: the arguments of marked kernels; x and the indices have an element for each of the space, y and
            // the marks for each index below `size`, and kernels leave out other indices.
            unsafe { launch.enqueue() }?;
        }
        HipResult::Ok(())
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rocm_backend::testing::{gpu, launches_of};
    use crate::{DType, Device, Tensor};

    #[test]
    fn threads_walk_along_short_or_many_columns() {
        for (sizes, launch, expected) in [
            ([1, 32, 1], 1 << 30, true),
            ([1, 33, 1], 1 << 30, false),
            ([32_767, 33, 1], 1 << 30, false),
            ([128, 33, 256], 1 << 30, true),
            ([9, 64, 8], 9 * 64 * 8, false),
            ([9, 64, 8], 9 * 64 * 8 - 1, true),
        ] {
            let [left, n, right] = sizes;
            assert_eq!(
                walks(Space { left, n, right }, launch),
                expected,
                "{sizes:?}"
            );
        }
    }

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
