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
