//! Elements picked and placed by indices; they only move, so that there is one kernel for each width.
use super::family::Kernel;
use super::ids::{targets, Indexed, Indices, Space, Update};
use super::launch::{Launch, Pointer, PACK};
use super::launcher::Launcher;
use super::table::indexing as table;
use super::views::Contiguous;

/// x with `n` indices in place of `dim`, which lie `step` apart: y[l, i, r] = x[l, ids[i], r].
pub(crate) fn index_select<L: Launcher>(
    launcher: &L,
    x: Contiguous<'_>,
    dim: usize,
    ids: Indices,
    [n, step]: [usize; 2],
    y: Pointer,
) -> Result<(), L::Error> {
    let element = x.element.bits();
    let source = Space::of(x.shape, dim);
    let space = Space { n, ..source };
    let ids = ids.over([0, step, 0], source.n);
    // Without rows to move, neighbouring elements have neighbouring indices: that is what gather is good at.
    let selected = table::SELECTED * PACK / element.size();
    let (op, lanes) = if space.right > 1 {
        (&table::INDEX_SELECT, selected)
    } else {
        (&table::GATHER, table::LANES)
    };
    let kernel = op.form(table::FORM_PLAIN, &[element])?;
    let right = space.right;
    let picked = Picked {
        x,
        ids,
        space,
        right,
    };
    picked.launch(launcher, kernel, lanes, y)
}

/// A tensor of the indices' shape; they are contiguous: y[l, i, r] = x[l, ids[l, i, r], r].
pub(crate) fn gather<L: Launcher>(
    launcher: &L,
    x: Contiguous<'_>,
    dim: usize,
    ids: Indices,
    shape: &[usize],
    y: Pointer,
) -> Result<(), L::Error> {
    let source = Space::of(x.shape, dim);
    let space = Space::of(shape, dim);
    let picked = Picked {
        x,
        ids: ids.over(space.strides(), source.n),
        space,
        right: source.right,
    };
    let kernel = table::GATHER.form(table::FORM_PLAIN, &[x.element.bits()])?;
    picked.launch(launcher, kernel, table::LANES, y)
}

/// x (left, size, right), which is read through indices of a space's elements.
struct Picked<'a> {
    x: Contiguous<'a>,
    ids: Indexed,
    space: Space,
    right: usize,
}

impl Picked<'_> {
    /// Writes contiguously over the space, `lanes` elements a thread.
    fn launch<L: Launcher>(
        &self,
        launcher: &L,
        kernel: Kernel,
        lanes: usize,
        y: Pointer,
    ) -> Result<(), L::Error> {
        let size = self.x.element.size();
        let stride = self.right as i64;
        let views = [targets(self.ids.size, self.right), self.ids.strides];
        let views = self.space.merged(views)?;
        views.launches(launcher.limits().elements, &mut |first, piece| {
            let [source, indices] = piece.offsets;
            let y = y.offset(first * size);
            let x = self.x.start.offset(source * size);
            let ids = self.ids.argument(indices);
            let layout = piece.pack();
            let blocks = piece.count().div_ceil(lanes * table::BLOCK);
            let launch = Launch::new(launcher, kernel).strided(blocks, table::BLOCK);
            let launch = launch.arg(&y).arg(&x).arg(&ids).arg(&stride).arg(&layout);
            // SAFETY: the arguments of kernels that pick; the output has an element for each of the space, x for each
            // index below `size`, and kernels leave out other indices.
            unsafe { launch.enqueue() }
        })
    }
}

/// How elements are placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placing {
    /// Threads walk along columns.
    Columns,
    /// Marks tell each target's last writer.
    Marked,
}

impl Placing {
    /// Threads walk along short columns, or if they are so many that the card is busy; or if there are more elements
    /// than the `limit` of a launch, whose marks number them.
    fn of(space: Space, limit: usize) -> Self {
        let Space { left, n, right } = space;
        if n <= table::SHORT || left * right >= table::WALK || space.count() > limit {
            Self::Columns
        } else {
            Self::Marked
        }
    }
}

/// y[l, ids[l, i, r], r] = x[l, i, r] in place; of several elements with one target the last stays. All are contiguous,
/// and the indices have x's shape. The sizes decide how, if the caller does not.
pub(crate) fn scatter<L: Launcher>(
    launcher: &L,
    y: Contiguous<'_>,
    ids: Indices,
    x: Contiguous<'_>,
    dim: usize,
    placing: Option<Placing>,
) -> Result<(), L::Error> {
    let update = Update::scattered(y, ids, x, dim);
    let form = |form| table::SCATTER.form(form, &[update.element.bits()]);
    let by_size = Placing::of(update.space, launcher.limits().elements);
    match placing.unwrap_or(by_size) {
        Placing::Columns => {
            let kernel = form(table::FORM_PLAIN)?;
            update.walk_columns(launcher, kernel, table::BLOCK)
        }
        Placing::Marked => scatter_marked(launcher, &update, form(table::FORM_MARKED)?),
    }
}

/// The launch that finds each target's last writer, and the launch that lets it write.
fn scatter_marked<L: Launcher>(
    launcher: &L,
    update: &Update,
    kernel: Kernel,
) -> Result<(), L::Error> {
    let Update {
        y, x, space, ids, ..
    } = update;
    // One for each element of y.
    let (_marks, marks) = launcher.zeros(update.targets() * std::mem::size_of::<u32>())?;
    let (ids_argument, stride) = (ids.argument(0), space.right as i64);
    let views = space.merged([targets(ids.size, space.right), ids.strides])?;
    views.launches(launcher.limits().elements, &mut |_, piece| {
        let layout = piece.pack();
        let blocks = piece.count().div_ceil(table::BLOCK);
        for writes in [0u32, 1] {
            let launch = Launch::new(launcher, kernel).strided(blocks, table::BLOCK);
            let launch = launch.arg(y).arg(x).arg(&marks).arg(&writes);
            let launch = launch.arg(&ids_argument).arg(&stride).arg(&layout);
            // SAFETY: the arguments of marked kernels; x and the indices have an element for each of the space, y and
            // the marks for each index below `size`, and kernels leave out other indices.
            unsafe { launch.enqueue() }?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_walk_along_short_or_many_columns() {
        for (sizes, limit, expected) in [
            ([1, 32, 1], 1 << 30, Placing::Columns),
            ([1, 33, 1], 1 << 30, Placing::Marked),
            ([32_767, 33, 1], 1 << 30, Placing::Marked),
            ([128, 33, 256], 1 << 30, Placing::Columns),
            ([9, 64, 8], 9 * 64 * 8, Placing::Marked),
            ([9, 64, 8], 9 * 64 * 8 - 1, Placing::Columns),
        ] {
            let [left, n, right] = sizes;
            let space = Space { left, n, right };
            assert_eq!(Placing::of(space, limit), expected, "{sizes:?}");
        }
    }
}
