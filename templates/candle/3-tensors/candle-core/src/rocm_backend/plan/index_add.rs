//! Rows added to those that indices name.
use super::argsort::argsort;
use super::ids::{Indices, Space, Update};
use super::launch::{Argument, Launch, Pointer, PACK};
use super::launcher::Launcher;
use super::scatter_add::add_at_indices;
use super::table::index_add as table;
use super::views::Contiguous;

/// How rows are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AddingRows {
    /// As scatter_add does it: many rows too short for a wave.
    Elements,
    /// Rows of the same index are searched, where they are few.
    Searched,
    /// Indices are sorted first.
    Sorted,
}

impl AddingRows {
    fn of(Space { left, n, right }: Space) -> Self {
        let is_short = right < table::ROWS;
        let few = n <= table::SHORT || (n <= table::SEARCH && right >= table::NARROW);
        if is_short && !(few && left * n * right >= table::WORK) {
            Self::Elements
        } else if !is_short && n <= table::SEARCH && left * n * n <= table::READS {
            Self::Searched
        } else {
            Self::Sorted
        }
    }
}

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
    match adding.unwrap_or_else(|| AddingRows::of(space)) {
        AddingRows::Elements => add_at_indices(launcher, &update, None),
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
            (7, 3, 31, AddingRows::Elements),
            (7, 1025, 31, AddingRows::Elements),
            // Short rows of few indices.
            (1024, 32, 1, AddingRows::Sorted),
            (1023, 32, 1, AddingRows::Elements),
            (9999, 33, 3, AddingRows::Elements),
            (9999, 1024, 4, AddingRows::Sorted),
            (9999, 1025, 4, AddingRows::Elements),
            (7, 3, 32, AddingRows::Searched),
            (1, 1024, 32, AddingRows::Searched),
            (1, 1025, 32, AddingRows::Sorted),
            (4, 512, 32, AddingRows::Searched),
            (5, 512, 32, AddingRows::Sorted),
        ] {
            let adding = AddingRows::of(Space { left, n, right });
            assert_eq!(adding, expected, "{n} rows of {right}");
        }
    }
}
