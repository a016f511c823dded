//! Matrices of quantized blocks: read as numbers, and multiplied.
use super::ids::Indices;
use super::launch::{Launch, Pointer};
use super::launcher::{Card, Launcher, Refusal};
use super::table::activations as rounded;
use super::table::quantized as table;
use super::table::{Block, Element, BLOCKS};
use super::views::{Merged, Operand};
use super::Op;

/// Rows of blocks of one format, one row after the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Blocks {
    /// Where the first is.
    pub(crate) start: Pointer,
    /// The number of their format in the kernel table.
    pub(crate) format: usize,
    pub(crate) rows: usize,
    /// Elements of a row, which are whole blocks.
    pub(crate) columns: usize,
}

impl Blocks {
    /// A refusal if rows are not whole blocks.
    pub(super) fn checked(self) -> Result<Self, Refusal> {
        let Block { name, elements, .. } = BLOCKS[self.format];
        if !self.columns.is_multiple_of(elements) {
            let columns = self.columns;
            let message = format!("rows of {columns} elements are no whole blocks of {name}");
            return Err(Refusal(message));
        }
        Ok(self)
    }
}

/// y[i, k] = element k of row i, in the type of `element`.
pub(crate) fn dequantize<L: Launcher>(
    launcher: &L,
    blocks: Blocks,
    element: Element,
    y: Pointer,
) -> Result<(), L::Error> {
    let blocks = blocks.checked()?;
    let kernel = table::DEQUANTIZE.form(blocks.format, &[element])?;
    let count = (blocks.rows * blocks.columns) as u64;
    if count == 0 {
        return Ok(());
    }
    let threads = blocks.rows * blocks.columns / table::QUAD;
    let launch =
        Launch::new(launcher, kernel).strided(threads.div_ceil(table::BLOCK), table::BLOCK);
    let launch = launch.arg(&y).arg(&blocks.start).arg(&count);
    // SAFETY: the arguments of kernels that dequantize; `y` has an element for each of the blocks'.
    unsafe { launch.enqueue() }
}

/// y[i, k] = element k of row ids[i], as f32, for `n` indices that lie `step` apart.
pub(crate) fn dequantize_rows<L: Launcher>(
    launcher: &L,
    blocks: Blocks,
    ids: Indices,
    [n, step]: [usize; 2],
    y: Pointer,
) -> Result<(), L::Error> {
    let blocks = blocks.checked()?;
    let kernel = table::DEQUANTIZE_ROWS.form(blocks.format, &[Element::F32])?;
    let quads = n * (blocks.columns / table::QUAD);
    if quads == 0 {
        return Ok(());
    }
    let ids = ids.over([0, step, 0], blocks.rows).argument(0);
    let (step, n, columns) = (step as i64, n as u64, blocks.columns as u64);
    let launch = Launch::new(launcher, kernel).strided(quads.div_ceil(table::BLOCK), table::BLOCK);
    let launch = launch.arg(&y).arg(&blocks.start).arg(&ids).arg(&step);
    let launch = launch.arg(&n).arg(&columns);
    // SAFETY: the arguments of kernels that pick rows; `y` has a row for each index, and indices that are no row's are
    // left out.
    unsafe { launch.enqueue() }
}

/// y[m, n] = sum over k of x[m, k] blocks[n, k], in the type of x, whose last dimension is the blocks' columns.
pub(crate) fn multiply<L: Launcher>(
    launcher: &L,
    blocks: Blocks,
    x: Operand<'_>,
    element: Element,
    y: Pointer,
) -> Result<(), L::Error> {
    let x = Rounded::of(launcher, x, element, blocks.checked()?.columns)?;
    if blocks.rows == 0 {
        return Ok(());
    }
    // Without tiles, a row's result does not depend on how many rows there are.
    let most = if x.rows > TILED { x.rows } else { MOST };
    let parts = blocks.columns / rounded::PART;
    for first in (0..x.rows).step_by(most) {
        let rows = (x.rows - first).min(most);
        let at_once = table::AT_ONCE.on(launcher.tuning());
        let at_once = BLOCKS[blocks.format].at_once.min(at_once);
        let product = Product::of(rows, at_once, blocks.rows, parts, launcher.card());
        let kernel = product.op.form(blocks.format, &[Element::F32])?;
        let y = y.offset(first * blocks.rows * element.size());
        let q = x.q.offset(first * parts * rounded::PART);
        let scales = x.scales.offset(first * parts * SCALES);
        let kind = result_type(element);
        let [n, k, rows] = [blocks.rows, blocks.columns, rows].map(|size| size as u32);
        let launch = Launch::new(launcher, kernel).strided(product.tasks, table::BLOCK);
        let launch = launch.arg(&y).arg(&kind).arg(&blocks.start).arg(&q);
        let launch = launch.arg(&scales).arg(&n).arg(&k).arg(&rows);
        let split = product.split.map(|split| split as u32);
        let launch = match &split {
            Some(split) => launch.arg(split),
            None => launch,
        };
        // SAFETY: the arguments of kernels that multiply; `y` has a number for each pair of rows.
        unsafe { launch.enqueue()? };
    }
    Ok(())
}

/// Which blocks of several matrices rows are multiplied with.
pub(crate) struct Chosen {
    /// Contiguous: one for each pair of a row and an expert.
    pub(crate) ids: Indices,
    /// How many matrices the blocks are, one after the other.
    pub(crate) experts: usize,
    /// A multiple of the rows: each has so many pairs in turn.
    pub(crate) pairs: usize,
}

/// y[p, n] = sum over k of x[row of p, k] blocks[ids[p], n, k], in the type of x, whose last dimension is the blocks'
/// columns.
pub(crate) fn multiply_experts<L: Launcher>(
    launcher: &L,
    blocks: Blocks,
    x: Operand<'_>,
    element: Element,
    chosen: Chosen,
    y: Pointer,
) -> Result<(), L::Error> {
    let Chosen {
        ids,
        experts,
        pairs,
    } = chosen;
    let x = Rounded::of(launcher, x, element, blocks.checked()?.columns)?;
    let kernel = table::MULTIPLY_EXPERTS.form(blocks.format, &[Element::F32])?;
    let rows = blocks.rows / experts.max(1);
    if pairs * rows * x.rows == 0 {
        return Ok(());
    }
    let ids = ids.over([0, 1, 0], experts).argument(0);
    let kind = result_type(element);
    let shared = pairs / x.rows;
    let [n, k, pairs, shared] = [rows, blocks.columns, pairs, shared].map(|size| size as u32);
    let waves = table::BLOCK / launcher.card().wave_size;
    let results = rows * pairs as usize;
    let launch = Launch::new(launcher, kernel).strided(results.div_ceil(waves), table::BLOCK);
    let launch = launch.arg(&y).arg(&kind).arg(&blocks.start).arg(&x.q);
    let launch = launch.arg(&x.scales).arg(&ids).arg(&n).arg(&k);
    let launch = launch.arg(&pairs).arg(&shared);
    // SAFETY: the arguments of kernels that multiply with experts; `y` has `rows` numbers for each pair, and pairs whose
    // index is no expert's read no blocks.
    unsafe { launch.enqueue() }
}

/// Bytes of a part's scale and sums: `candle::Part`.
const SCALES: usize = 8;

/// A kernel that multiplies, and its tasks for blocks.
struct Product {
    op: Op,
    tasks: usize,
    /// How many waves share rows of blocks, for kernels without tiles.
    split: Option<usize>,
}

impl Product {
    /// For `rows` of so many parts with `n` rows of blocks, of which a wave multiplies so many `at_once` with one row.
    fn of(rows: usize, at_once: usize, n: usize, parts: usize, card: Card) -> Self {
        let waves = table::BLOCK / card.wave_size;
        let split = split(n / at_once, parts, card);
        let of_waves = |op: Op, each: usize| Self {
            op,
            tasks: n.div_ceil(waves / split * each),
            split: Some(split),
        };
        let of_tiles = |op: Op, down: usize, strips: usize| Self {
            op,
            tasks: rows.div_ceil(down) * n.div_ceil(strips * STRIP),
            split: None,
        };
        let few = of_tiles(table::MULTIPLY_TILE_FEW, table::FEW, waves / table::SPLIT);
        let many = of_tiles(table::MULTIPLY_TILE_MANY, table::MANY, waves);
        match rows {
            1 => of_waves(table::MULTIPLY_1, at_once),
            2 => of_waves(table::MULTIPLY_2, table::ROWS),
            3..=4 => of_waves(table::MULTIPLY_4, table::ROWS),
            5..=MOST => of_waves(table::MULTIPLY_8, table::ROWS),
            _ if rows <= MANY || many.tasks * IDLE < card.multiprocessors => few,
            _ => many,
        }
    }
}

/// How many waves share rows of blocks so that so many `waves` keep the card busy, each lane with a part at least. The
/// number of rows that are multiplied with them has no part in it, so that sums are the same for any number.
fn split(waves: usize, parts: usize, card: Card) -> usize {
    let enough = ENOUGH_WAVES * card.multiprocessors;
    let mut split = 1;
    while split * card.wave_size < table::BLOCK
        && waves * split < enough
        && parts >= 2 * split * card.wave_size
    {
        split *= 2;
    }
    split
}

/// So many waves to a multiprocessor read at full speed.
const ENOUGH_WAVES: usize = 16;

/// Rows of blocks that a wave multiplies with a tile.
pub(super) const STRIP: usize = 16;

/// The most rows that waves multiply with what they read once of the blocks.
const MOST: usize = 8;

/// More rows than these take tiles.
const TILED: usize = 2 * MOST;

/// Larger tiles, which multiply about so many times as fast where there are enough of them, are not taken if they leave so
/// large a part of the multiprocessors without one.
const IDLE: usize = 3;

/// More rows than these take the larger tile.
const MANY: usize = 2 * table::FEW;

/// `candle::ResultType`.
fn result_type(element: Element) -> u32 {
    match element {
        Element::BF16 => 0,
        Element::F16 => 1,
        _ => 2,
    }
}

/// Rows of numbers as 8 bits each.
pub(super) struct Rounded<L: Launcher> {
    pub(super) q: Pointer,
    pub(super) scales: Pointer,
    pub(super) rows: usize,
    _workspace: L::Workspace,
}

impl<L: Launcher> Rounded<L> {
    /// All rows of a view, which are whole parts of `columns` elements together; a refusal for other rows.
    pub(super) fn of(
        launcher: &L,
        x: Operand<'_>,
        element: Element,
        columns: usize,
    ) -> Result<Self, L::Error> {
        let (last, outer) = x.view.shape.split_last().unwrap_or((&0, &[]));
        if *last != columns {
            let message =
                format!("rows of {last} elements cannot be multiplied with rows of {columns}");
            return Err(Refusal(message).into());
        }
        let rows = outer.iter().product();
        let parts = rows * columns / rounded::PART;
        let (workspace, q) = launcher.workspace(parts * (rounded::PART + SCALES))?;
        let made = Self {
            q,
            scales: q.offset(parts * rounded::PART),
            rows,
            _workspace: workspace,
        };
        made.fill(launcher, x, element)?;
        Ok(made)
    }

    fn fill(&self, launcher: &L, x: Operand<'_>, element: Element) -> Result<(), L::Error> {
        let kernel = rounded::QUANTIZE_ROWS.form(0, &[element])?;
        let limit = launcher.limits().elements.next_multiple_of(rounded::PART);
        Merged::of([x.view])?.launches(limit, &mut |first, piece| {
            let q = self.q.offset(first);
            let scales = self.scales.offset(first / rounded::PART * SCALES);
            let x = x.base.offset(piece.offsets[0] * x.size);
            let layout = piece.pack();
            let blocks = piece.count().div_ceil(rounded::BLOCK);
            let launch = Launch::new(launcher, kernel).strided(blocks, rounded::BLOCK);
            let launch = launch.arg(&q).arg(&scales).arg(&x).arg(&layout);
            // SAFETY: the arguments of kernels that round rows; `q` has a byte for each element, `scales` an entry for
            // each part.
            unsafe { launch.enqueue() }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{contiguous, Recorded, Recorder};
    use super::*;

    fn recorder(wave_size: usize) -> Recorder {
        Recorder::of(Card {
            wave_size,
            multiprocessors: 105,
        })
    }

    fn blocks(rows: usize, columns: usize) -> Blocks {
        Blocks {
            start: Pointer::NULL,
            format: table::FORM_Q4K,
            rows,
            columns,
        }
    }

    fn indices() -> Indices {
        Indices {
            start: Pointer::NULL,
            element: Element::U32,
            none: -1,
            failed: Pointer::NULL,
        }
    }

    fn of_rows<T>(rows: usize, columns: usize, then: impl FnOnce(Operand<'_>) -> T) -> T {
        let rows = contiguous(&[rows, columns]);
        then(Operand {
            base: Pointer::NULL,
            size: 4,
            view: rows.view(),
        })
    }

    /// Launches that multiply so many rows with `n` rows of blocks of k elements.
    fn multiplied(wave_size: usize, [n, k]: [usize; 2], rows: usize) -> Vec<Recorded> {
        let (recorder, y) = (recorder(wave_size), Pointer::NULL);
        of_rows(rows, k, |x| {
            multiply(&recorder, blocks(n, k), x, Element::F32, y)
        })
        .unwrap();
        let mut launches = recorder.launches.take();
        launches.retain(|launch| launch.symbol.contains("multiply"));
        launches
    }

    /// With blocks of 256 threads, one row of blocks for each wave and one row, two for each with more.
    #[test]
    fn more_waves_share_rows_where_there_are_few() {
        for (wave_size, sizes, one, four) in [
            (64, [14336, 4096], 3584, 1792),
            (64, [4096, 4096], 1024, 512),
            (64, [4096, 32768], 1024, 512),
            (64, [1024, 32768], 512, 256),
            (64, [256, 4096], 128, 64),
            (64, [256, 8192], 256, 128),
            (64, [255, 8192], 255, 128),
            (32, [256, 8192], 256, 128),
            (32, [256, 1024], 32, 16),
            (64, [1, 65536], 1, 1),
            (32, [1, 256], 1, 1),
        ] {
            for (rows, expected) in [(1, one), (2, four), (4, four), (8, four)] {
                let launches = multiplied(wave_size, sizes, rows);
                let grids: Vec<_> = launches.iter().map(|launch| launch.grid).collect();
                assert_eq!(grids, [[expected, 1, 1]], "{sizes:?}, {rows} rows");
            }
        }
    }

    /// With 8 waves to a block: two rows of blocks for each, or for two of them.
    #[test]
    fn waves_may_multiply_two_rows_of_blocks_with_one_row() {
        let card = Card {
            wave_size: 32,
            multiprocessors: 132,
        };
        for (at_once, n, tasks, split) in [
            (1, 28672, 3584, 1),
            (2, 28672, 1792, 1),
            (1, 4096, 512, 1),
            (2, 4096, 512, 2),
            (1, 1024, 512, 4),
            (2, 1024, 256, 4),
        ] {
            let product = Product::of(1, at_once, n, 128, card);
            let found = (product.tasks, product.split);
            assert_eq!(found, (tasks, Some(split)), "{at_once} of {n} rows");
        }
    }

    #[test]
    fn up_to_sixteen_rows_are_multiplied_eight_at_a_time() {
        let symbols = |rows| {
            let launches = multiplied(64, [512, 256], rows);
            let ops = launches
                .iter()
                .map(|launch| launch.symbol.rsplit("multiply_").next());
            ops.map(|op| op.and_then(|op| op.split('_').next()).unwrap().to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(symbols(1), ["1"]);
        assert_eq!(symbols(2), ["2"]);
        assert_eq!(symbols(3), ["4"]);
        assert_eq!(symbols(8), ["8"]);
        assert_eq!(symbols(9), ["8", "1"]);
        assert_eq!(symbols(16), ["8", "8"]);
        assert_eq!(symbols(17), ["tile"]);
    }

    /// Tiles have 32 rows and 16 rows of blocks for four waves, or 128 rows and 16 rows of blocks for each wave.
    #[test]
    fn larger_tiles_are_taken_if_they_keep_the_card_busy() {
        for (wave_size, n, rows, tile, count) in [
            (64, 4096, 17, "few", 256),
            (32, 4096, 33, "few", 256),
            (32, 4097, 33, "few", 258),
            (64, 14336, 64, "few", 1792),
            (64, 14336, 65, "many", 224),
            (64, 4096, 300, "many", 192),
            (32, 4096, 300, "many", 96),
            (64, 1024, 128, "few", 256),
            (64, 2240, 128, "many", 35),
            (64, 2176, 128, "few", 544),
        ] {
            let launches = multiplied(wave_size, [n, 256], rows);
            let [launch] = launches.as_slice() else {
                panic!("{} launches", launches.len());
            };
            let what = format!("{n} rows of blocks, {rows} rows");
            assert!(launch.symbol.contains(tile), "{what}: {}", launch.symbol);
            assert_eq!(launch.grid, [count, 1, 1], "{what}");
        }
    }

    #[test]
    fn nothing_is_multiplied_without_rows() {
        assert_eq!(multiplied(64, [0, 256], 3), []);
        assert_eq!(multiplied(64, [3, 256], 0), []);
    }

    /// An 8-bit number for each element, and 8 bytes for each 32 of them.
    #[test]
    fn rounded_rows_take_ten_bits_an_element() {
        let recorder = recorder(64);
        let made = of_rows(3, 4096, |x| Rounded::of(&recorder, x, Element::F32, 4096)).unwrap();
        assert_eq!(
            (made.rows, recorder.workspaces.take()),
            (3, vec![3 * 4096 * 10 / 8])
        );
        assert_eq!(made.scales, made.q.offset(3 * 4096));
    }

    /// Where each launch puts what it rounds, and its scales, where a launch takes 64 elements.
    #[test]
    fn rounding_goes_on_where_the_launch_before_ended() {
        let mut recorder = recorder(64);
        recorder.limits.elements = 64;
        let rows = contiguous(&[3, 64]);
        let x = Operand {
            base: Pointer::NULL,
            size: 2,
            view: rows.view(),
        };
        let made = Rounded::of(&recorder, x, Element::F16, 64).unwrap();
        let arguments = recorder.arguments.take();
        let address = |bytes: &[u8]| usize::from_ne_bytes(bytes.try_into().unwrap());
        let found: Vec<[usize; 3]> = arguments
            .iter()
            .map(|each| [0, 1, 2].map(|i| address(&each[i])))
            .collect();
        let [q, scales] = [made.q, made.scales].map(|at| at.0 as usize);
        let of = |row: usize| [q + row * 64, scales + row * 16, row * 128];
        assert_eq!(found, [of(0), of(1), of(2)]);
    }

    /// Four elements to a thread, 256 threads to a block.
    #[test]
    fn each_four_elements_that_are_read_have_a_thread() {
        let recorder = recorder(64);
        for rows in [1, 4, 5] {
            dequantize(&recorder, blocks(rows, 256), Element::F16, Pointer::NULL).unwrap();
            let picked = [rows, 1];
            dequantize_rows(&recorder, blocks(9, 512), indices(), picked, Pointer::NULL).unwrap();
        }
        let grids = recorder
            .launches
            .take()
            .into_iter()
            .map(|launch| launch.grid[0]);
        assert_eq!(grids.collect::<Vec<_>>(), [1, 1, 1, 2, 2, 3]);
    }

    /// The blocks of each launch that multiplies rows of x with `pairs` of three matrices of so many `rows`.
    fn by_chosen(wave_size: usize, of_x: usize, rows: usize, pairs: usize) -> Vec<u32> {
        let (recorder, ids) = (recorder(wave_size), indices());
        of_rows(of_x, 256, |x| {
            let experts = 3;
            let chosen = Chosen {
                ids,
                experts,
                pairs,
            };
            let w = blocks(experts * rows, 256);
            multiply_experts(&recorder, w, x, Element::F32, chosen, Pointer::NULL)
        })
        .unwrap();
        let launches = recorder.launches.take().into_iter();
        let products = launches.filter(|launch| launch.symbol.contains("multiply"));
        products.map(|launch| launch.grid[0]).collect()
    }

    #[test]
    fn each_row_of_a_chosen_matrix_has_a_wave() {
        for (wave_size, rows, pairs, expected) in
            [(64, 1, 1, 1), (64, 5, 1, 2), (64, 5, 6, 8), (32, 5, 6, 4)]
        {
            let found = by_chosen(wave_size, 1, rows, pairs);
            assert_eq!(found, [expected], "{rows} rows, {pairs} pairs");
        }
        for (of_x, rows, pairs) in [(1, 0, 2), (1, 5, 0), (0, 5, 0)] {
            let found = by_chosen(64, of_x, rows, pairs);
            assert!(found.is_empty(), "{of_x} rows, {rows} rows, {pairs} pairs");
        }
    }
}
