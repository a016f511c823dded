//! Copies of views: contiguous, by rows, element by element or through tiles in LDS, as their strides ask for.
use super::elementwise::{lanes, Packs, Rows};
use super::family::{Kernel, Op};
use super::launch::{Launch, Pointer};
use super::launcher::{Launcher, Refusal};
use super::table::{copy as table, permute, Element};
use super::tiles::{Shape, Tiles};
use super::views::{Divisor, Merged, Operand};
use super::widths::{widened, Widened};

/// Writes a view's elements, which are of type `element`, in row-major order to `y`.
pub(crate) fn contiguous<L: Launcher>(
    launcher: &L,
    x: Operand<'_>,
    element: Element,
    y: Pointer,
) -> Result<(), L::Error> {
    let mut to = Merged::starting_at([x.view.offset, 0]);
    let mut step = 1;
    for (&size, &stride) in x.view.shape.iter().zip(x.view.strides).rev() {
        to.push(size, [stride, step])?;
        step *= size;
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
    let shape = Shape {
        squares: permute::BLOCK,
        side: side(width),
        least_use: permute::LEAST_USE,
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
    let size = width.size();
    let refusal = || Refusal(format!("no kernel copies elements of {size} bytes"));
    op.kernel(&[width]).ok_or_else(refusal)
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
