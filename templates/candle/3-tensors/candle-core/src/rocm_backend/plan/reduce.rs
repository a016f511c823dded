//! Sums, extremes and their indices over dimensions.
//!
//! A result's elements are lines of equal length and stride, each of which a team of threads takes, or several blocks.
//! If a line has several blocks, or a result several lines, a second launch puts the partial results together; a third
//! only for a result of so many lines that one block would take long. Where memory has the results in another order, they
//! are made in that order, and turned.
use super::copy::{bits_of, contiguous};
use super::family::{Kernel, Op};
use super::fill::fill;
use super::launch::{Argument, Launch, Pointer, PACK};
use super::launcher::{Card, Launcher, Refusal};
use super::number::Pattern;
use super::table::{permute, reduce as table, Element};
use super::teams::Teams;
use super::views::{row_major, KernelLayout, Merged, Operand, View};
use std::cmp::Reverse;

/// Writes to `y` a result for each element of the dimensions that are not in `dims`: of x's type `element`, or u32 if `op`
/// finds indices. Extremes are of one dimension, and nothing is of a tensor without elements.
pub(crate) fn reduce<L: Launcher>(
    launcher: &L,
    op: &Op,
    x: Operand<'_>,
    element: Element,
    dims: &[usize],
    y: Pointer,
) -> Result<(), L::Error> {
    let name = op.name;
    if x.view.shape.contains(&0) {
        return Err(Refusal(format!("{name} of a tensor without elements")).into());
    }
    if name != table::SUM.name && dims.len() != 1 {
        let message = format!("{name} is of one dimension, not of {}", dims.len());
        return Err(Refusal(message).into());
    }
    let reduction = Reduction::of(launcher, op, x, element, dims)?;
    if reduction.indices && reduction.lines.count == 1 {
        return first(launcher, reduction.lines.results, y);
    }
    match memory_order(x, dims, reduction.result_size())? {
        None => reduction.enqueue(y),
        Some(kept) => enqueue_turned(launcher, op, x, element, [&kept, dims], y),
    }
}

/// The dimensions that are not in `dims` as memory has them, outermost first, where that is worth a second launch: there are
/// neighbours in memory that are results, but not neighbouring ones.
fn memory_order(
    x: Operand<'_>,
    dims: &[usize],
    result_size: usize,
) -> Result<Option<Vec<usize>>, Refusal> {
    let View { shape, strides, .. } = x.view;
    if shape.iter().product::<usize>() * x.size < permute::TURNED_LEAST {
        return Ok(None);
    }
    let merged = |kept: &[usize]| {
        let mut layout = Merged::<1>::starting_at([0]);
        let mut outwards = kept.iter().rev();
        outwards.try_for_each(|&d| layout.push(shape[d], [strides[d]]))?;
        Ok::<_, Refusal>(layout)
    };
    let mut kept: Vec<_> = (0..shape.len()).filter(|d| !dims.contains(d)).collect();
    let given = merged(&kept)?;
    kept.sort_by_key(|&d| Reverse(strides[d]));
    let ordered = merged(&kept)?;
    let pays = given.strides[0][0] != 1
        && ordered.strides[0][0] == 1
        && ordered.sizes[0] > permute::NARROW
        && !given.strides[0][..given.rank].contains(&0)
        && given.count() * result_size <= permute::TURNED_MOST;
    Ok(pays.then_some(kept))
}

/// Results in the order of the dimensions `kept`, and then in that of their numbers.
fn enqueue_turned<L: Launcher>(
    launcher: &L,
    op: &Op,
    x: Operand<'_>,
    element: Element,
    [kept, dims]: [&[usize]; 2],
    y: Pointer,
) -> Result<(), L::Error> {
    let all = || kept.iter().chain(dims);
    let shape: Vec<_> = all().map(|&d| x.view.shape[d]).collect();
    let strides: Vec<_> = all().map(|&d| x.view.strides[d]).collect();
    let view = View {
        shape: &shape,
        strides: &strides,
        ..x.view
    };
    let reduced: Vec<_> = (kept.len()..shape.len()).collect();
    let reduction = Reduction::of(launcher, op, Operand { view, ..x }, element, &reduced)?;
    let (size, sizes) = (reduction.result_size(), &shape[..kept.len()]);
    let (_memory, start) = launcher.workspace(reduction.lines.results * size)?;
    reduction.enqueue(start)?;

    let mut places: Vec<_> = kept.iter().zip(sizes).zip(row_major(sizes)).collect();
    places.sort_by_key(|((d, _), _)| **d);
    let shape: Vec<_> = places.iter().map(|((_, size), _)| **size).collect();
    let strides: Vec<_> = places.iter().map(|(_, step)| *step).collect();
    let view = View {
        shape: &shape,
        strides: &strides,
        offset: 0,
    };
    let base = start;
    contiguous(launcher, Operand { base, size, view }, bits_of(size)?, y)
}

/// Writes so many times the index of a line's first element.
fn first<L: Launcher>(launcher: &L, results: usize, y: Pointer) -> Result<(), L::Error> {
    let indices = Operand {
        base: y,
        size: Element::U32.size(),
        view: View {
            shape: &[results],
            strides: &[1],
            offset: 0,
        },
    };
    fill(launcher, indices, Element::U32, Pattern::of(&[0; 4]))
}

/// The launches of an operation for one type.
struct Kernels {
    rows: Kernel,
    columns: Kernel,
    finish: Kernel,
}

impl Kernels {
    fn of(op: &Op, element: Element) -> Result<Self, Refusal> {
        Ok(Self {
            rows: op.form(table::FORM_ROWS, &[element])?,
            columns: op.form(table::FORM_COLUMNS, &[element])?,
            finish: op.form(table::FORM_FINISH, &[element])?,
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
    fn of(x: View<'_>, dims: &[usize]) -> Result<Self, Refusal> {
        let (sizes, strides) = (x.shape, x.strides);
        let mut kept = Merged::starting_at([x.offset]);
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

struct Reduction<'a, L> {
    launcher: &'a L,
    card: Card,
    kernels: Kernels,
    /// Where x's memory begins.
    x: Pointer,
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

impl<'a, L: Launcher> Reduction<'a, L> {
    fn of(
        launcher: &'a L,
        op: &Op,
        x: Operand<'_>,
        element: Element,
        dims: &[usize],
    ) -> Result<Self, Refusal> {
        Ok(Self {
            launcher,
            card: launcher.card(),
            kernels: Kernels::of(op, element)?,
            x: x.base,
            element,
            indices: [table::ARGMIN.name, table::ARGMAX.name].contains(&op.name),
            lines: Lines::of(x.view, dims)?,
        })
    }

    /// Queues the launches that write the results to `y`.
    fn enqueue(&self, y: Pointer) -> Result<(), L::Error> {
        let limit = self.launcher.limits().elements;
        let (kept, count) = (&self.lines.kept, self.lines.count);
        let mut most = 0;
        kept.launches(limit, &mut |_, piece| {
            most = most.max(piece.count());
            Ok::<(), L::Error>(())
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
                None => (y.offset(line * self.result_size()), Pointer::NULL),
                Some((_, start)) => {
                    let before = line * slots * self.state_size();
                    (Pointer::NULL, start.offset(before))
                }
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
                let blocks = piece.count().div_ceil(spread.of_block);
                let launch = Launch::new(self.launcher, spread.kernel);
                let launch = launch.strided(blocks, spread.teams.block);
                let launch = launch.blocks_y(spread.blocks);
                // SAFETY: the arguments of these kernels; there is room for every line's result or partial results, and
                // the view stays within its memory.
                unsafe { launch.arg(&y).arg(&part).arg(&x).arg(&task).enqueue() }?;
                slot += spread.blocks;
            }
            Ok::<(), L::Error>(())
        })?;
        match partials {
            None => Ok(()),
            Some(partials) => self.finish(y, partials, slots),
        }
    }

    /// Puts the partial results of every line together, `slots` of each.
    fn finish(
        &self,
        y: Pointer,
        mut partials: (L::Workspace, Pointer),
        mut slots: usize,
    ) -> Result<(), L::Error> {
        let results = self.lines.results;
        let mut count = slots * self.lines.lines;
        loop {
            if count >= 1 << 31 {
                let message =
                    format!("a reduction over {count} lines, which are too many for its kernels");
                return Err(Refusal(message).into());
            }
            let teams = self.finishing_teams(slots, count);
            let most = steps_of_thread(teams, count) / table::LEAST_PARTIALS;
            let of_all = self.blocks(teams, results);
            let blocks = self.split(of_all, most, table::BLOCKS_PER_PROCESSOR);
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
            let to = fewer.as_ref().map_or(Pointer::NULL, |(_, start)| *start);
            let from = partials.1;
            let launch = Launch::new(self.launcher, self.kernels.finish);
            let launch = launch.threads(of_all, teams.block);
            let launch = launch.blocks_y(blocks);
            // SAFETY: the arguments of finish kernels; there is room for every result or its partial results, and a
            // workspace lasts until the launches that were queued before.
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
    fn partials(&self, several: usize) -> Result<(L::Workspace, Pointer), L::Error> {
        let bytes = self.lines.results * several * self.state_size();
        self.launcher.workspace(bytes)
    }

    /// Bytes of a result.
    fn result_size(&self) -> usize {
        if self.indices {
            Element::U32.size()
        } else {
            self.element.size()
        }
    }

    /// Bytes of a partial result: a number of 32 bits or more, and of the same size its index.
    fn state_size(&self) -> usize {
        self.element.size().max(4) * if self.indices { 2 } else { 1 }
    }

    /// How a launch of so many lines is spread that takes `count` elements of each.
    fn spread(&self, lines: usize, count: usize) -> Spread {
        if self.lines.step_less() && count > 1 {
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
        let of_all = self.blocks(teams, lines);
        let blocks = self.split(of_all, most, table::BLOCKS_PER_PROCESSOR);
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
        let per_processor = match lanes * self.element.size() {
            PACK => table::BLOCKS_OF_PACKS,
            _ => table::BLOCKS_PER_PROCESSOR,
        };
        let mut deep = (block / across.min(table::COLUMNS)).min(count.next_power_of_two());
        // Of many lines, a thread takes as much as still leaves blocks for the whole card: there is less to merge.
        let tiles = |deep: usize| lines.div_ceil(lanes * block / deep);
        while deep > 1 && tiles(deep / 2) >= self.card.multiprocessors * per_processor {
            deep /= 2;
        }
        let tiles = tiles(deep);
        let teams = Teams {
            width: block / deep,
            block,
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

    /// Blocks for a team to each of so many rows.
    fn blocks(&self, teams: Teams, rows: usize) -> usize {
        teams.blocks(rows, self.launcher.limits().blocks)
    }

    /// Blocks over which each line is split, at most `most`, so that all blocks together keep the card busy.
    fn split(&self, blocks: usize, most: usize, per_processor: usize) -> usize {
        let wanted = self.card.multiprocessors * per_processor;
        (wanted / blocks).min(most).max(1)
    }

    /// Neighbouring lines that a thread can read at once, wherever it is.
    fn column_lanes(&self) -> usize {
        let size = self.element.size();
        let lanes = (table::COLUMN_STATES / self.state_size()).min(PACK / size);
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
    use crate::rocm_backend::plan::testing::{contiguous, Recorder, Strided};

    /// Results, lines of each, elements of a line and their stride.
    fn lines(x: &Strided, dims: &[usize]) -> Result<[usize; 4], Refusal> {
        let lines = Lines::of(x.view(), dims)?;
        assert_eq!(lines.kept.count(), lines.results * lines.lines);
        Ok([lines.results, lines.lines, lines.count, lines.stride])
    }

    #[test]
    fn a_line_is_all_that_lies_together() -> Result<(), Refusal> {
        let x = contiguous(&[3, 5, 4]);
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
            let back = x.clone().reversed();
            assert_eq!(lines(&back, &dims)?, expected, "back, {dims:?}");
        }
        Ok(())
    }

    #[test]
    fn where_no_line_is_short_of_steps_the_longest_is_taken() -> Result<(), Refusal> {
        let x = contiguous(&[7, 2, 3, 5]);
        assert_eq!(lines(&x, &[0, 2])?, [10, 3, 7, 30]);
        assert_eq!(lines(&x.repeated(9), &[0, 2])?, [105, 2, 9, 0]);
        Ok(())
    }

    #[test]
    fn the_longest_of_several_lines_is_taken_wherever_it_is() -> Result<(), Refusal> {
        let x = contiguous(&[3, 2, 7, 5]);
        assert_eq!(lines(&x, &[0, 2])?, [10, 3, 7, 5]);
        let x = contiguous(&[3, 2, 7, 2, 5, 5]);
        assert_eq!(lines(&x, &[0, 2, 4])?, [20, 15, 7, 50]);
        Ok(())
    }

    #[test]
    fn neighbours_are_a_line_though_more_elements_are_repeated() -> Result<(), Refusal> {
        let x = contiguous(&[3, 5]).repeated(9);
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

    fn operand(x: &Strided, size: usize) -> Operand<'_> {
        Operand {
            base: Pointer::NULL,
            size,
            view: x.view(),
        }
    }

    /// What `check` says of a reduction on such a card.
    fn on_four<T>(
        op: &Op,
        (element, x): (Element, &Strided),
        dims: &[usize],
        check: impl FnOnce(&mut Reduction<'_, Recorder>) -> T,
    ) -> Result<T, Refusal> {
        let recorder = Recorder::of(FOUR);
        let x = operand(x, element.size());
        let mut reduction = Reduction::of(&recorder, op, x, element, dims)?;
        Ok(check(&mut reduction))
    }

    /// The order of the results of a large view, if they are made in another one than that of its dimensions.
    fn order(x: &Strided, dims: &[usize]) -> Result<Option<Vec<usize>>, Refusal> {
        memory_order(operand(x, 4), dims, 4)
    }

    #[test]
    fn results_are_made_in_the_order_of_memory() -> Result<(), Refusal> {
        let least = permute::TURNED_LEAST / 4;
        let rows = least / 2 / 64;
        let x = contiguous(&[64, rows, 2]).reversed();
        assert_eq!(order(&x, &[0])?, None, "each line lies together");
        let x = contiguous(&[2, 64, rows]);
        assert_eq!(order(&x, &[0])?, None);
        let turned = Strided {
            shape: vec![2, rows, 64],
            strides: vec![64 * rows, 1, rows],
            offset: 3,
        };
        assert_eq!(order(&turned, &[0])?, Some(vec![2, 1]));
        assert_eq!(order(&turned, &[2])?, None, "neighbours are results");
        assert_eq!(order(&x.reversed(), &[2])?, Some(vec![1, 0]));
        // A view that is small, results that would need more memory, or of which few neighbours lie together.
        let small = turned.clone().narrow(1, 0, rows - 1);
        assert_eq!(order(&small, &[0])?, None);
        let many = permute::TURNED_MOST / 4 / 64 + 1;
        assert_eq!(order(&contiguous(&[2, 64, many]).reversed(), &[2])?, None);
        let narrow = permute::NARROW;
        let flat = |columns| contiguous(&[2, least, 8]).narrow(2, 0, columns).reversed();
        assert_eq!(order(&flat(narrow), &[2])?, None);
        assert_eq!(order(&flat(narrow + 1), &[2])?, Some(vec![1, 0]));
        // Short rows of neighbours that lie one behind another.
        let x = contiguous(&[least / 64, 32, 2]).reversed();
        assert_eq!(order(&x, &[2])?, Some(vec![1, 0]));
        assert_eq!(order(&x.narrow(1, 0, 31), &[2])?, None);
        Ok(())
    }

    #[test]
    fn results_in_the_order_of_memory_are_turned() -> Result<(), Refusal> {
        let rows = permute::TURNED_LEAST / 4 / 2 / 64;
        let x = contiguous(&[2, 64, rows]).reversed();
        for (op, symbols) in [
            (&table::MAX, ["max_f32_columns", "permute_b32"]),
            (&table::ARGMIN, ["argmin_f32_columns", "permute_b32"]),
        ] {
            let recorder = Recorder::of(FOUR);
            let x = operand(&x, 4);
            reduce(&recorder, op, x, Element::F32, &[2], Pointer::NULL)?;
            let launches = recorder.launches.take();
            let found: Vec<_> = launches.iter().map(|launch| &*launch.symbol).collect();
            assert_eq!(found, symbols);
            assert_eq!(recorder.workspaces.take(), [4 * 64 * rows]);
        }
        Ok(())
    }

    #[test]
    fn the_only_element_is_the_first() -> Result<(), Refusal> {
        let x = contiguous(&[7, 1]);
        for (op, symbol) in [
            (&table::ARGMIN, "fill_b32"),
            (&table::ARGMAX, "fill_b32"),
            (&table::MAX, "max_f32_columns"),
        ] {
            let recorder = Recorder::of(FOUR);
            let x = operand(&x, 4);
            reduce(&recorder, op, x, Element::F32, &[1], Pointer::NULL)?;
            let launches = recorder.launches.take();
            let symbols: Vec<_> = launches.iter().map(|launch| &launch.symbol).collect();
            assert_eq!(symbols, [symbol]);
        }
        Ok(())
    }

    #[test]
    fn a_partial_result_has_its_index_beside_it() -> Result<(), Refusal> {
        let x = contiguous(&[2, 3]);
        for (element, sum, index) in [
            (Element::U8, 4, 8),
            (Element::BF16, 4, 8),
            (Element::F32, 4, 8),
            (Element::I64, 8, 16),
        ] {
            for (op, expected) in [(&table::SUM, sum), (&table::ARGMAX, index)] {
                let found = on_four(op, (element, &x), &[0], |x| x.state_size())?;
                assert_eq!(found, expected, "{element:?}");
            }
        }
        // 7 for each of 300 results.
        let x = contiguous(&[2, 300]);
        let bytes = on_four(&table::SUM, (Element::F64, &x), &[0], |x| {
            x.partials(7)?;
            Ok(x.launcher.workspaces.take())
        })?;
        assert_eq!(bytes?, [7 * 300 * 8]);
        Ok(())
    }

    #[test]
    fn results_are_as_large_as_elements_or_indices() -> Result<(), Refusal> {
        let x = contiguous(&[2, 3]);
        for element in [Element::U8, Element::F32, Element::I64] {
            for (op, expected) in [
                (&table::SUM, element.size()),
                (&table::MAX, element.size()),
                (&table::ARGMIN, 4),
                (&table::ARGMAX, 4),
            ] {
                let found = on_four(op, (element, &x), &[0], |x| x.result_size())?;
                assert_eq!(found, expected, "{element:?}");
            }
        }
        Ok(())
    }

    #[test]
    fn long_lines_get_a_block_and_few_lines_sooner() -> Result<(), Refusal> {
        let x = contiguous(&[2, 3]);
        on_four(&table::SUM, (Element::F32, &x), &[0], |x| {
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
    fn lines_of_neighbours_are_taken_along() -> Result<(), Refusal> {
        for (element, [lines, count], expected) in [
            // Two packs of four: as many threads.
            (Element::F32, [100, 7], (2, false, [128, 8, 1])),
            (Element::F32, [100, 8192], (256, false, [1, 8192, 1])),
            // 25000 packs are 97 to a thread, of which a block takes 4 at least: 24 blocks, of 1042 packs.
            (Element::F32, [1, 100_003], (256, false, [1, 4168, 24])),
            // Packs of two: 195 to a thread, 48 blocks at most, and 32 fill the card.
            (Element::I64, [1, 100_003], (256, false, [1, 3126, 32])),
            // Packs of eight, though 16 bytes have more: 48 to a thread.
            (Element::U8, [1, 100_003], (256, false, [1, 8336, 12])),
            // Half of 8 blocks for each of 4 multiprocessors.
            (Element::F32, [2, 100_003], (256, false, [1, 6252, 16])),
        ] {
            let x = contiguous(&[lines, count]);
            let found = on_four(&table::SUM, (element, &x), &[1], |x| {
                let spread = x.spread(lines, count);
                assert_eq!(spread.kernel.symbol(), x.kernels.rows.symbol());
                geometry(&spread)
            })?;
            assert_eq!(found, expected, "{lines} lines of {count} {element:?}");
        }
        // Every third element: no packs, 390 elements to a thread, 97 blocks at most.
        let x = contiguous(&[100_003, 3]).narrow(1, 0, 1);
        let spread = |x: &mut Reduction<'_, Recorder>| geometry(&x.spread(1, 100_003));
        let found = on_four(&table::SUM, (Element::F32, &x), &[0], spread)?;
        assert_eq!(found, (256, false, [1, 3126, 32]));
        Ok(())
    }

    #[test]
    fn neighbouring_lines_are_taken_across() -> Result<(), Refusal> {
        for (element, [count, lines], expected) in [
            // Packs of four: 3 side by side are 4, and 64 of those are a block. 31 elements to a thread: 7 blocks.
            (Element::F32, [2000, 12], (4, true, [16, 286, 7])),
            // 10 packs side by side are 16; packs of 16 bytes have 4 blocks for each of 4 multiprocessors.
            (Element::F32, [100_003, 40], (16, true, [64, 6251, 16])),
            // No packs: twice as many blocks, but no more than 125 elements to a thread allow.
            (Element::F32, [2000, 10], (16, false, [16, 65, 31])),
            (Element::F32, [100_003, 10], (16, false, [16, 3126, 32])),
            // Packs of 8 bytes, whose partial results have 32.
            (Element::U8, [100_003, 128], (16, true, [128, 3126, 32])),
            // 17 lines are 2 tiles of 16.
            (Element::F32, [100_003, 17], (16, false, [16, 6251, 16])),
            // Many lines: 4 blocks for each of 4 multiprocessors, or 8 where there are no packs.
            (Element::F32, [8, 16 * 1024], (256, true, [1024, 8, 1])),
            (Element::F32, [8, 15 * 1024], (128, true, [512, 8, 1])),
            (Element::F32, [8, 32 * 256 - 1], (256, false, [256, 8, 1])),
            (
                Element::F32,
                [2000, 32 * 128 - 1],
                (128, false, [128, 2000, 1]),
            ),
            // Few elements: no deeper than these.
            (Element::F32, [3, 1000], (64, true, [256, 3, 1])),
        ] {
            let x = contiguous(&[count, lines]);
            let found = on_four(&table::SUM, (element, &x), &[0], |x| {
                let spread = x.spread(lines, count);
                assert_eq!(spread.kernel.symbol(), x.kernels.columns.symbol());
                geometry(&spread)
            })?;
            assert_eq!(found, expected, "{lines} lines of {count} {element:?}");
        }
        Ok(())
    }

    #[test]
    fn neighbouring_lines_are_read_at_once_where_all_are_aligned() -> Result<(), Refusal> {
        let lanes = |op, element, x: &Strided, from: usize| {
            on_four(op, (element, x), &[1], |x| {
                x.x = Pointer::NULL.offset(from);
                x.column_lanes()
            })
        };
        let x = contiguous(&[2, 5, 48]);
        for (element, sums, indices) in [
            (Element::F64, 2, 2),
            (Element::F32, 4, 4),
            (Element::BF16, 8, 4),
            (Element::U8, 8, 4),
        ] {
            let found = lanes(&table::SUM, element, &x, 0)?;
            assert_eq!(found, sums, "{element:?}");
            let found = lanes(&table::ARGMIN, element, &x, 0)?;
            assert_eq!(found, indices, "{element:?}");
        }
        let floats = |x: &Strided, from| lanes(&table::SUM, Element::F32, x, from);
        for (from, expected) in [(0, 4), (16, 4), (8, 1), (4, 1), (12, 1)] {
            assert_eq!(floats(&x, from)?, expected, "from {from} on");
        }
        let (x, wide) = (|| contiguous(&[2, 5, 48]), contiguous(&[2, 5, 50]));
        let across = Strided {
            shape: vec![2, 5, 48],
            strides: vec![240, 1, 5],
            offset: 0,
        };
        for (x, expected) in [
            (wide.clone(), 1),          // rows of 50
            (wide.narrow(2, 0, 48), 1), // 50 from one to the next
            (x().narrow(2, 0, 44), 4),  // 48, of which some are not meant
            (x().narrow(2, 4, 44), 4),  // which begin elsewhere
            (x().narrow(2, 3, 44), 1),  // inside a pack
            (x().narrow(2, 0, 46), 1),  // or end inside one
            (x().narrow(2, 0, 1), 1),   // no neighbours
            (across, 1),                // 5 from line to line
        ] {
            assert_eq!(floats(&x, 0)?, expected, "{x:?}");
        }
        Ok(())
    }

    #[test]
    fn what_has_no_result_is_refused() {
        let refused = |op: &Op, shape: &[usize], dims: &[usize]| {
            let (recorder, x) = (Recorder::of(FOUR), contiguous(shape));
            let x = operand(&x, 4);
            let element = Element::F32;
            let done = reduce(&recorder, op, x, element, dims, Pointer::NULL);
            assert_eq!(done.is_err(), recorder.launches.borrow().is_empty());
            done.is_err()
        };
        assert!(!refused(&table::SUM, &[2, 3], &[]));
        assert!(!refused(&table::SUM, &[2, 3], &[0, 1]));
        assert!(refused(&table::SUM, &[2, 0], &[1]));
        for op in [&table::MIN, &table::MAX, &table::ARGMIN, &table::ARGMAX] {
            assert!(!refused(op, &[2, 3], &[1]), "{}", op.name);
            assert!(refused(op, &[2, 3], &[0, 1]), "{}", op.name);
            assert!(refused(op, &[2, 3], &[]), "{}", op.name);
            assert!(refused(op, &[0, 3], &[1]), "{}", op.name);
        }
    }
}
