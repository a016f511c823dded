//! Copies of views: contiguous, by rows, element by element or through tiles in LDS, as their strides ask for.
use super::elementwise::{lanes, Packs, Rows};
use super::family::{Kernel, Op};
use super::launch::{Launch, Pointer};
use super::launcher::{Launcher, Refusal};
use super::table::{copy as table, permute, Element};
use super::tiles::{Shape, Tiles};
use super::views::{row_major, Divisor, Merged, Operand, View};
use super::widths::{widened, Widened};

/// Writes a view's elements, which are of type `element`, in row-major order to `y`.
pub(crate) fn contiguous<L: Launcher>(
    launcher: &L,
    x: Operand<'_>,
    element: Element,
    y: Pointer,
) -> Result<(), L::Error> {
    let View { shape, strides, .. } = x.view;
    let mut to = Merged::starting_at([x.view.offset, 0]);
    for (d, step) in row_major(shape).into_iter().enumerate().rev() {
        to.push(shape[d], [strides[d], step])?;
    }
    let copy = widened(to, element, [x.base, y]);
    let limit = launcher.limits().elements;
    copy.layout.launches(limit, &mut |first, piece| {
        view_to_contiguous(launcher, &copy, first, piece)
    })
}

/// Copies the rows of `x` to those of `y`; both are views of rows and columns, elements of a row are neighbours.
pub(crate) fn copy2d<L: Launcher>(
    launcher: &L,
    [x, y]: [Operand<'_>; 2],
    element: Element,
) -> Result<(), L::Error> {
    let layout = Merged::of([x.view, y.view])?;
    let rows = widened(layout, element, [x.base, y.base]);
    let limit = launcher.limits().elements;
    rows.layout.launches(limit, &mut |_, piece| {
        rows_to_rows(launcher, rows.width, rows.addresses, piece)
    })
}

/// Launches the copy of a piece, whose results begin at element `first` of y.
pub(crate) fn view_to_contiguous<L: Launcher>(
    launcher: &L,
    copy: &Widened<2>,
    first: usize,
    piece: &Merged<2>,
) -> Result<(), L::Error> {
    let width = copy.width;
    let size = width.size();
    let x = copy.addresses[0].offset(piece.offsets[0] * size);
    let y = copy.addresses[1].offset(first * size);
    let tuning = launcher.tuning();
    let shape = Shape {
        squares: permute::BLOCK,
        side: side(width),
        least_use: permute::LEAST_USE,
        narrow: permute::NARROW,
        small: [&permute::SMALL, &permute::SMALL_PACKS].map(|bytes| bytes.on(tuning)),
        starts: [x, y],
        size,
    };
    let tiles = Tiles::of(piece, &shape);
    let least = launcher.limits().least_tiles;
    let many = |tiles: &&Tiles| tiles.count as usize >= least;
    if let Some(tiles) = tiles.as_ref().filter(many) {
        let blocks = tiles.count as usize;
        let kernel = only(&permute::PERMUTE, width)?;
        let launch = Launch::new(launcher, kernel).strided(blocks, permute::BLOCK);
        // SAFETY: the arguments of permute kernels; views stay within their memory.
        return unsafe { launch.arg(&y).arg(&x).arg(tiles).enqueue() };
    }
    let source = Merged::<1> {
        rank: piece.rank,
        sizes: piece.sizes,
        strides: [piece.strides[0]],
        offsets: [0],
    };
    let pack = lanes(size, &[size]);
    // A thread for each element works on more of the card than few tiles do.
    let packs = if tiles.is_some() {
        Packs::SINGLE
    } else {
        Packs::of(&source, pack, Rows::Any, [(x, size), (y, size)].into_iter())
    };
    let launch = Launch::new(launcher, only(&table::COPY, width)?);
    let launch = launch.threads(packs.blocks(source.count(), table::BLOCK), table::BLOCK);
    let launch = launch.arg(&y).arg(&x).arg(&packs);
    // SAFETY: the arguments of copy kernels; views stay within their memory.
    unsafe { launch.arg(&source.pack()).enqueue() }
}

/// A contiguous copy of an operand that an operation reads faster so, and the memory that it is in.
pub(crate) fn turned<L: Launcher>(
    launcher: &L,
    x: Operand<'_>,
) -> Result<Option<(L::Workspace, Pointer)>, L::Error> {
    let bytes = x.view.shape.iter().product::<usize>() * x.size;
    if !turning_pays(x.view, bytes)? {
        return Ok(None);
    }
    let (memory, start) = launcher.workspace(bytes)?;
    contiguous(launcher, x, bits_of(x.size)?, start)?;
    Ok(Some((memory, start)))
}

/// The type that copies elements of so many bytes.
pub(super) fn bits_of(size: usize) -> Result<Element, Refusal> {
    let bits = [Element::B8, Element::B16, Element::B32, Element::B64];
    let found = bits.into_iter().find(|element| element.size() == size);
    found.ok_or_else(|| no_kernel(size))
}

/// Whether neighbouring elements lie so far apart that threads would each read a cache line of their own, while those that
/// share it with them come too late for it.
fn turning_pays(view: View<'_>, bytes: usize) -> Result<bool, Refusal> {
    // First what most views are: small.
    if !(permute::TURNED_LEAST..=permute::TURNED_MOST).contains(&bytes) {
        return Ok(false);
    }
    let view = Merged::of([view])?;
    let strides = &view.strides[0][..view.rank];
    let beside = (1..view.rank).find(|&d| strides[d] == 1);
    Ok(beside.is_some_and(|d| view.sizes[d] > permute::NARROW)
        && view.sizes[0] >= permute::TURNED_ROW
        && !strides.contains(&0))
}

/// Elements along a side of a square of the permute kernels.
fn side(width: Element) -> usize {
    match width.size() {
        1 => permute::PACK_B8,
        2 => permute::PACK_B16,
        4 => permute::PACK_B32,
        8 => permute::PACK_B64,
        _ => permute::PACK_B128,
    }
}

fn only(op: &Op, width: Element) -> Result<Kernel, Refusal> {
    op.kernel(&[width]).ok_or_else(|| no_kernel(width.size()))
}

fn no_kernel(size: usize) -> Refusal {
    Refusal(format!("no kernel copies elements of {size} bytes"))
}

fn rows_to_rows<L: Launcher>(
    launcher: &L,
    width: Element,
    addresses: [Pointer; 2],
    piece: &Merged<2>,
) -> Result<(), L::Error> {
    let size = width.size();
    let batch = (table::IN_FLIGHT / size).clamp(2, 8);
    // Merging has left no more than two dimensions.
    let (columns, x_stride, y_stride) = match (piece.rank, piece.strides) {
        (0, _) => (1, 0, 0),
        (1, [[1, ..], [1, ..]]) => (piece.sizes[0], 0, 0),
        (1, [[x, ..], [y, ..]]) => (1, x, y),
        (_, [[_, x, ..], [_, y, ..]]) => (piece.sizes[0], x, y),
    };
    let x = addresses[0].offset(piece.offsets[0] * size);
    let y = addresses[1].offset(piece.offsets[1] * size);
    let (count, columns) = (piece.count() as u32, Divisor::of(columns));
    let (y_stride, x_stride) = (y_stride as i64, x_stride as i64);
    let blocks = piece.count().div_ceil(batch * table::BLOCK);
    let launch = Launch::new(launcher, only(&table::COPY2D, width)?);
    let launch = launch.threads(blocks, table::BLOCK);
    let launch = launch.arg(&y).arg(&x).arg(&count).arg(&columns);
    // SAFETY: the arguments of copy2d kernels; rows stay within their memory.
    unsafe { launch.arg(&y_stride).arg(&x_stride).enqueue() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pays(shape: &[usize], strides: &[usize]) -> Result<bool, Refusal> {
        let view = View {
            shape,
            strides,
            offset: 3,
        };
        turning_pays(view, shape.iter().product::<usize>() * 4)
    }

    #[test]
    fn large_transposed_views_are_made_contiguous() -> Result<(), Refusal> {
        let (row, least) = (permute::TURNED_ROW, permute::TURNED_LEAST / 4);
        let columns = least / row;
        assert!(pays(&[columns, row], &[1, columns])?);
        assert!(pays(&[8, columns, row], &[1, 8, columns * 8])?);
        // Not where there is nothing to turn, rows are short, or the view is small or too large.
        assert!(!pays(&[columns, row], &[row, 1])?);
        assert!(!pays(&[columns, row], &[2 * row, 2])?);
        assert!(!pays(&[columns + 9, row - 1], &[1, columns + 9])?);
        assert!(!pays(&[columns - 1, row], &[1, columns - 1])?);
        let most = permute::TURNED_MOST / 4 / row;
        assert!(pays(&[most, row], &[1, most])?);
        assert!(!pays(&[most + 1, row], &[1, most + 1])?);
        // Nor where few neighbours lie together, or some are the same.
        let narrow = permute::NARROW;
        assert!(!pays(&[narrow, least], &[1, narrow])?);
        assert!(pays(&[narrow + 1, least], &[1, narrow + 1])?);
        assert!(!pays(&[9, columns, row], &[0, 1, columns])?);
        Ok(())
    }
}
