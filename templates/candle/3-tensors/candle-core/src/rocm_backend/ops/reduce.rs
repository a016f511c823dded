//! Sums, extremes and their indices over dimensions.
//!
//! A result's elements are lines of equal length and stride, each of which a team of threads takes, or several blocks.
//! If a line has several blocks, or a result several lines, a second launch puts the partial results together; a third
//! only for a result of so many lines that one block would take long.
use super::fill::zeros_impl;
use super::operand::{kernel_form, uninit, Operand};
use super::rows::{Card, Teams, PACK};
use crate::op::ReduceOp;
use crate::rocm_backend::hip::HipResult;
use crate::rocm_backend::launcher::MAX_GRID;
use crate::rocm_backend::launcher::MAX_LAUNCH;
use crate::rocm_backend::plan::table::reduce as table;
use crate::rocm_backend::plan::table::Element;
use crate::rocm_backend::plan::{Argument, Kernel, Pointer};
use crate::rocm_backend::plan::{KernelLayout, Merged};
use crate::rocm_backend::{RocmDevice, RocmStorage};
use crate::{DType, Error, Layout, Result};

/// Bytes of the partial results that a thread keeps at once where neighbouring results are neighbours in memory.
const COLUMN_STATES: usize = 32;

/// A tensor in which each of `dims` has a size of 1; indices are u32.
pub(in crate::rocm_backend) fn reduce_op(
    x: &RocmStorage,
    op: ReduceOp,
    layout: &Layout,
    dims: &[usize],
) -> Result<RocmStorage> {
    let x = Operand::new(x, layout);
    let empty = layout.shape().elem_count() == 0;
    if op != ReduceOp::Sum {
        if dims.len() != 1 {
            let (op, dims) = (op.name(), dims.to_vec());
            return Err(Error::OnlySingleDimension { op, dims }.bt());
        }
        if empty {
            return Err(Error::EmptyTensor { op: "reduce" }.bt());
        }
    }
    let reduction = Reduction::of(op, x, dims)?;
    if empty {
        return zeros_impl(x.device(), &reduction.lines.results.into(), x.dtype());
    }
    reduction.result(MAX_LAUNCH)
}

/// The launches of an operation for one type.
struct Kernels {
    rows: Kernel,
    columns: Kernel,
    finish: Kernel,
}

impl Kernels {
    fn of(op: ReduceOp, x: &Operand<'_>) -> Result<Self> {
        let name = op.name();
        let op = match op {
            ReduceOp::Sum => table::SUM,
            ReduceOp::Min => table::MIN,
            ReduceOp::Max => table::MAX,
            ReduceOp::ArgMin => table::ARGMIN,
            ReduceOp::ArgMax => table::ARGMAX,
        };
        let types = [x.element(name)?];
        Ok(Self {
            rows: kernel_form(&op, table::FORM_ROWS, &types, x.dtype(), name)?,
            columns: kernel_form(&op, table::FORM_COLUMNS, &types, x.dtype(), name)?,
            finish: kernel_form(&op, table::FORM_FINISH, &types, x.dtype(), name)?,
        })
    }
}

/// Where the elements of the results lie.
struct Lines {
    /// First elements of the lines: the results in their order, as often as a result has lines.
    kept: Merged<1>,
    results: usize,
    /// Lines of a result.
    lines: usize,
    /// Elements of a line.
    count: usize,
    stride: usize,
}

impl Lines {
    /// The lines over `dims`: neighbours in memory if there are any.
    fn of(layout: &Layout, dims: &[usize]) -> HipResult<Self> {
        let (sizes, strides) = (layout.dims(), layout.stride());
        let mut kept = Merged::starting_at([layout.start_offset()]);
        for d in (0..sizes.len()).rev().filter(|d| !dims.contains(d)) {
            kept.push(sizes[d], [strides[d]])?;
        }
        let results = kept.count();
        // Sums may take dimensions in any order: those that lie together in memory become one.
        let mut reduced = Merged::starting_at([0]);
        let places = || dims.iter().map(|&d| (strides[d] == 0, strides[d], d));
        let mut next = places().min();
        while let Some(place) = next {
            reduced.push(sizes[place.2], [strides[place.2]])?;
            next = places().filter(|other| *other > place).min();
        }
        let line = if steps_less(reduced.strides[0][0], &kept) {
            0
        } else {
            longest(&reduced)
        };
        for d in (0..reduced.rank).filter(|&d| d != line) {
            kept.push(reduced.sizes[d], [reduced.strides[0][d]])?;
        }
        let count = reduced.sizes[line];
        Ok(Self {
            kept,
            results,
            lines: reduced.count() / count.max(1),
            count,
            stride: reduced.strides[0][line],
        })
    }

    /// Whether a step along a line is shorter than one to the next line.
    fn step_less(&self) -> bool {
        steps_less(self.stride, &self.kept)
    }
}

/// Whether `stride` is shorter than a step to the next of `kept`; standing still is the longest step.
fn steps_less(stride: usize, kept: &Merged<1>) -> bool {
    let other = kept.strides[0][0];
    kept.rank == 0 || (stride != 0 && (other == 0 || stride < other))
}

fn longest(layout: &Merged<1>) -> usize {
    let dimensions = 0..layout.rank;
    dimensions.max_by_key(|&d| layout.sizes[d]).unwrap_or(0)
}

struct Reduction<'a> {
    device: &'a RocmDevice,
    card: Card,
    kernels: Kernels,
    /// Where x's memory begins.
    x: Pointer,
    dtype: DType,
    element: Element,
    /// Whether results are indices.
    indices: bool,
    lines: Lines,
}

/// `candle::Task`.
#[repr(C)]
struct Task {
    kept: KernelLayout<1>,
    stride: i64,
    first: u64,
    count: u32,
    chunk: u32,
    slots: u32,
    slot: u32,
    width: u32,
    packed: u32,
}

// SAFETY: the same fields in the same order, with C's layout on both sides.
unsafe impl Argument for Task {}

/// `candle::Partials`.
#[repr(C)]
struct Partials {
    results: u64,
    slots: u32,
    count: u32,
    chunk: u32,
    width: u32,
}

// SAFETY: as above.
unsafe impl Argument for Partials {}

/// How a launch is spread over the card.
struct Spread {
    kernel: Kernel,
    teams: Teams,
    /// Whether a thread reads neighbouring lines at once.
    packed: bool,
    /// Lines to a block.
    of_block: usize,
    /// Elements of a line to a block.
    chunk: usize,
    /// Blocks to a line.
    blocks: usize,
}

impl<'a> Reduction<'a> {
    fn of(op: ReduceOp, x: Operand<'a>, dims: &[usize]) -> Result<Self> {
        Ok(Self {
            device: x.device(),
            card: Card::of(x.device()),
            kernels: Kernels::of(op, &x)?,
            x: x.base(),
            dtype: x.dtype(),
            element: x.element(op.name())?,
            indices: matches!(op, ReduceOp::ArgMin | ReduceOp::ArgMax),
            lines: Lines::of(x.layout, dims)?,
        })
    }

    /// The results; layouts are cut at `limit` elements, a power of two.
    fn result(&self, limit: usize) -> Result<RocmStorage> {
        let dtype = if self.indices { DType::U32 } else { self.dtype };
        let result = uninit(self.lines.results, dtype, self.device)?;
        self.enqueue(&result, limit)?;
        Ok(result)
    }

    /// Queues the launches that write `result`.
    fn enqueue(&self, result: &RocmStorage, limit: usize) -> Result<()> {
        let (kept, count) = (&self.lines.kept, self.lines.count);
        let mut most = 0;
        kept.launches(limit, &mut |_, piece| {
            most = most.max(piece.count());
            HipResult::Ok(())
        })?;
        let firsts = || (0..count).step_by(limit);
        let spread = |first: usize| self.spread(most, limit.min(count - first));
        let slots = firsts().map(|first| spread(first).blocks).sum();
        let partials = match slots * self.lines.lines {
            1 => None,
            several => Some(self.partials(several)?),
        };
        kept.launches(limit, &mut |line, piece| {
            // Where the first line's result is, or its partial results.
            let (y, part) = match &partials {
                None => (self.result_at(result, line), Pointer::NULL),
                Some(partials) => (Pointer::NULL, self.partial_at(partials, line * slots)),
            };
            let mut slot = 0;
            for first in firsts() {
                let spread = spread(first);
                let task = Task {
                    kept: piece.pack(),
                    stride: self.lines.stride as i64,
                    first: first as u64,
                    count: limit.min(count - first) as u32,
                    chunk: spread.chunk as u32,
                    slots: slots as u32,
                    slot: slot as u32,
                    width: spread.teams.width as u32,
                    packed: spread.packed.into(),
                };
                let offset = piece.offsets[0] + first * self.lines.stride;
                let x = self.x.offset(offset * self.element.size());
                let launch = self.device.launch(spread.kernel)?;
                let blocks = piece.count().div_ceil(spread.of_block).min(MAX_GRID);
                let launch = launch.threads(blocks, spread.teams.block);
                let launch = launch.blocks_y(spread.blocks);
                // SAFETY: the arguments of these kernels; there is room for every line's result or partial results, and
                // Candle's layouts stay within their storages.
                unsafe { launch.arg(&y).arg(&part).arg(&x).arg(&task).enqueue() }?;
                slot += spread.blocks;
            }
            HipResult::Ok(())
        })?;
        match partials {
            None => Ok(()),
            Some(partials) => self.finish(result, partials, slots),
        }
    }

    /// Puts the partial results of every line together, `slots` of each.
    fn finish(
        &self,
        result: &RocmStorage,
        mut partials: RocmStorage,
        mut slots: usize,
    ) -> Result<()> {
        let results = self.lines.results;
        let mut count = slots * self.lines.lines;
        loop {
            if count >= 1 << 31 {
                crate::bail!("a reduction over {count} lines, which are too many for its kernels")
            }
            let teams = self.finishing_teams(slots, count);
            let most = steps_of_thread(teams, count) / table::LEAST_PARTIALS;
            let blocks = self.split(teams.blocks(results), most, table::BLOCKS_PER_PROCESSOR);
            let chunk = count.div_ceil(blocks);
            let blocks = count.div_ceil(chunk);
            let fewer = match blocks {
                1 => None,
                several => Some(self.partials(several)?),
            };
            let task = Partials {
                results: results as u64,
                slots: slots as u32,
                count: count as u32,
                chunk: chunk as u32,
                width: teams.width as u32,
            };
            let to = fewer.as_ref().map_or(Pointer::NULL, RocmStorage::pointer);
            let (y, from) = (result.pointer(), partials.pointer());
            let launch = self.device.launch(self.kernels.finish)?;
            let launch = launch.threads(teams.blocks(results), teams.block);
            let launch = launch.blocks_y(blocks);
            // SAFETY: the arguments of finish kernels; there is room for every result or its partial results, and memory
            // that is given back is reused behind the launch only.
            unsafe { launch.arg(&y).arg(&to).arg(&from).arg(&task).enqueue() }?;
            match fewer {
                None => return Ok(()),
                Some(fewer) => (partials, slots, count) = (fewer, blocks, blocks),
            }
        }
    }

    fn finishing_teams(&self, slots: usize, count: usize) -> Teams {
        let block = table::BLOCK;
        let teams = self.teams(self.lines.results, count);
        if slots == 1 && self.lines.results >= self.card.multiprocessors * block {
            return Teams { width: 1, block }; // neighbours are of different results
        }
        teams
    }

    /// Memory for so many partial results of each result.
    fn partials(&self, several: usize) -> Result<RocmStorage> {
        let bytes = self.lines.results * several * self.state_size();
        uninit(bytes, DType::U8, self.device)
    }

    fn partial_at(&self, partials: &RocmStorage, number: usize) -> Pointer {
        partials.pointer().offset(number * self.state_size())
    }

    fn result_at(&self, result: &RocmStorage, number: usize) -> Pointer {
        let size = result.dtype().size_in_bytes();
        result.pointer().offset(number * size)
    }

    /// Bytes of a partial result: a number of 32 bits or more, and of the same size its index.
    fn state_size(&self) -> usize {
        self.element.size().max(4) * if self.indices { 2 } else { 1 }
    }

    /// How a launch of so many lines is spread that takes `count` elements of each.
    fn spread(&self, lines: usize, count: usize) -> Spread {
        if self.lines.step_less() {
            self.along_lines(lines, count)
        } else {
            self.across_lines(lines, count)
        }
    }

    fn along_lines(&self, lines: usize, count: usize) -> Spread {
        let lanes = match self.lines.stride {
            1 => (PACK / self.element.size()).min(8),
            _ => 1,
        };
        let teams = self.teams(lines, count.div_ceil(lanes));
        let most = steps_of_thread(teams, count / lanes) / table::LEAST_PER_THREAD;
        let blocks = self.split(teams.blocks(lines), most, table::BLOCKS_PER_PROCESSOR);
        let chunk = count.div_ceil(blocks * lanes) * lanes;
        Spread {
            kernel: self.kernels.rows,
            teams,
            packed: false,
            of_block: teams.block / teams.width,
            chunk,
            blocks: count.div_ceil(chunk),
        }
    }

    fn across_lines(&self, lines: usize, count: usize) -> Spread {
        let block = table::BLOCK;
        let lanes = self.column_lanes();
        let across = lines.div_ceil(lanes).next_power_of_two();
        let deep = (block / across.min(table::COLUMNS)).min(count.next_power_of_two());
        let teams = Teams {
            width: block / deep,
            block,
        };
        let tiles = lines.div_ceil(lanes * teams.width);
        let per_processor = match lanes * self.element.size() {
            PACK => table::BLOCKS_OF_PACKS,
            _ => table::BLOCKS_PER_PROCESSOR,
        };
        let most = count / deep / table::LEAST_PER_THREAD;
        let blocks = self.split(tiles, most, per_processor);
        let chunk = count.div_ceil(blocks);
        Spread {
            kernel: self.kernels.columns,
            teams,
            packed: lanes > 1,
            of_block: teams.width * lanes,
            chunk,
            blocks: count.div_ceil(chunk),
        }
    }

    /// Teams for rows that take so many steps of a single thread.
    fn teams(&self, rows: usize, steps: usize) -> Teams {
        let few = self.card.is_idle_with(rows, table::BLOCK);
        if steps >= table::BLOCK_FROM || (few && steps >= 2 * self.card.wave_size) {
            return Teams::of_blocks(table::BLOCK);
        }
        Teams::of_lanes(steps, self.card, table::BLOCK)
    }

    /// Blocks over which each line is split, at most `most`, so that all blocks together keep the card busy.
    fn split(&self, blocks: usize, most: usize, per_processor: usize) -> usize {
        let wanted = self.card.multiprocessors * per_processor;
        (wanted / blocks).min(most).max(1)
    }

    /// Neighbouring lines that a thread can read at once, wherever it is.
    fn column_lanes(&self) -> usize {
        let size = self.element.size();
        let lanes = (COLUMN_STATES / self.state_size()).min(PACK / size);
        let kept = &self.lines.kept;
        let [strides] = &kept.strides;
        if strides[0] != 1 {
            return 1;
        }
        let steps = [kept.sizes[0], self.lines.stride, kept.offsets[0]];
        let mut steps = steps.iter().chain(&strides[1..kept.rank]);
        if self.x.is_multiple_of(lanes * size) && steps.all(|step| step % lanes == 0) {
            lanes
        } else {
            1
        }
    }
}

/// How many of a row's steps a thread takes, where a block has one row; less than that is not split.
fn steps_of_thread(teams: Teams, steps: usize) -> usize {
    if teams.width == table::BLOCK {
        steps / teams.width
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::BackendDevice;
    use crate::rocm_backend::testing::{gpu, launches_of};

    /// Results, lines of each, elements of a line and their stride.
    fn lines(layout: &Layout, dims: &[usize]) -> Result<[usize; 4]> {
        let lines = Lines::of(layout, dims)?;
        assert_eq!(lines.kept.count(), lines.results * lines.lines);
        Ok([lines.results, lines.lines, lines.count, lines.stride])
    }

    #[test]
    fn a_line_is_all_that_lies_together() -> Result<()> {
        let x = Layout::contiguous((3, 5, 4));
        for (dims, expected) in [
            (&[0, 1, 2][..], [1, 1, 60, 1]),
            (&[2, 1, 0], [1, 1, 60, 1]),
            (&[1, 2], [3, 1, 20, 1]),
            (&[0, 1], [4, 1, 15, 4]),
            (&[1], [12, 1, 5, 4]),
            (&[0, 2], [5, 3, 4, 1]),
            (&[], [60, 1, 1, 0]),
        ] {
            assert_eq!(lines(&x, dims)?, expected, "{dims:?}");
            let dims: Vec<_> = dims.iter().map(|d| 2 - d).collect();
            let transposed = x.transpose(0, 2)?;
            assert_eq!(lines(&transposed, &dims)?, expected, "back, {dims:?}");
        }
        Ok(())
    }

    #[test]
    fn where_no_line_is_short_of_steps_the_longest_is_taken() -> Result<()> {
        let x = Layout::contiguous((7, 2, 3, 5));
        assert_eq!(lines(&x, &[0, 2])?, [10, 3, 7, 30]);
        let x = x.broadcast_as((9, 7, 2, 3, 5))?;
        assert_eq!(lines(&x, &[0, 2])?, [105, 2, 9, 0]);
        Ok(())
    }

    #[test]
    fn the_longest_of_several_lines_is_taken_wherever_it_is() -> Result<()> {
        let x = Layout::contiguous((3, 2, 7, 5));
        assert_eq!(lines(&x, &[0, 2])?, [10, 3, 7, 5]);
        let x = Layout::contiguous((3, 2, 7, 2, 5, 5));
        assert_eq!(lines(&x, &[0, 2, 4])?, [20, 15, 7, 50]);
        Ok(())
    }

    #[test]
    fn neighbours_are_a_line_though_more_elements_are_repeated() -> Result<()> {
        let x = Layout::contiguous((3, 5)).broadcast_as((9, 3, 5))?;
        assert_eq!(lines(&x, &[0, 2])?, [3, 9, 5, 1]);
        Ok(())
    }

    #[test]
    fn standing_still_is_the_longest_step() {
        let kept = |step| {
            let mut kept = Merged::<1>::starting_at([0]);
            kept.push(7, [step]).map(|()| kept)
        };
        for (line, other, expected) in [
            (3, 4, true),
            (4, 4, false),
            (5, 4, false),
            (0, 4, false),
            (9, 0, true),
            (0, 0, false),
        ] {
            let kept = kept(other).expect("one dimension");
            assert_eq!(steps_less(line, &kept), expected, "{line} and {other}");
        }
        let one = Merged::starting_at([0]);
        assert!(steps_less(0, &one) && steps_less(9, &one));
    }

    /// Four multiprocessors: a launch with fewer than 16 waves leaves some idle.
    const FOUR: Card = Card {
        wave_size: 64,
        multiprocessors: 4,
    };

    /// What `check` says of a reduction on such a card, of a tensor whose elements do not matter.
    fn on_four<T>(
        device: &RocmDevice,
        op: ReduceOp,
        (dtype, layout): (DType, &Layout),
        dims: &[usize],
        check: impl FnOnce(&mut Reduction<'_>) -> T,
    ) -> Result<T> {
        let x = uninit(layout.shape().elem_count(), dtype, device)?;
        let mut reduction = Reduction::of(op, Operand::new(&x, layout), dims)?;
        reduction.card = FOUR;
        Ok(check(&mut reduction))
    }

    #[test]
    fn a_partial_result_has_its_index_beside_it() -> Result<()> {
        let Some(device) = gpu("a_partial_result_has_its_index_beside_it") else {
            return Ok(());
        };
        let layout = Layout::contiguous((2, 3));
        for (dtype, sum, index) in [
            (DType::U8, 4, 8),
            (DType::BF16, 4, 8),
            (DType::F32, 4, 8),
            (DType::I64, 8, 16),
        ] {
            for (op, expected) in [(ReduceOp::Sum, sum), (ReduceOp::ArgMax, index)] {
                let size = |reduction: &mut Reduction<'_>| reduction.state_size();
                let found = on_four(&device, op, (dtype, &layout), &[0], size)?;
                assert_eq!(found, expected, "{dtype:?}");
            }
        }
        // 7 for each of 300 results.
        let layout = Layout::contiguous((2, 300));
        let partials = |reduction: &mut Reduction<'_>| reduction.partials(7);
        let found = on_four(
            &device,
            ReduceOp::Sum,
            (DType::F64, &layout),
            &[0],
            partials,
        )?;
        assert_eq!(found?.size(), 7 * 300 * 8);
        Ok(())
    }

    #[test]
    fn long_lines_get_a_block_and_few_lines_sooner() -> Result<()> {
        let Some(device) = gpu("long_lines_get_a_block_and_few_lines_sooner") else {
            return Ok(());
        };
        let layout = Layout::contiguous((2, 3));
        on_four(&device, ReduceOp::Sum, (DType::F32, &layout), &[0], |x| {
            for (rows, steps, width) in [
                (16, 5, 8),
                (16, 64, 64),
                (16, 2047, 64),
                (16, 2048, 256),
                (15, 100, 64),
                (15, 127, 64),
                (15, 128, 256),
                (16, 128, 64),
                (1, 3, 4),
            ] {
                let found = x.teams(rows, steps).width;
                assert_eq!(found, width, "{rows} rows of {steps} steps");
            }
            // A thread to a result, where these are many and of one slot each: 4 blocks or more.
            for (results, slots, width) in
                [(1023, 1, 16), (1024, 1, 1), (1024, 2, 16), (1023, 2, 16)]
            {
                x.lines.results = results;
                let found = x.finishing_teams(slots, 10).width;
                assert_eq!(found, width, "{slots} slots of {results} results");
            }
            // Eight blocks to a multiprocessor, as far as lines are long enough.
            for (blocks, most, expected) in [
                (1, 100, 32),
                (3, 100, 10),
                (1, 5, 5),
                (32, 100, 1),
                (40, 100, 1),
                (1, 0, 1),
            ] {
                let found = x.split(blocks, most, 8);
                assert_eq!(found, expected, "{blocks} blocks, at most {most}");
            }
            assert_eq!(x.split(1, 100, 4), 16);
        })
    }

    /// Threads to a line or side by side, whether these read packs, lines to a block, elements to a block, and blocks.
    fn geometry(spread: &Spread) -> (usize, bool, [usize; 3]) {
        let Spread {
            teams,
            packed,
            of_block,
            chunk,
            blocks,
            ..
        } = spread;
        (teams.width, *packed, [*of_block, *chunk, *blocks])
    }

    #[test]
    fn lines_of_neighbours_are_taken_along() -> Result<()> {
        let Some(device) = gpu("lines_of_neighbours_are_taken_along") else {
            return Ok(());
        };
        for (dtype, [lines, count], expected) in [
            // Two packs of four: as many threads.
            (DType::F32, [100, 7], (2, false, [128, 8, 1])),
            (DType::F32, [100, 8192], (256, false, [1, 8192, 1])),
            // 25000 packs are 97 to a thread, of which a block takes 4 at least: 24 blocks, of 1042 packs.
            (DType::F32, [1, 100_003], (256, false, [1, 4168, 24])),
            // Packs of two: 195 to a thread, 48 blocks at most, and 32 fill the card.
            (DType::I64, [1, 100_003], (256, false, [1, 3126, 32])),
            // Packs of eight, though 16 bytes have more: 48 to a thread.
            (DType::U8, [1, 100_003], (256, false, [1, 8336, 12])),
            // Half of 8 blocks for each of 4 multiprocessors.
            (DType::F32, [2, 100_003], (256, false, [1, 6252, 16])),
        ] {
            let layout = Layout::contiguous((lines, count));
            let spread = |x: &mut Reduction<'_>| {
                let spread = x.spread(lines, count);
                assert_eq!(spread.kernel.symbol(), x.kernels.rows.symbol());
                geometry(&spread)
            };
            let found = on_four(&device, ReduceOp::Sum, (dtype, &layout), &[1], spread)?;
            assert_eq!(found, expected, "{lines} lines of {count} {dtype:?}");
        }
        // Every third element: no packs, 390 elements to a thread, 97 blocks at most.
        let layout = Layout::contiguous((100_003, 3)).narrow(1, 0, 1)?;
        let spread = |x: &mut Reduction<'_>| geometry(&x.spread(1, 100_003));
        let sum = ReduceOp::Sum;
        let found = on_four(&device, sum, (DType::F32, &layout), &[0], spread)?;
        assert_eq!(found, (256, false, [1, 3126, 32]));
        Ok(())
    }

    #[test]
    fn neighbouring_lines_are_taken_across() -> Result<()> {
        let Some(device) = gpu("neighbouring_lines_are_taken_across") else {
            return Ok(());
        };
        for (dtype, [count, lines], expected) in [
            // Packs of four: 3 side by side are 4, and 64 of those are a block. 31 elements to a thread: 7 blocks.
            (DType::F32, [2000, 12], (4, true, [16, 286, 7])),
            // 10 packs side by side are 16; packs of 16 bytes have 4 blocks for each of 4 multiprocessors.
            (DType::F32, [100_003, 40], (16, true, [64, 6251, 16])),
            // No packs: twice as many blocks, but no more than 125 elements to a thread allow.
            (DType::F32, [2000, 10], (16, false, [16, 65, 31])),
            (DType::F32, [100_003, 10], (16, false, [16, 3126, 32])),
            // Packs of 8 bytes, whose partial results have 32.
            (DType::U8, [100_003, 128], (16, true, [128, 3126, 32])),
            // 17 lines are 2 tiles of 16.
            (DType::F32, [100_003, 17], (16, false, [16, 6251, 16])),
            // Few elements: no deeper than these.
            (DType::F32, [3, 1000], (64, true, [256, 3, 1])),
        ] {
            let layout = Layout::contiguous((count, lines));
            let spread = |x: &mut Reduction<'_>| {
                let spread = x.spread(lines, count);
                assert_eq!(spread.kernel.symbol(), x.kernels.columns.symbol());
                geometry(&spread)
            };
            let found = on_four(&device, ReduceOp::Sum, (dtype, &layout), &[0], spread)?;
            assert_eq!(found, expected, "{lines} lines of {count} {dtype:?}");
        }
        Ok(())
    }

    #[test]
    fn neighbouring_lines_are_read_at_once_where_all_are_aligned() -> Result<()> {
        let Some(device) = gpu("neighbouring_lines_are_read_at_once_where_all_are_aligned") else {
            return Ok(());
        };
        let lanes = |op, dtype, layout: &Layout, from: usize| {
            on_four(&device, op, (dtype, layout), &[1], |x| {
                x.x = Pointer::NULL.offset(from);
                x.column_lanes()
            })
        };
        let layout = Layout::contiguous((2, 5, 48));
        for (dtype, sums, indices) in [
            (DType::F64, 2, 2),
            (DType::F32, 4, 4),
            (DType::BF16, 8, 4),
            (DType::U8, 8, 4),
        ] {
            let found = lanes(ReduceOp::Sum, dtype, &layout, 0)?;
            assert_eq!(found, sums, "{dtype:?}");
            let found = lanes(ReduceOp::ArgMin, dtype, &layout, 0)?;
            assert_eq!(found, indices, "{dtype:?}");
        }
        let floats = |layout: &Layout, from| lanes(ReduceOp::Sum, DType::F32, layout, from);
        for (from, expected) in [(0, 4), (16, 4), (8, 1), (4, 1), (12, 1)] {
            assert_eq!(floats(&layout, from)?, expected, "from {from} on");
        }
        let wide = Layout::contiguous((2, 5, 50));
        for (layout, expected) in [
            (wide.clone(), 1),                                    // rows of 50
            (wide.narrow(2, 0, 48)?, 1),                          // 50 from one to the next
            (layout.narrow(2, 0, 44)?, 4),                        // 48, of which some are not meant
            (layout.narrow(2, 4, 44)?, 4),                        // which begin elsewhere
            (layout.narrow(2, 3, 44)?, 1),                        // inside a pack
            (layout.narrow(2, 0, 46)?, 1),                        // or end inside one
            (layout.narrow(2, 0, 1)?, 1),                         // no neighbours
            (Layout::contiguous((2, 48, 5)).transpose(1, 2)?, 1), // 5 from line to line
        ] {
            assert_eq!(floats(&layout, 0)?, expected, "{layout:?}");
        }
        Ok(())
    }

    fn words(storage: &RocmStorage) -> Result<Vec<u32>> {
        let mut data = vec![0; storage.size()];
        storage.copy_to_host(&mut data)?;
        let words = data.chunks_exact(4);
        Ok(words
            .map(|word| u32::from_ne_bytes([word[0], word[1], word[2], word[3]]))
            .collect())
    }

    #[test]
    fn results_are_the_same_in_however_many_launches() -> Result<()> {
        let Some(device) = gpu("results_are_the_same_in_however_many_launches") else {
            return Ok(());
        };
        let data: Vec<u32> = (0..7 * 22 * 10).map(|i| i * 7919 % 1009).collect();
        let x = device.storage_from_slice(&data)?;
        let whole = Layout::contiguous((7, 22, 10));
        let part = whole.narrow(1, 3, 17)?.narrow(2, 1, 9)?;
        for (layout, first) in [(&whole, [0, 0]), (&part, [3, 1])] {
            let (_, b, c) = layout.shape().dims3()?;
            for dim in 0..3 {
                // Elements by line, in their order.
                let mut lines = vec![vec![]; 7 * b * c / [7, b, c][dim]];
                for place in 0..7 * b * c {
                    let (i, j, k) = (place / (b * c), place / c % b, place % c);
                    let line = [j * c + k, i * c + k, i * b + j][dim];
                    let at = (i * 22 + j + first[0]) * 10 + k + first[1];
                    lines[line].push(data[at]);
                }
                let of_each = |value: fn(&[u32]) -> u32| -> Vec<u32> {
                    lines.iter().map(|line| value(line)).collect()
                };
                for limit in [4, 16, 1024] {
                    let found = |op| {
                        let reduction = Reduction::of(op, Operand::new(&x, layout), &[dim])?;
                        words(&reduction.result(limit)?)
                    };
                    let what = format!("{layout:?} over {dim}, {limit} at a time");
                    let wanted = of_each(|line| line.iter().sum());
                    assert_eq!(found(ReduceOp::Sum)?, wanted, "{what}");
                    let wanted = of_each(|line| line.iter().copied().max().unwrap_or(0));
                    assert_eq!(found(ReduceOp::Max)?, wanted, "{what}");
                    // Of equals the first.
                    let wanted = of_each(|line| {
                        let least = (0..line.len()).min_by_key(|&at| line[at]);
                        least.unwrap_or(0) as u32
                    });
                    assert_eq!(found(ReduceOp::ArgMin)?, wanted, "{what}");
                }
            }
        }
        Ok(())
    }

    #[test]
    fn what_a_cut_leaves_of_a_line_takes_fewer_blocks() -> Result<()> {
        let Some(device) = gpu("what_a_cut_leaves_of_a_line_takes_fewer_blocks") else {
            return Ok(());
        };
        let data: Vec<u32> = (0..20_480).map(|i| i * 7919 % 1009).collect();
        let x = device.storage_from_slice(&data)?;
        let layout = Layout::contiguous(data.len());
        let mut reduction = Reduction::of(ReduceOp::Sum, Operand::new(&x, &layout), &[0])?;
        reduction.card.multiprocessors = 4;
        let (sum, launches) = launches_of(|| reduction.result(1 << 14));
        assert_eq!(words(&sum?)?, [data.iter().sum::<u32>()]);
        // 16384 elements are 16 packs to each thread of a block, and 4 are worth one; the other 4096 are just one.
        let grids: Vec<_> = launches.iter().map(|launch| launch.grid).collect();
        assert_eq!(grids, [[1, 4, 1], [1, 1, 1], [1, 1, 1]]);
        Ok(())
    }

    #[test]
    fn many_partial_results_are_put_together_twice() -> Result<()> {
        let Some(device) = gpu("many_partial_results_are_put_together_twice") else {
            return Ok(());
        };
        let data: Vec<u32> = (0..20_000 * 6).map(|i| i % 1013).collect();
        let x = device.storage_from_slice(&data)?;
        let layout = Layout::contiguous((20_000, 2, 3));
        let mut reduction = Reduction::of(ReduceOp::Sum, Operand::new(&x, &layout), &[0, 2])?;
        reduction.card.multiprocessors = 4;
        let (sums, launches) = launches_of(|| reduction.result(MAX_LAUNCH));
        let mut wanted = [0, 0];
        for (at, value) in data.iter().enumerate() {
            wanted[at / 3 % 2] += value;
        }
        assert_eq!(words(&sums?)?, wanted);
        // 2 results of 20000 lines: 78 partial results to a thread of a block, of which 32 are worth a block.
        let name = reduction.kernels.finish.symbol();
        let finish = launches.iter().filter(|launch| launch.kernel == name);
        let grids: Vec<_> = finish.map(|launch| launch.grid).collect();
        assert_eq!(grids, [[2, 2, 1], [1, 1, 1]]);
        Ok(())
    }

    #[test]
    fn extremes_are_of_one_dimension_that_has_elements() -> Result<()> {
        let Some(device) = gpu("extremes_are_of_one_dimension_that_has_elements") else {
            return Ok(());
        };
        let x = device.storage_from_slice(&[5u32, 3, 9, 4, 8, 1])?;
        let (layout, empty) = (Layout::contiguous((2, 3)), Layout::contiguous((0, 3)));
        let reduced = |op, layout: &Layout, dims: &[usize]| -> Result<Vec<u32>> {
            words(&reduce_op(&x, op, layout, dims)?)
        };
        let (sum, launches) = launches_of(|| reduced(ReduceOp::Sum, &layout, &[0, 1]));
        assert_eq!((sum?, launches.len()), (vec![30], 1));
        assert_eq!(reduced(ReduceOp::Sum, &layout, &[])?, [5, 3, 9, 4, 8, 1]);
        assert_eq!(reduced(ReduceOp::Sum, &empty, &[0])?, [0, 0, 0]);
        assert!(reduced(ReduceOp::Sum, &empty, &[1])?.is_empty());
        for (op, expected) in [
            (ReduceOp::Min, [3, 1]),
            (ReduceOp::Max, [9, 8]),
            (ReduceOp::ArgMin, [1, 2]),
            (ReduceOp::ArgMax, [2, 1]),
        ] {
            assert_eq!(reduced(op, &layout, &[1])?, expected, "{op:?}");
            assert!(reduced(op, &layout, &[0, 1]).is_err(), "{op:?}");
            assert!(reduced(op, &layout, &[]).is_err(), "{op:?}");
            assert!(reduced(op, &empty, &[0]).is_err(), "{op:?}");
        }
        Ok(())
    }
}
