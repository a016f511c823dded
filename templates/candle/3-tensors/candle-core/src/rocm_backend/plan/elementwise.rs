//! Launches of kernels built on `candle_rocm/elementwise.h`: one kernel for contiguous memory and any other views.
use super::copy::turned;
use super::family::Kernel;
use super::launch::{Argument, Launch, Pointer};
use super::launcher::Launcher;
use super::number::Number;
use super::table;
use super::views::{row_major, Merged, Operand, View};
use std::cell::OnceCell;

/// Elementwise functions of one tensor.
pub(crate) fn unary<L: Launcher>(
    launcher: &L,
    kernel: Kernel,
    x: Operand<'_>,
    y: Output,
) -> Result<(), L::Error> {
    let block = table::unary::BLOCK.on(launcher.tuning());
    elementwise(launcher, kernel, block, Rows::Any, [x], y, &[])
}

/// Arithmetic of two tensors.
pub(crate) fn binary<L: Launcher>(
    launcher: &L,
    kernel: Kernel,
    operands: [Operand<'_>; 2],
    y: Output,
) -> Result<(), L::Error> {
    let block = table::binary::BLOCK.on(launcher.tuning());
    elementwise(launcher, kernel, block, Rows::Any, operands, y, &[])
}

/// Comparisons of two tensors.
pub(crate) fn compare<L: Launcher>(
    launcher: &L,
    kernel: Kernel,
    operands: [Operand<'_>; 2],
    y: Output,
) -> Result<(), L::Error> {
    elementwise(
        launcher,
        kernel,
        table::compare::BLOCK,
        Rows::Any,
        operands,
        y,
        &[],
    )
}

/// One element type to another.
pub(crate) fn cast<L: Launcher>(
    launcher: &L,
    kernel: Kernel,
    x: Operand<'_>,
    y: Output,
) -> Result<(), L::Error> {
    let block = table::cast::BLOCK.on(launcher.tuning());
    elementwise(launcher, kernel, block, Rows::Long, [x], y, &[])
}

/// Elementwise functions of one tensor and of numbers.
pub(crate) fn parametric<L: Launcher>(
    launcher: &L,
    kernel: Kernel,
    x: Operand<'_>,
    numbers: &[Number],
    y: Output,
) -> Result<(), L::Error> {
    let block = table::parametric::BLOCK;
    elementwise(launcher, kernel, block, Rows::Any, [x], y, numbers)
}

/// Elements of one tensor or another; the condition comes first.
pub(crate) fn select<L: Launcher>(
    launcher: &L,
    kernel: Kernel,
    operands: [Operand<'_>; 3],
    y: Output,
) -> Result<(), L::Error> {
    elementwise(
        launcher,
        kernel,
        table::r#where::BLOCK,
        Rows::Any,
        operands,
        y,
        &[],
    )
}

/// Where results go, contiguously.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    pub(crate) start: Pointer,
    /// Bytes of an element.
    pub(crate) size: usize,
}

/// The kernel takes (y, x..., numbers..., packs, layout of the inputs). Operands that are read faster so are made contiguous
/// first.
fn elementwise<L: Launcher, const N: usize>(
    launcher: &L,
    kernel: Kernel,
    block: usize,
    rows: Rows,
    inputs: [Operand<'_>; N],
    output: Output,
    numbers: &[Number],
) -> Result<(), L::Error> {
    let strides = OnceCell::new();
    let (mut inputs, mut memories) = (inputs, Vec::new());
    for input in &mut inputs {
        let Some((memory, base)) = turned(launcher, *input)? else {
            continue;
        };
        memories.push(memory);
        let view = View {
            strides: strides.get_or_init(|| row_major(input.view.shape)),
            offset: 0,
            ..input.view
        };
        *input = Operand {
            base,
            view,
            ..*input
        };
    }
    let merged = Merged::of(inputs.map(|x| x.view))?;
    let size = output.size;
    let pack = lanes(size, &inputs.map(|x| x.size));
    merged.launches(launcher.limits().elements, &mut |first, piece| {
        let y = output.start.offset(first * size);
        let starts: [Pointer; N] =
            std::array::from_fn(|k| inputs[k].base.offset(piece.offsets[k] * inputs[k].size));
        let read = starts.iter().zip(&inputs).map(|(x, of)| (*x, of.size));
        let packs = Packs::of(piece, pack, rows, read.chain([(y, size)]));
        let layout = piece.pack();
        let blocks = packs.blocks(piece.count(), block);
        let launch = Launch::new(launcher, kernel);
        let mut launch = launch.threads(blocks, block).arg(&y);
        for start in &starts {
            launch = launch.arg(start);
        }
        for number in numbers {
            launch = launch.arg(number);
        }
        // SAFETY: the arguments of elementwise kernels; the output has an element for each of the layout, and the views
        // stay within their memory.
        unsafe { launch.arg(&packs).arg(&layout).enqueue() }
    })
}

/// Elements that a thread makes: 16 bytes of the narrowest type, but no more than 32 bytes of another; of results 16 bytes,
/// so that a wave writes without a gap, unless there are several operands to be read at a time.
pub(crate) fn lanes(output: usize, inputs: &[usize]) -> usize {
    let sizes = || inputs.iter().copied().chain([output]);
    let (narrowest, widest) = (sizes().min().unwrap_or(1), sizes().max().unwrap_or(1));
    let written = if inputs.len() > 1 { 32 } else { 16 };
    (16 / narrowest).min(32 / widest).min(written / output)
}

/// Which rows of views a kernel takes in packs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rows {
    /// Those of any length.
    Any,
    /// Those that are contiguous and so long that few packs reach over the end of one.
    Long,
}

/// Packs of a long row.
const LONG: usize = 32;

/// How far a pack reaches, as `candle_rocm/elementwise.h` has it.
const ACROSS_ROWS: u32 = 0;
const UNBROKEN: u32 = 1;
const ANYWHERE: u32 = 2;

/// `candle::Packs`: how a launch deals results to threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Packs {
    /// Packs that are contiguous and aligned in all operands and in the result: thread i makes the i-th.
    whole: u32,
    /// Neighbouring results of every other thread: a pack, or 1.
    lanes: u32,
    /// How far those packs reach.
    way: u32,
}

// SAFETY: the same fields in the same order, with C's layout on both sides.
unsafe impl Argument for Packs {}

impl Packs {
    /// One result to a thread.
    pub(crate) const SINGLE: Self = Self {
        whole: 0,
        lanes: 1,
        way: ACROSS_ROWS,
    };

    /// Packs of `pack` results, or single ones. `starts` are the addresses at which the operands and the result begin, with
    /// the bytes of an element of each.
    pub(crate) fn of<const N: usize>(
        layout: &Merged<N>,
        pack: usize,
        rows: Rows,
        mut starts: impl Iterator<Item = (Pointer, usize)>,
    ) -> Self {
        let aligned = starts.all(|(start, size)| start.is_multiple_of(pack * size));
        let packs = |whole: usize, way| Self {
            whole: whole as u32,
            lanes: pack as u32,
            way,
        };
        if layout.all_flat() {
            let whole = if aligned { layout.count() / pack } else { 0 };
            return packs(whole, ACROSS_ROWS);
        }
        let length = layout.sizes[0];
        if rows == Rows::Long {
            let contiguous = layout.strides.iter().all(|strides| strides[0] == 1);
            let long = contiguous && length >= LONG * pack;
            return packs(0, if long { ACROSS_ROWS } else { ANYWHERE });
        }
        if length < pack {
            return packs(0, ANYWHERE);
        }
        let broadcast = |view: usize| layout.strides[view][0] == 0;
        let unbroken = aligned
            && length.is_multiple_of(pack)
            && (0..N).all(|view| broadcast(view) || layout.in_packs(view, pack));
        packs(0, if unbroken { UNBROKEN } else { ACROSS_ROWS })
    }

    /// Blocks of a launch that makes `count` results.
    pub(crate) fn blocks(self, count: usize, block: usize) -> usize {
        count.div_ceil(self.lanes as usize * block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rocm_backend::plan::{Refusal, View};

    #[test]
    fn threads_move_16_bytes_of_the_narrowest_and_32_of_the_widest() {
        for (output, inputs, expected) in [
            (1, &[1][..], 16),
            (2, &[2], 8),
            (4, &[4], 4),
            (8, &[8], 2),
            (4, &[1], 4), // or it would write more than 16 bytes
            (8, &[1], 2),
            (1, &[4], 8), // or it would read more than 32
            (2, &[8], 4),
            (4, &[4, 4], 4),
            (1, &[4, 4], 8),
            (4, &[1, 4, 4], 8), // of several operands more may be written
            (8, &[1, 8, 8], 4),
            (2, &[1, 2, 2], 16),
        ] {
            assert_eq!(lanes(output, inputs), expected, "{inputs:?} to {output}");
        }
    }

    fn view<'a>(shape: &'a [usize], strides: &'a [usize]) -> View<'a> {
        View {
            shape,
            strides,
            offset: 0,
        }
    }

    /// Packs of four results, whose operands and which themselves begin at these addresses; elements of 4 bytes.
    fn fours<const N: usize>(views: [View<'_>; N], starts: &[usize]) -> Result<[u32; 3], Refusal> {
        let starts = starts.iter().map(|&at| (Pointer::NULL.offset(at), 4));
        let packs = Packs::of(&Merged::of(views)?, 4, Rows::Any, starts);
        Ok([packs.whole, packs.lanes, packs.way])
    }

    #[test]
    fn contiguous_operands_are_read_in_whole_packs() -> Result<(), Refusal> {
        let ten = view(&[10], &[1]);
        assert_eq!(fours([ten], &[0, 32])?, [2, 4, 0]);
        assert_eq!(fours([ten, ten], &[16, 0, 48])?, [2, 4, 0]);
        assert_eq!(fours([view(&[11], &[1])], &[0, 0])?, [2, 4, 0]);
        assert_eq!(fours([view(&[12], &[1])], &[0, 0])?, [3, 4, 0]);
        for starts in [&[4, 0, 0][..], &[0, 8, 0], &[0, 0, 20]] {
            assert_eq!(fours([ten, ten], starts)?, [0, 4, 0], "{starts:?}");
        }
        Ok(())
    }

    #[test]
    fn an_address_is_aligned_if_a_pack_of_its_elements_is() -> Result<(), Refusal> {
        let layout = Merged::of([view(&[40], &[1])])?;
        for (at, size, whole) in [
            (16, 4, 10),
            (8, 4, 0),
            (8, 2, 10),
            (4, 2, 0),
            (4, 1, 10),
            (5, 1, 0),
            (32, 8, 10),
            (16, 8, 0),
            (12, 8, 0),
        ] {
            let start = (Pointer::NULL.offset(at), size);
            let packs = Packs::of(&layout, 4, Rows::Any, [start].into_iter());
            assert_eq!(packs.whole, whole, "at {at}, elements of {size} bytes");
        }
        Ok(())
    }

    #[test]
    fn packs_reach_over_the_ends_of_rows() -> Result<(), Refusal> {
        let [broken, unbroken, anywhere] = [ACROSS_ROWS, UNBROKEN, ANYWHERE].map(|way| [0, 4, way]);
        for (shape, strides, expected) in [
            (&[5, 3], &[8, 1], anywhere),
            (&[5, 4], &[8, 1], unbroken),
            (&[5, 5], &[8, 1], broken),
            (&[5, 8], &[12, 1], unbroken),
            (&[5, 8], &[10, 1], broken), // the second row begins inside a pack
            (&[5, 8], &[24, 2], broken),
            (&[5, 8], &[1, 0], unbroken),
        ] {
            let found = fours([view(shape, strides)], &[0, 0])?;
            assert_eq!(found, expected, "{shape:?}, {strides:?}");
        }
        let shape = [5, 8];
        let (rows, one, odd) = (view(&shape, &[12, 1]), view(&shape, &[1, 0]), &[9, 1]);
        assert_eq!(fours([rows, one], &[0, 0, 0])?, unbroken);
        assert_eq!(fours([rows, one], &[4, 0, 0])?, broken);
        assert_eq!(fours([rows, view(&shape, odd)], &[0, 0, 0])?, broken);
        Ok(())
    }

    #[test]
    fn of_long_rows_packs_are_taken_that_lie_within_one() -> Result<(), Refusal> {
        let [packs, anywhere] = [ACROSS_ROWS, ANYWHERE].map(|way| [0, 4, way]);
        let long = LONG * 4;
        for (shape, strides, expected) in [
            (&[5, long], &[200, 1], packs),
            (&[5, long + 1], &[200, 1], packs),
            (&[5, long - 1], &[200, 1], anywhere),
            (&[5, long], &[400, 2], anywhere),
            (&[5, long], &[1, 0], anywhere),
            (
                &[5, long],
                &[long, 1],
                [5 * long as u32 / 4, 4, ACROSS_ROWS],
            ),
        ] {
            let layout = Merged::of([view(shape, strides)])?;
            let starts = [(Pointer::NULL, 4); 2].into_iter();
            let found = Packs::of(&layout, 4, Rows::Long, starts);
            let found = [found.whole, found.lanes, found.way];
            assert_eq!(found, expected, "{shape:?}, {strides:?}");
        }
        Ok(())
    }

    #[test]
    fn blocks_have_threads_for_all_results() {
        let packs = Packs {
            whole: 0,
            lanes: 4,
            way: ACROSS_ROWS,
        };
        for (count, blocks) in [(1, 1), (1023, 1), (1024, 1), (1025, 2), (4096, 4)] {
            assert_eq!(packs.blocks(count, 256), blocks, "{count} in packs");
        }
        for (count, blocks) in [(256, 1), (257, 2)] {
            assert_eq!(Packs::SINGLE.blocks(count, 256), blocks, "{count}");
        }
    }
}
