//! Rows added to those that indices name.
use super::argsort::argsort;
use super::ids::{Indices, Space, Update};
use super::launch::{Argument, Launch, Pointer, PACK};
use super::launcher::{Launcher, Refusal};
use super::scatter_add::add_at_indices;
use super::table::index_add as table;
use super::views::{Contiguous, Divisor};

/// How rows are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AddingRows {
    /// As scatter_add does it: many rows too short for a wave.
    Elements,
    /// Short rows of few indices, which each block compares.
    Few,
    /// Rows of the same index are searched, where they are few.
    Searched,
    /// Indices are sorted first.
    Sorted,
}

impl AddingRows {
    /// For rows of y, of which there are `size` along the dimension.
    fn of(Space { left, n, right }: Space, size: usize) -> Self {
        let is_short = right < table::ROWS;
        let count = left * n * right;
        let sorting_pays = n <= table::SEARCH && right >= table::NARROW && count >= table::WORK;
        let few = n <= table::FEW || (n <= table::FEW_REPEATED && size < n);
        let walking_pays = n < table::WALKED && left * right >= table::WALKS;
        if is_short && few && !walking_pays && count.max(size) <= MOST_OF_FEW {
            Self::Few
        } else if is_short && !sorting_pays {
            Self::Elements
        } else if !is_short && n <= table::SEARCH && left * n * n <= table::READS {
            Self::Searched
        } else {
            Self::Sorted
        }
    }
}

/// Elements that a launch of the form for few indices adds at most, of a dimension of no more; it counts both in 32 bits.
const MOST_OF_FEW: usize = 1 << 30;

/// y[l, ids[i], r] += x[l, i, r] in place, with contiguous indices in one dimension. The sizes decide how, if the caller does
/// not.
pub(crate) fn index_add<L: Launcher>(
    launcher: &L,
    y: Contiguous<'_>,
    ids: Indices,
    x: Contiguous<'_>,
    dim: usize,
    adding: Option<AddingRows>,
) -> Result<(), L::Error> {
    let space = Space::of(x.shape, dim);
    let update = Update {
        y: y.start,
        x: x.start,
        element: x.element,
        ids: ids.over([0, 1, 0], y.shape[dim]),
        space,
    };
    match adding.unwrap_or_else(|| AddingRows::of(space, update.ids.size)) {
        AddingRows::Elements => add_at_indices(launcher, &update, None),
        AddingRows::Few => add_few_rows(launcher, &update),
        AddingRows::Searched => add_rows(launcher, &update, table::FORM_PLAIN, Pointer::NULL),
        AddingRows::Sorted => {
            let places = space.n * std::mem::size_of::<u32>();
            let (_order, order) = launcher.workspace(places)?;
            let sorted = Contiguous {
                start: ids.start,
                element: ids.element,
                shape: &[space.n],
            };
            argsort(launcher, sorted, true, order)?;
            add_rows(launcher, &update, table::FORM_SORTED, order)
        }
    }
}

/// `candle::FewRows`.
#[repr(C)]
struct FewRows {
    count: u32,
    n: u32,
    right: Divisor,
    n_right: Divisor,
}

// SAFETY: the same fields in the same order, with C's layout on both sides.
unsafe impl Argument for FewRows {}

/// Launches a thread for each element of x.
fn add_few_rows<L: Launcher>(launcher: &L, update: &Update) -> Result<(), L::Error> {
    let Space { n, right, .. } = update.space;
    let count = update.space.count();
    if n > table::FEW_REPEATED || count.max(update.ids.size) > MOST_OF_FEW {
        let message = format!("{n} indices of {count} elements are not few");
        return Err(Refusal(message).into());
    }
    if count == 0 {
        return Ok(());
    }
    let kernel = table::INDEX_ADD.form(table::FORM_FEW, &[update.element])?;
    let rows = FewRows {
        count: count as u32,
        n: n as u32,
        right: Divisor::of(right),
        n_right: Divisor::of(n * right),
    };
    // First one element to a thread, until there are some blocks to each multiprocessor, and then several.
    let processors = launcher.card().multiprocessors;
    let single = count
        .div_ceil(table::BLOCK)
        .min(processors * table::FEW_LEAST_BLOCKS);
    let blocks = count.div_ceil(table::FEW_AT_ONCE * table::BLOCK);
    let blocks = blocks.max(single).min(processors * table::FEW_BLOCKS);
    let ids = update.ids.argument(0);
    let launch = Launch::new(launcher, kernel).strided(blocks, table::BLOCK);
    let launch = launch.arg(&update.y).arg(&update.x).arg(&ids).arg(&rows);
    // SAFETY: the arguments of the kernels for few indices; for the rest as below.
    unsafe { launch.enqueue() }
}

/// `candle::Rows`.
#[repr(C)]
struct Rows {
    left: u64,
    right: u64,
    /// The places that sort the indices; many rows need it.
    order: Pointer,
    n: u32,
    parts: u32,
    log2_team: u32,
}

// SAFETY: the same fields in the same order, with C's layout on both sides.
unsafe impl Argument for Rows {}

/// Launches a team of threads for each part of each row of x: a whole block where indices are searched.
fn add_rows<L: Launcher>(
    launcher: &L,
    update: &Update,
    form: usize,
    order: Pointer,
) -> Result<(), L::Error> {
    let space = update.space;
    if space.count() == 0 {
        return Ok(());
    }
    let kernel = table::INDEX_ADD.form(form, &[update.element])?;
    let lanes = match update.size() {
        1 => table::BYTES,
        size => (PACK / size).min(8),
    };
    let needed = space.right.div_ceil(lanes).next_power_of_two();
    let team = match form {
        table::FORM_SORTED => needed.min(table::BLOCK),
        _ => table::BLOCK,
    };
    let parts = space.right.div_ceil(lanes * team);
    let rows = Rows {
        left: space.left as u64,
        right: space.right as u64,
        order,
        n: space.n as u32,
        parts: parts as u32,
        log2_team: team.ilog2(),
    };
    let blocks = (space.left * space.n).div_ceil(table::BLOCK / team);
    let ids = update.ids.argument(0);
    let launch = Launch::new(launcher, kernel).strided(blocks, table::BLOCK);
    let launch = launch.blocks_y(parts.min(launcher.limits().blocks_y));
    let launch = launch.arg(&update.y).arg(&update.x).arg(&ids).arg(&rows);
    // SAFETY: the arguments of index_add kernels; x and the indices have all rows of the space, y has one for each index
    // below `size`, and kernels leave out other indices.
    unsafe { launch.enqueue() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sizes_decide_how_rows_are_added() {
        for (left, n, right, expected) in [
            (7, 3, 31, AddingRows::Few),
            (7, 64, 31, AddingRows::Few),
            (1 << 26, 8, 2, AddingRows::Few),
            // Too many to be counted.
            (1 << 26, 9, 2, AddingRows::Elements),
            // Many columns of few elements.
            (1 << 12, 7, 1, AddingRows::Elements),
            ((1 << 12) - 1, 7, 1, AddingRows::Few),
            (1 << 12, 8, 1, AddingRows::Few),
            // More indices; sorting pays only for some work.
            (16, 65, 31, AddingRows::Elements),
            (17, 65, 31, AddingRows::Sorted),
            (9999, 65, 3, AddingRows::Elements),
            (9999, 1024, 4, AddingRows::Sorted),
            (9999, 1025, 4, AddingRows::Elements),
            (7, 3, 32, AddingRows::Searched),
            (1, 1024, 32, AddingRows::Searched),
            (1, 1025, 32, AddingRows::Sorted),
            (4, 512, 32, AddingRows::Searched),
            (5, 512, 32, AddingRows::Sorted),
        ] {
            let adding = AddingRows::of(Space { left, n, right }, 1 << 30);
            assert_eq!(adding, expected, "{n} rows of {right}");
        }
        // The size of y's dimension: too large, and smaller than the number of indices.
        for (n, size, expected) in [
            (3, 1 << 30, AddingRows::Few),
            (3, (1 << 30) + 1, AddingRows::Elements),
            (256, 256, AddingRows::Elements),
            (256, 255, AddingRows::Few),
            (257, 1, AddingRows::Elements),
        ] {
            let (left, right) = (1, 1);
            let adding = AddingRows::of(Space { left, n, right }, size);
            assert_eq!(adding, expected, "{n} rows to {size}");
        }
    }
}
