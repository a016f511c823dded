//! Elements added to those that indices name.
use super::family::Kernel;
use super::ids::{targets, Indices, Space, Update};
use super::launch::{Argument, Launch};
use super::launcher::{Card, Launcher, Refusal};
use super::table::{scatter_add as table, Element};
use super::views::{Contiguous, Merged, View};

/// How elements are added. All but the last way add in the order of x.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Adding {
    /// Threads walk along columns.
    Columns,
    /// Blocks sum columns in LDS.
    Lds,
    /// A thread for each element, on 32-bit words of y, which allocations have.
    Atomic,
}

impl Adding {
    fn of(space: Space, size: usize, element: Element) -> Self {
        if space.n <= table::SHORTEST || are_many(space) {
            Self::Columns
        } else if lds_pays(space, size) && width_in_lds(space, size, element).is_some() {
            Self::Lds
        } else if space.n <= table::SHORT {
            Self::Columns
        } else {
            Self::Atomic
        }
    }
}

/// y[l, ids[l, i, r], r] += x[l, i, r] in place. All are contiguous, and the indices have x's shape. The sizes decide how, if
/// the caller does not.
pub(crate) fn scatter_add<L: Launcher>(
    launcher: &L,
    y: Contiguous<'_>,
    ids: Indices,
    x: Contiguous<'_>,
    dim: usize,
    adding: Option<Adding>,
) -> Result<(), L::Error> {
    add_at_indices(launcher, &Update::scattered(y, ids, x, dim), adding)
}

/// Adds with indices in any view.
pub(super) fn add_at_indices<L: Launcher>(
    launcher: &L,
    update: &Update,
    adding: Option<Adding>,
) -> Result<(), L::Error> {
    if update.space.count() == 0 {
        return Ok(());
    }
    let form = |form| table::SCATTER_ADD.form(form, &[update.element]);
    let by_size = || Adding::of(update.space, update.ids.size, update.element);
    match adding.unwrap_or_else(by_size) {
        Adding::Columns => {
            let kernel = form(table::FORM_COLUMNS)?;
            update.walk_columns(launcher, kernel, table::BLOCK)
        }
        Adding::Lds => add_in_lds(launcher, update, form(table::FORM_LDS)?),
        Adding::Atomic => add_atomically(launcher, update, form(table::FORM_PLAIN)?),
    }
}

/// Whether columns are so many that threads which walk along them keep the card busy.
fn are_many(Space { left, right, .. }: Space) -> bool {
    right >= table::ROWS && left * right >= table::WALK
}

/// Whether sums in LDS are worth it: the targets are not many more than the elements.
fn lds_pays(space: Space, size: usize) -> bool {
    size <= 8 * space.n && space.n <= table::MAX_STEPS
}

/// Columns that a block sums in LDS together, a power of two.
///
/// None if the targets do not fit, or if so few columns fit that accesses to neighbouring ones would be wasted. Where the
/// elements of a column are neighbours, several columns share the steps of a block, if enough blocks are left.
fn width_in_lds(space: Space, size: usize, element: Element) -> Option<usize> {
    let (wanted, least) = match space.right {
        1 => (1 << (space.left / table::LEAST_BLOCKS).max(1).ilog2(), 1),
        right => (right.next_power_of_two(), 8),
    };
    let wanted = wanted.min(table::MAX_WIDTH);
    let fitting = table::LDS / (size.max(1) * (std::mem::size_of::<u32>() + element.wide_size()));
    let width = wanted.min(1 << fitting.checked_ilog2()?);
    (width >= wanted.min(least)).then_some(width)
}

/// Threads of a block that sums `width` columns of `n` elements in LDS: more where there are too few blocks for the card,
/// as long as a step has an element for each.
fn threads_in_lds(blocks: usize, n: usize, width: usize, card: Card) -> usize {
    let mut threads = table::BLOCK;
    let pays = |threads: usize| {
        threads <= table::LDS_BLOCK
            && blocks * threads <= card.multiprocessors * table::LDS_BLOCK
            && threads < 2 * n * width
    };
    // The bids of all rounds have 32 bits.
    while pays(2 * threads) && 2 * threads * n <= table::BLOCK * table::MAX_STEPS {
        threads *= 2;
    }
    threads
}

/// `candle::Columns`: columns whose targets fit into LDS.
#[repr(C)]
struct Columns {
    /// From one left, element and right to the next: of x, y and the indices.
    steps: [[i64; 3]; 3],
    left: u64,
    right: u64,
    n: u32,
    log2_width: u32,
    along: u32,
}

// SAFETY: the same fields in the same order, with C's layout on both sides.
unsafe impl Argument for Columns {}

/// Launches a block for some columns.
fn add_in_lds<L: Launcher>(launcher: &L, update: &Update, kernel: Kernel) -> Result<(), L::Error> {
    let Update {
        y,
        x,
        element,
        ids,
        space,
    } = update;
    let Some(width) = width_in_lds(*space, ids.size, *element) else {
        let message = format!("{} targets do not fit into LDS", ids.size);
        return Err(Refusal(message).into());
    };
    let targets = Space {
        n: ids.size,
        ..*space
    };
    let along = space.right == 1;
    let steps = |steps: [usize; 3]| {
        let [left, n, right] = steps.map(|step| step as i64);
        if along {
            [0, n, left]
        } else {
            [left, n, right]
        }
    };
    let [left, right] = if along {
        [1, space.left]
    } else {
        [space.left, space.right]
    };
    let columns = Columns {
        steps: [space.strides(), targets.strides(), ids.strides].map(steps),
        left: left as u64,
        right: right as u64,
        n: space.n as u32,
        log2_width: width.ilog2(),
        along: along.into(),
    };
    let ids_argument = ids.argument(0);
    let cells = ids.size * width;
    let lds = cells.next_multiple_of(2) * std::mem::size_of::<u32>() + cells * element.wide_size();
    let blocks = left * right.div_ceil(width);
    let threads = threads_in_lds(blocks, space.n, width, launcher.card());
    let launch = Launch::new(launcher, kernel).lds(lds);
    let launch = launch.strided(blocks, threads);
    let launch = launch.arg(y).arg(x).arg(&ids_argument).arg(&columns);
    // SAFETY: the arguments of LDS kernels, and LDS for their cells; x and the indices have an element for each of the
    // space, y for each index below `size`, and kernels leave out other indices.
    unsafe { launch.enqueue() }
}

/// Columns whose targets stay in the cache while all of x that is added to them goes by; all where those do.
fn columns_of_strip(right: usize, size: usize, element: Element) -> usize {
    let fitting = table::CACHED / (size.max(1) * element.size());
    if right <= fitting {
        return right;
    }
    fitting
        .checked_ilog2()
        .map_or(table::LEAST_STRIP, |log2| table::LEAST_STRIP.max(1 << log2))
}

/// Launches a thread for each element of x, strip after strip of columns; what is left over comes last.
fn add_atomically<L: Launcher>(
    launcher: &L,
    update: &Update,
    kernel: Kernel,
) -> Result<(), L::Error> {
    let right = update.space.right;
    let width = columns_of_strip(right, update.ids.size, update.element);
    let (number, left_over) = (right / width, right % width);
    add_strips(launcher, update, kernel, 0, [number, width])?;
    add_strips(launcher, update, kernel, number * width, [1, left_over])
}

/// As many strips of so many columns side by side, from column `first` on.
fn add_strips<L: Launcher>(
    launcher: &L,
    update: &Update,
    kernel: Kernel,
    first: usize,
    [number, columns]: [usize; 2],
) -> Result<(), L::Error> {
    let Update { space, ids, .. } = update;
    let size = update.size();
    let shape = [space.left, number, space.n, columns];
    let views = [targets(ids.size, space.right), space.strides(), ids.strides];
    let strides = views.map(|[left, n, right]| [left, right * columns, n, right]);
    let merged = Merged::of(std::array::from_fn(|k| View {
        shape: &shape,
        strides: &strides[k],
        offset: first * views[k][2],
    }))?;
    let stride = space.right as i64;
    merged.launches(launcher.limits().elements, &mut |_, piece| {
        let [to, from, indices] = piece.offsets;
        let y = update.y.offset(to * size);
        let x = update.x.offset(from * size);
        let ids = ids.argument(indices);
        let layout = piece.pack();
        let blocks = piece.count().div_ceil(table::BLOCK);
        let launch = Launch::new(launcher, kernel).strided(blocks, table::BLOCK);
        let launch = launch.arg(&y).arg(&x).arg(&ids).arg(&stride).arg(&layout);
        // SAFETY: the arguments of atomic kernels; for the rest as above.
        unsafe { launch.enqueue() }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(left: usize, n: usize, right: usize) -> Space {
        Space { left, n, right }
    }

    #[test]
    fn threads_walk_along_short_or_many_columns() {
        let adding = |(left, n, right), size| Adding::of(space(left, n, right), size, Element::F32);
        let shortest = table::SHORTEST;
        for (sizes, expected) in [
            ((1, shortest, 1), Adding::Columns),
            ((1, shortest + 1, 1), Adding::Lds),
            ((4096, 33, 32), Adding::Columns),
            ((4095, 33, 32), Adding::Lds),
            ((5000, 33, 31), Adding::Lds),
            ((1, 33, 131_072), Adding::Columns),
        ] {
            assert_eq!(adding(sizes, 9), expected, "{sizes:?}");
        }
        // Short ones as well, where LDS does not pay.
        assert_eq!(adding((1, 32, 1), 8 * 32 + 1), Adding::Columns);
        assert_eq!(adding((1, 33, 1), 8 * 33 + 1), Adding::Atomic);
        assert_eq!(adding((1, 32, 64), 32 * 8), Adding::Lds);
        let wide = |n| Adding::of(space(1, n, 64), 8 * 32, Element::F64);
        assert_eq!([wide(32), wide(33)], [Adding::Lds, Adding::Lds]);
    }

    #[test]
    fn columns_are_summed_in_lds_where_their_targets_fit() {
        let width = |right, size, element| width_in_lds(space(7, 9, right), size, element);
        // A target takes 8 bytes of 32 KiB: a bid and a sum. 100 targets of 32 columns fit.
        let f32 = |right, size| width(right, size, Element::F32);
        assert_eq!(f32(1, 100), Some(1));
        assert_eq!(f32(5, 100), Some(8));
        assert_eq!(f32(32, 100), Some(32));
        assert_eq!(f32(64, 100), Some(32), "accesses are as wide as they get");
        assert_eq!(f32(64, 128), Some(32));
        assert_eq!(f32(64, 129), Some(16));
        // No less than 8 columns, or all of them.
        assert_eq!(f32(64, 512), Some(8));
        assert_eq!(f32(64, 513), None);
        assert_eq!(f32(3, 1024), Some(4));
        assert_eq!(f32(3, 1025), None);
        assert_eq!(f32(1, 4096), Some(1));
        assert_eq!(f32(1, 4097), None);
        assert_eq!(f32(1, 0), Some(1));
        // Sums are wide: 12 bytes for f64, as many for f16 as for f32, 5 for u8.
        assert_eq!(width(64, 85, Element::F64), Some(32));
        assert_eq!(width(64, 86, Element::F64), Some(16));
        assert_eq!(width(64, 128, Element::F16), Some(32));
        assert_eq!(width(64, 129, Element::F16), Some(16));
        assert_eq!(width(64, 204, Element::U8), Some(32));
        assert_eq!(width(64, 205, Element::U8), Some(16));
        // Columns whose elements are neighbours, if there are many.
        let along = |left, size| width_in_lds(space(left, 9, 1), size, Element::F32);
        assert_eq!(along(2047, 100), Some(1));
        assert_eq!(along(2048, 100), Some(2));
        assert_eq!(along(1 << 20, 100), Some(32));
        assert_eq!(along(1 << 20, 1000), Some(4));
        assert_eq!(along(1 << 20, 4096), Some(1));
        assert_eq!(along(1 << 20, 4097), None);
    }

    #[test]
    fn the_sizes_decide_how_elements_are_added() {
        let adding = |n, right, size| Adding::of(space(1, n, right), size, Element::F32);
        // Targets that fit, and those that do not.
        assert_eq!(adding(200, 3, 1024), Adding::Lds);
        assert_eq!(adding(200, 3, 1025), Adding::Atomic);
        // Not many more targets than elements.
        assert_eq!(adding(40, 1, 320), Adding::Lds);
        assert_eq!(adding(40, 1, 321), Adding::Atomic);
        assert_eq!(adding(table::MAX_STEPS, 1, 9), Adding::Lds);
        assert_eq!(adding(table::MAX_STEPS + 1, 1, 9), Adding::Atomic);
    }

    #[test]
    fn few_blocks_have_more_threads() {
        let card = Card {
            wave_size: 64,
            multiprocessors: 100,
        };
        let threads = |blocks, n, width| threads_in_lds(blocks, n, width, card);
        assert_eq!(threads(100, 5000, 1), 1024);
        assert_eq!(threads(101, 5000, 1), 512);
        assert_eq!(threads(201, 5000, 1), 256);
        // No more than a step has elements.
        assert_eq!(threads(1, 512, 1), 512);
        assert_eq!(threads(1, 513, 1), 1024);
        assert_eq!(threads(1, 40, 32), 1024);
        assert_eq!(threads(1, 40, 1), 256);
        // No more than the bids of all rounds have numbers for.
        assert_eq!(threads(1, table::MAX_STEPS / 4, 1), 1024);
        assert_eq!(threads(1, table::MAX_STEPS / 4 + 1, 1), 512);
        assert_eq!(threads(1, table::MAX_STEPS, 1), 256);
    }

    #[test]
    fn strips_of_columns_stay_in_the_cache() {
        // 4 MiB, in columns of a power of two: 1024 of 1024 targets of 4 bytes.
        let columns = |right, size| columns_of_strip(right, size, Element::F32);
        assert_eq!(columns(1024, 1024), 1024);
        assert_eq!(columns(1000, 1024), 1000);
        assert_eq!(columns(1025, 1024), 1024);
        assert_eq!(columns(1000, 1100), 512);
        assert_eq!(columns(1000, 10_000), 64);
        assert_eq!(columns(1000, 40_000), 32, "cache lines are filled");
        assert_eq!(columns(1000, 2_000_000), 32);
        assert_eq!(columns(30, 30_000), 30);
        assert_eq!(columns_of_strip(1000, 10_000, Element::F64), 32);
    }
}
