//! Elements added to those that indices name, in place.
use super::ids::{targets, Space, Update, ADDING};
use super::operand::Operand;
use crate::rocm_backend::launcher::MAX_LAUNCH;
use crate::rocm_backend::plan::table::scatter_add as table;
use crate::rocm_backend::plan::table::Element;
use crate::rocm_backend::plan::{Argument, Kernel};
use crate::rocm_backend::plan::{Merged, View};
use crate::rocm_backend::RocmStorage;
use crate::{Error, Layout, Result};

/// Columns that a block of the LDS form takes at most; more would not make its accesses any wider.
const MAX_WIDTH: usize = 32;

/// Columns of a strip at least, so that accesses to x and to targets that lie side by side fill cache lines.
const MIN_STRIP: usize = 32;

/// Elements of a column in the LDS form: as many rounds as that, and a round's bids still have 32 bits.
const MAX_STEPS: usize = 1 << 23;

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
    add_at_indices(&update, OP)?;
    update.ids.check()
}

/// Adds with indices in any view; the form follows from the sizes.
///
/// All forms but the atomic one add in the order of x. That one takes 32-bit words of y, which allocations have.
pub(super) fn add_at_indices(update: &Update<'_>, op: &'static str) -> Result<()> {
    if update.space.count() == 0 {
        return Ok(());
    }
    let element = update.x.element(op)?;
    let form = |variant| {
        let kernel = table::SCATTER_ADD.variant(variant, &[element]);
        kernel.ok_or_else(|| Error::UnsupportedDTypeForOp(update.x.dtype(), op).bt())
    };
    if walks(update.space) {
        update.walk_columns(form(table::FORM_COLUMNS)?, table::BLOCK)
    } else if let Some(width) = width_in_lds(update.space, update.ids.size, element) {
        add_in_lds(update, form(table::FORM_LDS)?, element, width)
    } else {
        add_atomically(update, form(table::FORM_PLAIN)?)
    }
}

/// Whether threads that walk along columns are fast enough: short columns, or so many of them that the card is busy.
fn walks(Space { left, n, right }: Space) -> bool {
    n <= table::SHORT || (right >= table::ROWS && left * right >= table::WALK)
}

/// Columns that a block sums in LDS together, a power of two.
///
/// None if the targets do not fit, are many more than the elements, or if so few columns fit that accesses to
/// neighbouring ones would be wasted.
fn width_in_lds(space: Space, size: usize, element: Element) -> Option<usize> {
    let wanted = space.right.next_power_of_two().min(MAX_WIDTH);
    let fitting = table::LDS / (size.max(1) * (std::mem::size_of::<u32>() + element.wide_size()));
    let width = wanted.min(1 << fitting.checked_ilog2()?);
    let worthwhile = width >= wanted.min(8) && size <= 8 * space.n && space.n <= MAX_STEPS;
    worthwhile.then_some(width)
}

/// `candle::Columns`: columns whose targets fit into LDS.
#[repr(C)]
struct Columns {
    left: u64,
    n: u32,
    right: u32,
    ids_left: i64,
    ids_step: i64,
    ids_right: i64,
    log2_width: u32,
}

// SAFETY: the same fields in the same order, with C's layout on both sides.
unsafe impl Argument for Columns {}

/// Launches a block for each `width` columns.
fn add_in_lds(update: &Update<'_>, kernel: Kernel, element: Element, width: usize) -> Result<()> {
    let Update { space, ids, .. } = update;
    let [ids_left, ids_step, ids_right] = ids.strides.map(|stride| stride as i64);
    let columns = Columns {
        left: space.left as u64,
        n: space.n as u32,
        right: space.right as u32,
        ids_left,
        ids_step,
        ids_right,
        log2_width: width.ilog2(),
    };
    let (y, x, ids_argument) = (update.y, update.x.start(), ids.argument(0));
    let cells = ids.size * width;
    let lds = cells.next_multiple_of(2) * std::mem::size_of::<u32>() + cells * element.wide_size();
    let blocks = space.left * space.right.div_ceil(width);
    let launch = update.device.launch(kernel)?.lds(lds);
    let launch = launch.strided(blocks, table::BLOCK);
    let launch = launch.arg(&y).arg(&x).arg(&ids_argument).arg(&columns);
    // SAFETY: the arguments of LDS kernels, and LDS for their cells; x and the indices have an element for each of the
    // space, y for each index below `size`, and kernels leave out other indices.
    unsafe { launch.enqueue() }?;
    Ok(())
}

/// Columns whose targets stay in the cache while all of x that is added to them goes by; all where those do.
fn columns_of_strip(space: Space, size: usize, element_size: usize) -> usize {
    let fitting = table::CACHED / (size.max(1) * element_size);
    if space.right <= fitting {
        return space.right;
    }
    fitting
        .checked_ilog2()
        .map_or(MIN_STRIP, |log2| MIN_STRIP.max(1 << log2))
}

/// Launches a thread for each element of x, strip after strip of columns; what is left over comes last.
fn add_atomically(update: &Update<'_>, kernel: Kernel) -> Result<()> {
    let Space { right, .. } = update.space;
    let width = columns_of_strip(update.space, update.ids.size, update.x.size());
    let (number, left_over) = (right / width, right % width);
    add_strips(update, kernel, 0, number, width)?;
    if left_over > 0 {
        add_strips(update, kernel, number * width, 1, left_over)?;
    }
    Ok(())
}

/// As many strips of columns side by side, from column `first` on.
fn add_strips(
    update: &Update<'_>,
    kernel: Kernel,
    first: usize,
    number: usize,
    columns: usize,
) -> Result<()> {
    let Update { space, ids, x, .. } = update;
    let shape = [space.left, number, space.n, columns];
    let views = [targets(ids.size, space.right), space.strides(), ids.strides];
    let strides = views.map(|[left, n, right]| [left, right * columns, n, right]);
    let merged = Merged::of(std::array::from_fn(|k| View {
        shape: &shape,
        strides: &strides[k],
        offset: first * views[k][2],
    }))?;
    let stride = space.right as i64;
    merged.launches(MAX_LAUNCH, &mut |_, piece| {
        let [to, from, indices] = piece.offsets;
        let y = update.y.offset(to * x.size());
        let x = x.start().offset(from * x.size());
        let ids = ids.argument(indices);
        let layout = piece.pack();
        let blocks = piece.count().div_ceil(table::BLOCK);
        let launch = update.device.launch(kernel)?.strided(blocks, table::BLOCK);
        let launch = launch.arg(&y).arg(&x).arg(&ids).arg(&stride).arg(&layout);
        // SAFETY: the arguments of atomic kernels; for the rest as above.
        unsafe { launch.enqueue() }
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rocm_backend::testing::{gpu, launches_of};
    use crate::{DType, Device, Tensor};

    fn space(left: usize, n: usize, right: usize) -> Space {
        Space { left, n, right }
    }

    #[test]
    fn threads_walk_along_short_or_many_columns() {
        for (sizes, expected) in [
            ((1, 32, 1), true),
            ((1, 33, 1), false),
            ((4096, 33, 32), true),
            ((4095, 33, 32), false),
            ((5000, 33, 31), false),
            ((1, 33, 131_072), true),
        ] {
            let (left, n, right) = sizes;
            assert_eq!(walks(space(left, n, right)), expected, "{sizes:?}");
        }
    }

    #[test]
    fn columns_are_summed_in_lds_where_their_targets_fit() {
        let width = |n, right, size, element| width_in_lds(space(1, n, right), size, element);
        // A target takes 8 bytes of 32 KiB: a bid and a sum. 100 targets of 32 columns fit.
        let f32 = |n, right, size| width(n, right, size, Element::F32);
        assert_eq!(f32(100, 1, 100), Some(1));
        assert_eq!(f32(100, 5, 100), Some(8));
        assert_eq!(f32(100, 32, 100), Some(32));
        assert_eq!(
            f32(100, 64, 100),
            Some(32),
            "accesses are as wide as they get"
        );
        assert_eq!(f32(100, 64, 128), Some(32));
        assert_eq!(f32(100, 64, 129), Some(16));
        // No less than 8 columns, or all of them.
        assert_eq!(f32(100, 64, 512), Some(8));
        assert_eq!(f32(100, 64, 513), None);
        assert_eq!(f32(200, 3, 1024), Some(4));
        assert_eq!(f32(200, 3, 1025), None);
        assert_eq!(f32(1000, 1, 4096), Some(1));
        assert_eq!(f32(1000, 1, 4097), None);
        // Not many more targets than elements.
        assert_eq!(f32(13, 1, 104), Some(1));
        assert_eq!(f32(13, 1, 105), None);
        assert_eq!(f32(1, 1, 0), Some(1));
        assert_eq!(f32(MAX_STEPS, 1, 9), Some(1));
        assert_eq!(f32(MAX_STEPS + 1, 1, 9), None);
        // Sums are wide: 12 bytes for f64, as many for f16 as for f32, 5 for u8.
        assert_eq!(width(100, 64, 85, Element::F64), Some(32));
        assert_eq!(width(100, 64, 86, Element::F64), Some(16));
        assert_eq!(width(100, 64, 128, Element::F16), Some(32));
        assert_eq!(width(100, 64, 129, Element::F16), Some(16));
        assert_eq!(width(100, 64, 204, Element::U8), Some(32));
        assert_eq!(width(100, 64, 205, Element::U8), Some(16));
    }

    #[test]
    fn strips_of_columns_stay_in_the_cache() {
        // 4 MiB, in columns of a power of two: 1024 of 1024 targets of 4 bytes.
        let columns = |right, size| columns_of_strip(space(1, 100, right), size, 4);
        assert_eq!(columns(1024, 1024), 1024);
        assert_eq!(columns(1000, 1024), 1000);
        assert_eq!(columns(1025, 1024), 1024);
        assert_eq!(columns(1000, 1100), 512);
        assert_eq!(columns(1000, 10_000), 64);
        assert_eq!(columns(1000, 40_000), 32, "cache lines are filled");
        assert_eq!(columns(1000, 2_000_000), 32);
        assert_eq!(columns(30, 30_000), 30);
        assert_eq!(columns_of_strip(space(1, 100, 1000), 10_000, 8), 32);
    }

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
