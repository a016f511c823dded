//! Rows multiplied with the matrices of experts that are chosen for them, given as a list of pairs in the order of their
//! experts.
use super::ids::{Indices, KernelIds};
use super::launch::{Argument, Launch, Pointer, PACK};
use super::launcher::{Launcher, Refusal};
use super::quantized::{Blocks, Rounded, STRIP};
use super::table::{expert_blocks, experts as table, Element};
use super::views::{Contiguous, Operand};

/// A list of pairs of a row and an expert. Pairs are numbered in the order of their rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pairs {
    /// Contiguous: the number of each pair of the list.
    pub(crate) order: Indices,
    /// Contiguous: its expert.
    pub(crate) experts: Indices,
    /// What results are multiplied with, an f32 for each pair in the order of their numbers; null for ones.
    pub(crate) weights: Pointer,
    pub(crate) count: usize,
    /// How many pairs each row has, one after the other.
    pub(crate) shared: usize,
}

/// `candle::Pairs`.
#[repr(C)]
struct KernelPairs {
    order: KernelIds,
    experts: KernelIds,
    weights: Pointer,
    count: u32,
    shared: u32,
}

// SAFETY: the same fields in the same order, with C's layout on both sides.
unsafe impl Argument for KernelPairs {}

impl Pairs {
    /// As kernels take them; there are so many `experts`.
    fn pack(&self, experts: usize) -> KernelPairs {
        KernelPairs {
            order: self.order.over([0, 1, 0], self.count).argument(0),
            experts: self.experts.over([0, 1, 0], experts).argument(0),
            weights: self.weights,
            count: self.count as u32,
            shared: self.shared as u32,
        }
    }

    /// Kernels count in 31 bits, and find a row for each pair.
    fn check(&self, rows: usize, sizes: [usize; 3]) -> Result<(), Refusal> {
        let count = self.count;
        if count != rows * self.shared {
            let shared = self.shared;
            let message = format!("{count} pairs of {rows} rows, each of which has {shared}");
            return Err(Refusal(message));
        }
        if sizes.iter().chain([&count]).any(|&size| size >= 1 << 31) {
            let message = format!("{count} pairs with experts of {sizes:?}, which are too many");
            return Err(Refusal(message));
        }
        Ok(())
    }
}

/// y[p, n] = weight of p * sum over k of x[row of p, k] w[expert of p, n, k], all of one type: bf16, f16 or f32.
///
/// w is (experts, n, k) and x (rows, k), both contiguous. `tiled` asks for a form, or the sizes decide.
pub(crate) fn multiply<L: Launcher>(
    launcher: &L,
    w: Contiguous<'_>,
    x: Contiguous<'_>,
    pairs: Pairs,
    tiled: Option<bool>,
    y: Pointer,
) -> Result<(), L::Error> {
    let (&[experts, n, k], &[rows, columns]) = (w.shape, x.shape) else {
        let message = format!("experts of {:?} with rows of {:?}", w.shape, x.shape);
        return Err(Refusal(message).into());
    };
    if columns != k {
        let message =
            format!("rows of {columns} elements cannot be multiplied with experts of {k}");
        return Err(Refusal(message).into());
    }
    pairs.check(rows, [experts, n, k])?;
    if pairs.count * n == 0 {
        return Ok(());
    }
    let tiled = tiled.unwrap_or(pairs.count >= table::LEAST_PAIRS * experts);
    let op = match tiled {
        true => table::EXPERT_TILES,
        false => table::EXPERT_ROWS,
    };
    let packed = [w.start, x.start].iter().all(|at| at.is_multiple_of(PACK));
    let packed = u32::from(packed && (k * x.element.size()).is_multiple_of(PACK));
    let (packed_pairs, columns, k) = (pairs.pack(experts), n as u32, k as u32);
    let launch = Launch::new(launcher, op.form(0, &[x.element])?);
    if tiled {
        let limits = launcher.limits();
        let across = n.div_ceil(table::TILE).min(limits.blocks);
        let down = pairs.count.div_ceil(table::TILE).min(limits.blocks_y);
        let launch = launch.threads(across, table::BLOCK).blocks_y(down);
        let launch = launch.arg(&y).arg(&w.start).arg(&x.start);
        let launch = launch.arg(&packed_pairs).arg(&columns).arg(&k);
        // SAFETY: the arguments of kernels with tiles; `y` has n numbers for each pair, and kernels leave out pairs and
        // experts that do not exist.
        return unsafe { launch.enqueue() };
    }
    let waves = table::BLOCK / launcher.card().wave_size;
    let launch = launch.strided((pairs.count * n).div_ceil(waves), table::BLOCK);
    let launch = launch.arg(&y).arg(&w.start).arg(&x.start);
    let launch = launch.arg(&packed_pairs).arg(&columns).arg(&k);
    // SAFETY: as above, and whether rows are packs.
    unsafe { launch.arg(&packed).enqueue() }
}

/// As `multiply` with blocks (experts * n, k), rows of any float and view, and results in f32.
///
/// Tiles read an expert's blocks once for all its pairs of a tile.
pub(crate) fn multiply_blocks<L: Launcher>(
    launcher: &L,
    w: Blocks,
    experts: usize,
    (x, element): (Operand<'_>, Element),
    pairs: Pairs,
    tiled: Option<bool>,
    y: Pointer,
) -> Result<(), L::Error> {
    let x = Rounded::of(launcher, x, element, w.checked()?.columns)?;
    let n = w.rows / experts.max(1);
    pairs.check(x.rows, [experts, n, w.columns])?;
    if pairs.count * n == 0 {
        return Ok(());
    }
    let tiled = tiled.unwrap_or(pairs.count >= expert_blocks::LEAST_PAIRS * experts);
    let op = match tiled {
        true => expert_blocks::MULTIPLY_PAIR_TILES,
        false => expert_blocks::MULTIPLY_PAIRS,
    };
    let launch = Launch::new(launcher, op.form(w.format, &[Element::F32])?);
    let waves = expert_blocks::BLOCK / launcher.card().wave_size;
    let launch = if tiled {
        let across = n.div_ceil(waves / expert_blocks::SPLIT * STRIP);
        let down = pairs.count.div_ceil(expert_blocks::TILE);
        launch.strided(across * down, expert_blocks::BLOCK)
    } else {
        launch.strided((pairs.count * n).div_ceil(waves), expert_blocks::BLOCK)
    };
    let (packed, rows, k) = (pairs.pack(experts), n as u32, w.columns as u32);
    let launch = launch.arg(&y).arg(&w.start).arg(&x.q).arg(&x.scales);
    let launch = launch.arg(&packed).arg(&rows).arg(&k);
    // SAFETY: the arguments of both kernels that multiply pairs; `y` has n numbers for each, and kernels leave out pairs
    // and experts that do not exist.
    unsafe { launch.enqueue() }
}

#[cfg(test)]
mod tests {
    use super::super::launcher::Card;
    use super::super::testing::{contiguous, Recorded, Recorder};
    use super::*;

    const EXPERTS: usize = 8;
    const COLUMNS: usize = 256;

    fn recorder(wave_size: usize) -> Recorder {
        Recorder::of(Card {
            wave_size,
            multiprocessors: 104,
        })
    }

    fn pairs(count: usize) -> Pairs {
        let ids = Indices {
            start: Pointer::NULL,
            element: Element::U32,
            none: -1,
            failed: Pointer::NULL,
        };
        Pairs {
            order: ids,
            experts: ids,
            weights: Pointer::NULL,
            count,
            shared: 1,
        }
    }

    /// What multiplies so many pairs with experts of `n` rows of blocks.
    fn of_blocks(wave_size: usize, n: usize, count: usize) -> Option<Recorded> {
        let recorder = recorder(wave_size);
        let blocks = Blocks {
            start: Pointer::NULL,
            format: expert_blocks::FORM_Q4K,
            rows: EXPERTS * n,
            columns: COLUMNS,
        };
        let rows = contiguous(&[count, COLUMNS]);
        let x = Operand {
            base: Pointer::NULL,
            size: 4,
            view: rows.view(),
        };
        let x = (x, Element::F32);
        multiply_blocks(&recorder, blocks, EXPERTS, x, pairs(count), None, x.0.base).unwrap();
        let launches = recorder.launches.take();
        launches
            .into_iter()
            .find(|launch| !launch.symbol.contains("quantize_rows"))
    }

    /// What multiplies so many pairs with experts of `n` rows of floats.
    fn of_floats(wave_size: usize, n: usize, count: usize) -> Option<Recorded> {
        let recorder = recorder(wave_size);
        let of = |shape| Contiguous {
            start: Pointer::NULL,
            element: Element::F16,
            shape,
        };
        let (w, x) = ([EXPERTS, n, COLUMNS], [count, COLUMNS]);
        multiply(&recorder, of(&w), of(&x), pairs(count), None, Pointer::NULL).unwrap();
        recorder.launches.take().pop()
    }

    #[test]
    fn experts_with_many_pairs_each_take_tiles() {
        for (count, kernel) in [
            (1, "multiply_pairs"),
            (16, "multiply_pairs"),
            (64, "multiply_pair_tiles"),
        ] {
            let symbol = of_blocks(64, 40, count).unwrap().symbol;
            assert!(symbol.contains(kernel), "{count} pairs take {symbol}");
        }
        for (count, kernel) in [
            (1, "expert_rows"),
            (32, "expert_rows"),
            (128, "expert_tiles"),
        ] {
            let symbol = of_floats(64, 40, count).unwrap().symbol;
            assert!(symbol.contains(kernel), "{count} pairs take {symbol}");
        }
    }

    #[test]
    fn nothing_is_multiplied_without_pairs_or_rows() {
        for (n, count) in [(0, 8), (8, 0), (0, 0)] {
            assert_eq!(of_blocks(64, n, count), None, "{n} rows, {count} pairs");
            assert_eq!(of_floats(64, n, count), None, "{n} rows, {count} pairs");
        }
    }

    /// Whether each row of each factor is whole packs of 16 bytes, as its kernel is told.
    #[test]
    fn rows_of_whole_packs_are_read_as_such() {
        for (element, k, packed) in [
            (Element::F16, 40, 1),
            (Element::F16, 36, 0),
            (Element::F32, 66, 0),
            (Element::F32, 68, 1),
        ] {
            let recorder = recorder(64);
            let of = |shape| Contiguous {
                start: Pointer::NULL,
                element,
                shape,
            };
            let (w, x) = ([EXPERTS, 5, k], [2, k]);
            multiply(&recorder, of(&w), of(&x), pairs(2), None, Pointer::NULL).unwrap();
            let arguments = recorder.arguments.take().pop().unwrap();
            let told = arguments.last().unwrap().as_slice();
            assert_eq!(told, u32::to_ne_bytes(packed), "{k} of {element:?}");
        }
    }

    #[test]
    fn pairs_that_rows_do_not_have_are_refused() {
        let mut many = pairs(6);
        assert!(many.check(6, [EXPERTS, 5, COLUMNS]).is_ok());
        assert!(many.check(5, [EXPERTS, 5, COLUMNS]).is_err());
        assert!(many.check(6, [EXPERTS, 1 << 31, COLUMNS]).is_err());
        many.shared = 3;
        assert!(many.check(2, [EXPERTS, 5, COLUMNS]).is_ok());
        let recorder = recorder(64);
        let w = [EXPERTS, 5, COLUMNS];
        let of = |shape| Contiguous {
            start: Pointer::NULL,
            element: Element::F16,
            shape,
        };
        let refused = multiply(
            &recorder,
            of(&w),
            of(&[3, COLUMNS]),
            many,
            None,
            Pointer::NULL,
        );
        assert!(refused.is_err() && recorder.launches.take().is_empty());
    }

    /// With blocks of 256 threads.
    #[test]
    fn each_result_of_a_pair_has_a_wave() {
        for (wave_size, n, count, blocks) in [
            (64, 1, 1, 1),
            (64, 5, 1, 2),
            (64, 41, 3, 31),
            (32, 41, 3, 16),
            (32, 8, 1, 1),
        ] {
            let sizes = (wave_size, n, count);
            assert_eq!(
                of_blocks(wave_size, n, count).unwrap().grid,
                [blocks, 1, 1],
                "{sizes:?}"
            );
            assert_eq!(
                of_floats(wave_size, n, count).unwrap().grid,
                [blocks, 1, 1],
                "{sizes:?}"
            );
        }
    }

    /// Tiles have 32 pairs, and four waves for each 16 rows of blocks; of floats, 64 pairs and 64 columns.
    #[test]
    fn each_tile_of_pairs_is_multiplied_once() {
        for (wave_size, n, count, blocks) in [
            (64, 16, 64, 2),
            (64, 17, 65, 6),
            (32, 17, 65, 3),
            (32, 33, 96, 6),
        ] {
            let sizes = (wave_size, n, count);
            assert_eq!(
                of_blocks(wave_size, n, count).unwrap().grid,
                [blocks, 1, 1],
                "{sizes:?}"
            );
        }
        for (n, count, across, down) in [(64, 128, 1, 2), (65, 129, 2, 3)] {
            assert_eq!(
                of_floats(64, n, count).unwrap().grid,
                [across, down, 1],
                "{n}, {count}"
            );
        }
    }
}
