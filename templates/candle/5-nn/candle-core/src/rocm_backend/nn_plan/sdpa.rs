//! Scaled dot product attention in one pass over keys and values.
//!
//! Many queries are cut into tiles, and a block walks over the keys for each. Of few queries, the keys are dealt to
//! several blocks, whose results a second launch puts together.
use super::flash::{Flash, KernelFlash};
use crate::rocm_backend::plan::table::{sdpa as table, Element};
use crate::rocm_backend::plan::{
    Argument, Card, Divisor, Kernel, Launch, Launcher, Op, Operand, Pointer, Refusal, Tuned, Tuning,
};

/// Kernels for rows of up to so many columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Width {
    columns: usize,
    form: usize,
    /// Queries that a block of a split has.
    rows: usize,
}

const WIDTHS: [Width; 3] = [
    Width {
        columns: table::FORM_64_COLUMNS,
        form: table::FORM_64,
        rows: table::FORM_64_ROWS,
    },
    Width {
        columns: table::FORM_128_COLUMNS,
        form: table::FORM_128,
        rows: table::FORM_128_ROWS,
    },
    Width {
        columns: table::FORM_256_COLUMNS,
        form: table::FORM_256,
        rows: table::FORM_256_ROWS,
    },
];

impl Width {
    /// The narrowest that holds a row; `None` if the widest does not.
    fn of(columns: usize) -> Option<Self> {
        WIDTHS.into_iter().find(|width| columns <= width.columns)
    }

    /// Without matrix units. LDS has sums and a total of every team.
    fn split(&self, tuning: Tuning) -> Dealing {
        let lds = table::BLOCK / table::TEAM * (self.columns + 2) * Element::F32.size();
        let block = Block {
            threads: table::BLOCK,
            height: self.rows,
            lds,
        };
        Dealing {
            block,
            blocks_per_processor: table::BLOCKS_PER_PROCESSOR.on(tuning),
            least_keys: table::LEAST_KEYS,
        }
    }

    /// The same for a single query.
    fn split_of_one(&self, tuning: Tuning) -> Dealing {
        let mut dealing = self.split(tuning);
        dealing.block.height = 1;
        dealing.blocks_per_processor = table::SINGLE_PER_PROCESSOR;
        dealing
    }
}

/// How products of queries and keys become scores.
#[derive(Clone, Copy, Debug)]
pub struct Scores {
    /// What products are multiplied with.
    pub scale: f32,
    /// Scores s become cap * tanh(s / cap); 1 for none, as Candle has it; 0 in flash attention, as candle-flash-attn.
    pub softcapping: f32,
    /// Whether query i of m sees only the first n - m + i + 1 of n keys. A mask overrides it.
    pub causal: bool,
}

/// What attends to what: q (batch, heads, queries, depth), k (batch, key heads, keys, depth), v (batch, key heads, keys,
/// columns), and the mask (batch, heads, queries, keys).
///
/// Heads are a multiple of key heads. The mask may be any view, the others any whose last dimension is contiguous.
/// Flash attention has neither a mask nor causality but windows; with sequences, its q is (1, heads, all queries, depth),
/// and k and v are (1, key heads, all keys, ...) or (pages, key heads, keys of a page, ...).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attention<'a> {
    pub(crate) q: Operand<'a>,
    pub(crate) k: Operand<'a>,
    pub(crate) v: Operand<'a>,
    pub(crate) mask: Option<Operand<'a>>,
    pub(crate) element: Element,
    pub(crate) scores: Scores,
    pub(crate) flash: Option<Flash>,
}

impl Attention<'_> {
    /// The shape of the result: q's with v's last dimension. A refusal of what the kernels cannot do.
    pub(crate) fn results(&self) -> Result<[usize; 4], Refusal> {
        let has_gaps = |operand: &Operand<'_>| {
            let view = &operand.view;
            view.shape.last() > Some(&1) && view.strides.last() != Some(&1)
        };
        if [self.q, self.k, self.v].iter().any(has_gaps) {
            return Err(refused(
                "the last dimension of queries, keys and values has to be contiguous",
            ));
        }
        let sizes = Sizes::of(self)?;
        let (q, k) = (self.q.view.shape, self.k.view.shape);
        let pages = self.flash.map_or(0, |flash| flash.pages());
        sizes.check(&[k[0], pages, q[2], k[2]])?;
        Ok([q[0], q[1], q[2], sizes.columns])
    }

    /// Keys that some query of an entry sees, at most.
    fn seen(&self, sizes: &Sizes) -> usize {
        let reach = self.flash.and_then(|flash| flash.reach(sizes.queries));
        reach.map_or(sizes.keys, |reach| reach.min(sizes.keys))
    }

    /// Of q, k, v and the mask.
    fn addresses(&self) -> [Pointer; 4] {
        let mask = self.mask.map_or(Pointer::NULL, |mask| mask.start());
        [self.q.start(), self.k.start(), self.v.start(), mask]
    }

    /// Whether rows of q, k and v consist of packs of so many elements, and each of those is aligned.
    fn is_packed(&self, pack: usize) -> bool {
        [self.q, self.k, self.v].iter().all(|operand| {
            let view = &operand.view;
            let mut steps = view.strides[..3].iter().chain(&view.shape[3..]);
            steps.all(|step| step % pack == 0)
                && operand.start().is_multiple_of(pack * self.element.size())
        })
    }

    fn pack(&self, sizes: &Sizes) -> KernelAttention {
        let strides = |operand: Operand<'_>| {
            let strides = operand.view.strides;
            [strides[0] as i64, strides[1] as i64, strides[2] as i64]
        };
        let none = if self.flash.is_some() { 0. } else { 1. };
        KernelAttention {
            strides: [self.q, self.k, self.v].map(strides),
            heads: Divisor::of(sizes.heads),
            group: Divisor::of(sizes.group()),
            rows: Divisor::of(sizes.queries),
            depth: sizes.depth as u32,
            columns: sizes.columns as u32,
            scale: self.scores.scale,
            cap: if self.scores.softcapping == none {
                0.
            } else {
                self.scores.softcapping
            },
            packed: self.is_packed(table::QUAD).into(),
        }
    }

    fn pack_masked(&self, sizes: &Sizes) -> Masked {
        let strides = self.mask.map_or(&[0; 4][..], |mask| mask.view.strides);
        let steps = [0, 1, 2, 3].map(|d| strides[d] as i64);
        Masked {
            attention: self.pack(sizes),
            mask: steps,
            keys: sizes.keys as u32,
            causal: (self.scores.causal && self.mask.is_none()).into(),
        }
    }
}

fn refused(what: &str) -> Refusal {
    Refusal(format!("sdpa: {what}"))
}

/// How many there are; heads, queries and keys are those of a batch entry or head.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    batch: usize,
    pub(super) heads: usize,
    key_heads: usize,
    pub(super) queries: usize,
    pub(super) keys: usize,
    /// Elements of a query or key.
    depth: usize,
    /// Elements of a value.
    pub(super) columns: usize,
}

impl Sizes {
    fn of(attention: &Attention<'_>) -> Result<Self, Refusal> {
        let shapes = (
            attention.q.view.shape,
            attention.k.view.shape,
            attention.v.view.shape,
        );
        let (&[batch, heads, queries, depth], &[pages, key_heads, keys, _], &[.., columns]) =
            shapes
        else {
            return Err(refused("tensors have four dimensions"));
        };
        let sequences = attention.flash.and_then(|flash| flash.sequences);
        let [batch, queries, keys] = match sequences {
            None => [batch, queries, keys],
            Some(sequences) => sequences.sizes(queries, pages, keys),
        };
        Ok(Self {
            batch,
            heads,
            key_heads,
            queries,
            keys,
            depth,
            columns,
        })
    }

    /// Kernels count in 32 bits, these and what else there is.
    fn check(&self, others: &[usize]) -> Result<(), Refusal> {
        let heads = self.batch * self.heads;
        let rows = heads * self.queries.max(1);
        let parts = self.columns.div_ceil(WIDTHS[0].columns);
        let largest = [self.keys, self.depth, self.columns, rows, rows * parts];
        if largest.iter().chain(others).any(|&size| size >= 1 << 31) {
            return Err(refused(&format!(
                "{self:?} are too many for the kernels, which count in 31 bits"
            )));
        }
        Ok(())
    }

    /// Heads of queries that share a head of keys.
    fn group(&self) -> usize {
        self.heads / self.key_heads
    }

    /// Queries of all heads.
    fn rows(&self) -> usize {
        self.batch * self.heads * self.queries
    }

    /// Blocks that have so many queries of a head each.
    fn tiles(&self, height: usize) -> usize {
        self.batch * self.heads * self.queries.div_ceil(height)
    }

    /// Blocks that have so many queries of all heads each that share a head of keys.
    fn row_groups(&self, height: usize) -> usize {
        self.batch * self.key_heads * (self.queries * self.group()).div_ceil(height)
    }
}

/// The threads of a block, the queries that it has, and its bytes of LDS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Block {
    threads: usize,
    height: usize,
    lds: usize,
}

/// How a head's keys are dealt to blocks, each of which has at least so many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Dealing {
    block: Block,
    blocks_per_processor: usize,
    least_keys: usize,
}

impl Dealing {
    /// Into how many parts the keys that are seen are cut, so that blocks for so many groups of rows fill the card: one if
    /// that spares no block enough keys for a second launch.
    fn parts(&self, card: Card, seen: usize, groups: usize) -> usize {
        let groups = groups.max(1);
        let most = (seen / self.least_keys).max(1);
        let blocks = card.multiprocessors * self.blocks_per_processor;
        let (few, more) = ((blocks / groups).max(1), blocks.div_ceil(groups));
        // Of a head's keys, how many the busiest processor walks over, in so many parts.
        let busiest = |parts: usize| seen * (groups * parts).div_ceil(card.multiprocessors) / parts;
        let is_long = seen / more >= table::LONG_PART * self.least_keys;
        let parts = if is_long && busiest(more) < busiest(few) {
            more
        } else {
            few
        };
        let parts = parts.min(most);
        if seen - seen / parts < table::SPARED_KEYS * self.least_keys {
            return 1;
        }
        parts
    }
}

/// Tiles of queries on matrix units, for rows of up to so many columns, and their forms.
const TILES_ON_UNITS: [(usize, usize); 5] = [
    (table::FORM_64_COLUMNS, table::FORM_64),
    (table::FORM_96_COLUMNS, table::FORM_96),
    (table::FORM_128_COLUMNS, table::FORM_128),
    (table::FORM_192_COLUMNS, table::FORM_192),
    (table::FORM_256_COLUMNS, table::FORM_256),
];

/// Rows of 16 bits, of up to so many columns, on matrix units.
#[derive(Clone, Copy, Debug)]
struct OnUnits {
    columns: usize,
    card: Card,
    tuning: Tuning,
}

impl OnUnits {
    fn is_wide(&self) -> bool {
        self.columns > table::WIDE
    }

    /// A number for rows as they mostly are, or for wide ones.
    fn either(&self, usual: Tuned, wide: Tuned) -> usize {
        (if self.is_wide() { wide } else { usual }).on(self.tuning)
    }

    /// Of values, that a block of a tile has.
    fn columns_of_tile(&self) -> usize {
        match self.is_wide() {
            true => self.columns * table::WIDE_COLUMNS.on(self.tuning) / table::FORM_256_COLUMNS,
            false => self.columns,
        }
    }

    /// Bytes of LDS from one query or key to the next.
    fn pitch(&self) -> usize {
        (self.columns + table::MATRIX_GAP) * Element::F16.size()
    }

    /// Bytes of LDS for the keys of a step, and of the next one if that begins to arrive there before.
    fn keys(&self, step: usize) -> usize {
        table::MATRIX_ROOMS.on(self.tuning) * step * self.pitch()
    }

    /// Bytes of LDS for so many columns of a step's values.
    fn values(&self, step: usize, columns: usize) -> usize {
        let gap = table::MATRIX_GAP;
        let elements = match table::MATRIX_TURNS.on(self.tuning) {
            0 => step * (columns + gap),
            _ => columns * (step + gap),
        };
        elements * Element::F16.size()
    }

    /// Of a tile of queries, which a block's waves share.
    fn tile(&self) -> Block {
        let threads = self.either(table::MATRIX_BLOCK, table::WIDE_BLOCK);
        let height = threads / self.card.wave_size * table::MATRIX_TILE;
        let step = self.either(table::MATRIX_STEP, table::WIDE_STEP);
        let queries = height * self.pitch();
        let step = self.keys(step) + self.values(step, self.columns_of_tile());
        // Queries that are held in registers leave LDS before the first keys come.
        let lds = match self.either(table::MATRIX_HELD, table::WIDE_HELD) {
            0 => queries + step,
            _ => queries.max(step),
        };
        Block {
            threads,
            height,
            lds,
        }
    }

    /// Of queries whose keys the block's waves share.
    fn split(&self) -> Dealing {
        let (step, least_keys) = match self.is_wide() {
            true => (table::WIDE_SPLIT_STEP, table::WIDE_LEAST_KEYS),
            false => (
                table::MATRIX_SPLIT_STEP.on(self.tuning),
                table::MATRIX_LEAST_KEYS,
            ),
        };
        let (height, rooms) = (table::MATRIX_TILE, table::MATRIX_ROOMS.on(self.tuning));
        let values = self.values(step, self.columns);
        let block = Block {
            threads: table::MATRIX_SPLIT_BLOCK.on(self.tuning),
            height,
            lds: height * self.pitch() + self.keys(step) + rooms * values,
        };
        Dealing {
            block,
            blocks_per_processor: table::MATRIX_BLOCKS_PER_PROCESSOR.on(self.tuning),
            least_keys,
        }
    }

    /// Whether keys are dealt to blocks: there are few queries, or tiles of them would leave half of the processors without
    /// any.
    fn splits(&self, sizes: &Sizes) -> bool {
        let tiles =
            sizes.tiles(self.tile().height) * sizes.columns.div_ceil(self.columns_of_tile());
        sizes.queries <= table::MATRIX_TILE || 2 * tiles <= self.card.multiprocessors
    }
}

/// `candle::Attention`.
#[repr(C)]
pub(super) struct KernelAttention {
    /// From one batch entry, head and row to the next: of q, k and v.
    strides: [[i64; 3]; 3],
    heads: Divisor,
    group: Divisor,
    rows: Divisor,
    depth: u32,
    columns: u32,
    scale: f32,
    cap: f32,
    packed: u32,
}

impl KernelAttention {
    /// Of entries that lie one behind another, with no step from one to the next; pages of keys and values have one.
    pub(super) fn without_steps(mut self, paged: bool) -> Self {
        let [q, k, v] = &mut self.strides;
        q[0] = 0;
        if !paged {
            (k[0], v[0]) = (0, 0);
        }
        self
    }
}

/// `candle::Masked`.
#[repr(C)]
struct Masked {
    attention: KernelAttention,
    mask: [i64; 4],
    keys: u32,
    causal: u32,
}

// SAFETY: the same fields in the same order, with C's layout on both sides.
unsafe impl Argument for Masked {}

/// What kernels are told about the operands, and which kernels those are.
enum Packed {
    Masked(Masked),
    Flash(KernelFlash),
}

impl Packed {
    /// The one for masks, or that of flash attention.
    fn either(&self, masked: &'static Op, flash: &'static Op) -> &'static Op {
        match self {
            Self::Masked(_) => masked,
            Self::Flash(_) => flash,
        }
    }

    fn given_to<'a, L: Launcher>(&'a self, launch: Launch<'a, L>) -> Launch<'a, L> {
        match self {
            Self::Masked(masked) => launch.arg(masked),
            Self::Flash(flash) => launch.arg(flash),
        }
    }
}

/// `candle::Tiles`.
#[repr(C)]
struct Tiles {
    along: Divisor,
    parts: Divisor,
    first: u32,
}

// SAFETY: as above.
unsafe impl Argument for Tiles {}

/// `candle::Split`.
#[repr(C)]
struct Split {
    parts: Divisor,
    row_groups: Divisor,
    key_heads: Divisor,
    keys: u32,
    first: u32,
}

// SAFETY: as above.
unsafe impl Argument for Split {}

/// Writes softmax(scores(q k^T) + mask) v to `y`: as many elements as `results` says, contiguously but for flash
/// attention, which has steps of its own.
///
/// The tensors fit together and are of one type. A head's keys are cut into at most so many `parts`, 0 for tiles of
/// queries, which what is not packed or too wide takes anyway; the sizes decide if it is not given.
pub(crate) fn sdpa<L: Launcher>(
    launcher: &L,
    attention: &Attention<'_>,
    parts: Option<usize>,
    y: Pointer,
) -> Result<(), L::Error> {
    attention.results()?;
    let sizes = Sizes::of(attention)?;
    let count = sizes.rows() * sizes.columns;
    if count == 0 {
        return Ok(());
    }
    let attending = Attending {
        launcher,
        y,
        operands: attention.addresses(),
        element: attention.element,
        packed: match attention.flash {
            None => Packed::Masked(attention.pack_masked(&sizes)),
            Some(flash) => {
                let rows = [attention.q, attention.k].map(|operand| operand.view.shape[2]);
                let pages = attention.k.view.shape[0];
                Packed::Flash(flash.pack(attention.pack(&sizes), &sizes, rows, pages))
            }
        },
        seen: attention.seen(&sizes),
        sizes,
    };
    let widest = attending.sizes.depth.max(attending.sizes.columns);
    let Some(width) = Width::of(widest) else {
        return attending.tiles();
    };
    let (card, tuning) = (launcher.card(), launcher.tuning());
    let has_units = attention.element.size() == 2
        && widest <= table::MATRIX_COLUMNS.on(tuning)
        && attention.is_packed(table::MATRIX_PACK);
    let on_units = |columns| OnUnits {
        columns,
        card,
        tuning,
    };
    let mut narrowest = TILES_ON_UNITS.into_iter();
    let tile = narrowest.find(|(columns, _)| has_units && widest <= *columns);
    let tile = tile.map(|(columns, form)| (on_units(columns), form));
    let is_few = match (parts, tile) {
        (Some(parts), _) => parts > 0,
        (None, Some((units, _))) => units.splits(&attending.sizes),
        (None, None) => attending.sizes.queries <= table::FEW_QUERIES,
    };
    let splits = is_few && attention.is_packed(table::QUAD) && count < 1 << 31;
    match tile {
        _ if splits => attending.split(width, has_units.then(|| on_units(width.columns)), parts),
        Some((units, form)) => attending.on_units(units, form),
        None => attending.tiles(),
    }
}

/// What is computed, and where it goes.
struct Attending<'a, L> {
    launcher: &'a L,
    y: Pointer,
    /// q, k, v and the mask.
    operands: [Pointer; 4],
    element: Element,
    packed: Packed,
    seen: usize,
    sizes: Sizes,
}

impl<L: Launcher> Attending<'_, L> {
    /// A block to each tile of queries and part of the columns.
    fn tiles(&self) -> Result<(), L::Error> {
        let op = self.packed.either(&table::SDPA_TILES, &table::FLASH_TILES);
        let width = Width::of(self.sizes.columns).unwrap_or(WIDTHS[WIDTHS.len() - 1]);
        let kernel = op.form(width.form, &[self.element])?;
        let block = Block {
            threads: table::BLOCK,
            height: table::TILE,
            lds: table::TILE_LDS,
        };
        self.tiles_of(kernel, block, width.columns)
    }

    /// A block to each tile of queries, which its waves share, and part of the columns.
    fn on_units(&self, units: OnUnits, form: usize) -> Result<(), L::Error> {
        let op = self
            .packed
            .either(&table::SDPA_MATRIX, &table::FLASH_MATRIX);
        let kernel = op.form(form, &[self.element])?;
        self.tiles_of(kernel, units.tile(), units.columns_of_tile())
    }

    /// A block to each tile of queries and each so many of the columns.
    fn tiles_of(&self, kernel: Kernel, block: Block, columns: usize) -> Result<(), L::Error> {
        let sizes = &self.sizes;
        let parts = sizes.columns.div_ceil(columns);
        let mut tiles = Tiles {
            along: Divisor::of(sizes.queries.div_ceil(block.height)),
            parts: Divisor::of(parts),
            first: 0,
        };
        let count = sizes.tiles(block.height) * parts;
        let most = self.launcher.limits().blocks;
        for first in (0..count).step_by(most) {
            tiles.first = first as u32;
            let launch = self.launch(kernel, most.min(count - first), block);
            let launch = self.with_operands(launch.arg(&self.y));
            let launch = self.packed.given_to(launch).arg(&tiles);
            // SAFETY: the arguments of tiles and matrix kernels; the tensors fit together, and views stay within their
            // memory.
            unsafe { launch.enqueue() }?;
        }
        Ok(())
    }

    /// A block to each part of a key head's keys, at most so many if that is given, and each group of its queries.
    fn split(
        &self,
        width: Width,
        units: Option<OnUnits>,
        parts: Option<usize>,
    ) -> Result<(), L::Error> {
        let sizes = &self.sizes;
        let tuning = self.launcher.tuning();
        let (masked, flash, dealing) = match units {
            // Matrix units would compute with sixteen.
            _ if sizes.queries * sizes.group() == 1 => (
                &table::SDPA_SINGLE,
                &table::FLASH_SINGLE,
                width.split_of_one(tuning),
            ),
            Some(units) => (
                &table::SDPA_MATRIX_SPLIT,
                &table::FLASH_MATRIX_SPLIT,
                units.split(),
            ),
            None => (&table::SDPA_SPLIT, &table::FLASH_SPLIT, width.split(tuning)),
        };
        let op = self.packed.either(masked, flash);
        let kernel = op.form(width.form, &[self.element])?;
        let groups = sizes.row_groups(dealing.block.height);
        let card = self.launcher.card();
        let parts = parts.unwrap_or_else(|| dealing.parts(card, self.seen, groups));
        let of_part = self.seen.div_ceil(parts).max(1);
        let parts = self.seen.div_ceil(of_part).max(1);
        let slots = if parts > 1 { sizes.rows() * parts } else { 0 };
        let number = Element::F32.size();
        let (_totals, total) = self.launcher.workspace(slots * 2 * number)?;
        let (_sums, sum) = self.launcher.workspace(slots * sizes.columns * number)?;
        let mut split = Split {
            parts: Divisor::of(parts),
            row_groups: Divisor::of(groups / (sizes.batch * sizes.key_heads)),
            key_heads: Divisor::of(sizes.key_heads),
            keys: of_part as u32,
            first: 0,
        };
        let count = groups * parts;
        let most = self.launcher.limits().blocks;
        for first in (0..count).step_by(most) {
            split.first = first as u32;
            let launch = self.launch(kernel, most.min(count - first), dealing.block);
            let launch = self.with_operands(launch.arg(&self.y).arg(&total).arg(&sum));
            let launch = self.packed.given_to(launch).arg(&split);
            // SAFETY: the arguments of split kernels; as for tiles, and if there are several parts there is room for a
            // total and sums of each.
            unsafe { launch.enqueue() }?;
        }
        if parts == 1 {
            return Ok(());
        }
        let op = self
            .packed
            .either(&table::SDPA_COMBINE, &table::FLASH_COMBINE);
        let combine = op.form(table::FORM_PLAIN, &[self.element])?;
        let results = sizes.rows() * sizes.columns;
        let sharers = (parts.next_power_of_two() / table::COMBINED).clamp(1, table::SHARERS);
        let lds = match sharers {
            1 => 0,
            _ => table::BLOCK * 3 * number, // a total and a value
        };
        let (columns, count) = (Divisor::of(sizes.columns), results as u32);
        let launch = Launch::new(self.launcher, combine).lds(lds);
        let blocks = (results * sharers).div_ceil(table::BLOCK);
        let launch = launch.strided(blocks, table::BLOCK);
        let launch = launch.arg(&self.y).arg(&total).arg(&sum);
        let launch = self.packed.given_to(launch);
        let (parts, sharers) = (parts as u32, sharers as u32);
        let launch = launch.arg(&parts).arg(&sharers).arg(&columns).arg(&count);
        // SAFETY: the arguments of combine kernels; workspaces that are given back are reused behind the launch only.
        unsafe { launch.enqueue() }
    }

    fn launch(&self, kernel: Kernel, blocks: usize, block: Block) -> Launch<'_, L> {
        let launch = Launch::new(self.launcher, kernel);
        launch.threads(blocks, block.threads).lds(block.lds)
    }

    fn with_operands<'b>(&'b self, launch: Launch<'b, L>) -> Launch<'b, L> {
        let operands = self.operands.iter();
        operands.fold(launch, |launch, operand| launch.arg(operand))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rocm_backend::plan::testing::{contiguous, Recorded, Recorder, Strided};
    use crate::rocm_backend::plan::Limits;

    const CARD: Card = Card {
        wave_size: 64,
        multiprocessors: 8,
    };

    const SIZES: Sizes = Sizes {
        batch: 1,
        heads: 8,
        key_heads: 2,
        queries: 1,
        keys: 4096,
        depth: 128,
        columns: 128,
    };

    const PLAIN: Scores = Scores {
        scale: 1.,
        softcapping: 1.,
        causal: false,
    };

    fn operand(view: &Strided, size: usize) -> Operand<'_> {
        Operand {
            base: Pointer::NULL.offset(1 << 40),
            size,
            view: view.view(),
        }
    }

    /// Views of contiguous q, k and v.
    fn tensors(sizes: Sizes) -> [Strided; 3] {
        let keys = [sizes.batch, sizes.key_heads, sizes.keys];
        [
            contiguous(&[sizes.batch, sizes.heads, sizes.queries, sizes.depth]),
            contiguous(&[keys[0], keys[1], keys[2], sizes.depth]),
            contiguous(&[keys[0], keys[1], keys[2], sizes.columns]),
        ]
    }

    fn attention([q, k, v]: &[Strided; 3], element: Element) -> Attention<'_> {
        let operand = |view| operand(view, element.size());
        Attention {
            q: operand(q),
            k: operand(k),
            v: operand(v),
            mask: None,
            element,
            scores: PLAIN,
            flash: None,
        }
    }

    /// What is launched with at most 32 blocks, and the bytes of the workspaces.
    fn launched(
        tensors: &[Strided; 3],
        element: Element,
        parts: Option<usize>,
    ) -> Result<(Vec<Recorded>, Vec<usize>), Refusal> {
        let mut recorder = Recorder::of(CARD);
        recorder.limits = Limits {
            blocks: 32,
            ..Limits::USUAL
        };
        let y = Pointer::NULL.offset(1 << 30);
        sdpa(&recorder, &attention(tensors, element), parts, y)?;
        Ok((recorder.launches.take(), recorder.workspaces.take()))
    }

    fn recorded(symbol: &str, blocks: u32) -> Recorded {
        Recorded {
            symbol: symbol.to_string(),
            grid: [blocks, 1, 1],
            block: [256, 1],
        }
    }

    #[test]
    fn few_queries_are_split_until_the_card_is_full() {
        let dealing = WIDTHS[1].split(Tuning::of("any"));
        let parts = |sizes: Sizes| dealing.parts(CARD, sizes.keys, sizes.row_groups(4));
        // 32 blocks for two heads of keys: 16 parts; of a batch of two 8, of 400 keys as many as have 32.
        for (sizes, expected) in [
            (SIZES, 16),
            (Sizes { batch: 2, ..SIZES }, 8),
            (Sizes { batch: 64, ..SIZES }, 1),
            (
                Sizes {
                    key_heads: 1,
                    ..SIZES
                },
                16,
            ),
            (
                Sizes {
                    key_heads: 8,
                    ..SIZES
                },
                4,
            ),
            (Sizes { keys: 400, ..SIZES }, 12),
            // Five of six parts are 133 keys less for each block, four of five 127.
            (Sizes { keys: 160, ..SIZES }, 5),
            (Sizes { keys: 159, ..SIZES }, 1),
            (Sizes { keys: 0, ..SIZES }, 1),
            (
                Sizes {
                    queries: 8,
                    ..SIZES
                },
                2,
            ),
            // Blocks for 20 groups of rows: 20, or 40 where each part has 256 keys.
            (
                Sizes {
                    batch: 10,
                    keys: 512,
                    ..SIZES
                },
                2,
            ),
            (
                Sizes {
                    batch: 10,
                    keys: 511,
                    ..SIZES
                },
                1,
            ),
        ] {
            assert_eq!(parts(sizes), expected, "{sizes:?}");
        }
    }

    /// Each has a head of keys of its own.
    #[test]
    fn single_queries_have_blocks_of_their_own() -> Result<(), Refusal> {
        let two = Sizes {
            heads: 2,
            key_heads: 2,
            ..SIZES
        };
        for (element, columns, kernel) in [
            (Element::F16, 128, "sdpa_single_f16_128"),
            (Element::BF16, 40, "sdpa_single_bf16_128"),
            (Element::F32, 200, "sdpa_single_f32_256"),
        ] {
            // 32 blocks: 16 parts for each of two.
            let one = tensors(Sizes { columns, ..two });
            let (launches, workspaces) = launched(&one, element, None)?;
            assert_eq!(launches[0], recorded(kernel, 32));
            assert_eq!(workspaces, [2 * 16 * 8, 2 * 16 * columns * 4]);
        }
        // Two queries of a head, or of two heads that share keys.
        for sizes in [
            Sizes { queries: 2, ..two },
            Sizes {
                key_heads: 1,
                ..two
            },
        ] {
            let (launches, _) = launched(&tensors(sizes), Element::F32, None)?;
            assert_eq!(launches[0].symbol, "sdpa_split_f32_128", "{sizes:?}");
        }
        Ok(())
    }

    #[test]
    fn the_narrowest_kernel_that_holds_a_row_is_taken() {
        let columns = |columns| Width::of(columns).map(|width| width.columns);
        for (given, taken) in [
            (1, Some(64)),
            (64, Some(64)),
            (65, Some(128)),
            (256, Some(256)),
            (257, None),
        ] {
            assert_eq!(columns(given), taken, "{given}");
        }
    }

    #[test]
    fn parts_of_keys_have_blocks_totals_and_sums() -> Result<(), Refusal> {
        // 4 heads' 3 queries for each of 2 heads of keys, to 4: 6 groups, 5 parts.
        let tensors = tensors(Sizes {
            queries: 3,
            ..SIZES
        });
        let (launches, workspaces) = launched(&tensors, Element::F32, None)?;
        // Two threads to an element of 8 parts.
        let combine = recorded("sdpa_combine_f32", 24);
        assert_eq!(launches, [recorded("sdpa_split_f32_128", 30), combine]);
        assert_eq!(workspaces, [24 * 5 * 8, 24 * 5 * 128 * 4]);

        let (launches, workspaces) = launched(&tensors, Element::F32, Some(1))?;
        assert_eq!(launches, [recorded("sdpa_split_f32_128", 6)]);
        assert_eq!(workspaces, [0, 0]);
        // 4096 keys in 16 parts, 96 blocks; in 3000 parts of 2.
        let (launches, _) = launched(&tensors, Element::F32, Some(16))?;
        assert_eq!(launches[..3], vec![recorded("sdpa_split_f32_128", 32); 3]);
        let (_, workspaces) = launched(&tensors, Element::F32, Some(3000))?;
        assert_eq!(workspaces[0], 24 * 2048 * 8);
        Ok(())
    }

    #[test]
    fn units_have_sixteen_rows_of_a_key_head() -> Result<(), Refusal> {
        let of_units = |symbol: &str, blocks| Recorded {
            block: [256, 1],
            ..recorded(symbol, blocks)
        };
        // 4 heads' 5 queries for each of 2 heads of keys: 4 groups, 8 parts.
        let five = Sizes {
            queries: 5,
            ..SIZES
        };
        let (launches, workspaces) = launched(&tensors(five), Element::F16, None)?;
        let split = of_units("sdpa_matrix_split_f16_128", 32);
        assert_eq!(launches, [split, recorded("sdpa_combine_f16", 32)]);
        assert_eq!(workspaces, [40 * 8 * 8, 40 * 8 * 128 * 4]);
        // Rows that are no packs of 16 bytes take the kernel of other types.
        let narrow = Sizes { depth: 124, ..five };
        let (launches, _) = launched(&tensors(narrow), Element::F16, Some(2))?;
        assert_eq!(launches[0], recorded("sdpa_split_f16_128", 20));
        Ok(())
    }

    #[test]
    fn keys_are_dealt_where_tiles_leave_processors_without_any() -> Result<(), Refusal> {
        // 8 processors; tiles of 64 queries.
        for (heads, queries, taken) in [
            (8, 16, "sdpa_matrix_split_f16_128"),
            (8, 17, "sdpa_matrix_f16_128"),
            (4, 64, "sdpa_matrix_split_f16_128"),
            (4, 65, "sdpa_matrix_f16_128"),
            (5, 64, "sdpa_matrix_f16_128"),
        ] {
            let sizes = Sizes {
                heads,
                key_heads: 1,
                queries,
                ..SIZES
            };
            let (launches, _) = launched(&tensors(sizes), Element::F16, None)?;
            assert_eq!(
                launches[0].symbol, taken,
                "{heads} heads, {queries} queries"
            );
        }
        Ok(())
    }

    #[test]
    fn lds_has_what_kernels_lay_there() {
        let units = |columns, architecture| OnUnits {
            columns,
            card: CARD,
            tuning: Tuning::of(architecture),
        };
        let block = |threads, height, elements: usize| Block {
            threads,
            height,
            lds: 2 * elements,
        };
        // Queries in registers: those of the beginning are more than a step's keys and values, or fewer.
        let usual = units(128, "gfx90a");
        assert_eq!(usual.tile(), block(256, 64, 32 * 136 + 128 * 40));
        assert_eq!(
            units(64, "gfx90a").tile(),
            block(256, 64, 32 * 72 + 64 * 40)
        );
        assert_eq!(
            usual.split().block,
            block(256, 16, 16 * 136 + 32 * 136 + 128 * 40)
        );
        // Half of the columns of wide values, and queries that stay.
        let wide = units(256, "gfx1100");
        assert_eq!(wide.columns_of_tile(), 128);
        assert_eq!(wide.tile(), block(128, 32, 32 * 264 + 16 * 264 + 128 * 24));
        assert_eq!(
            wide.split().block,
            block(256, 16, 16 * 264 + 32 * 264 + 256 * 40)
        );
        assert_eq!(units(256, "gfx90a").tile(), block(256, 64, 64 * 264));
        // A part of the values as large as that of the widest ones.
        assert_eq!(units(192, "gfx1100").columns_of_tile(), 96);
        assert_eq!(units(192, "gfx90a").columns_of_tile(), 192);
        assert_eq!(units(96, "gfx1100").columns_of_tile(), 96);
    }

    #[test]
    fn blocks_fit_into_lds() {
        for (architecture, wave_size) in [
            ("gfx908", 64),
            ("gfx942", 64),
            ("gfx1100", 32),
            ("gfx1201", 32),
        ] {
            for (columns, _) in TILES_ON_UNITS {
                let card = Card { wave_size, ..CARD };
                let tuning = Tuning::of(architecture);
                let units = OnUnits {
                    columns,
                    card,
                    tuning,
                };
                for block in [units.tile(), units.split().block] {
                    assert!(
                        block.lds <= 64 << 10,
                        "{architecture}, {columns}: {block:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn tiles_have_blocks_for_queries_and_columns() -> Result<(), Refusal> {
        for (queries, columns, kernel, blocks) in [
            (64, 64, "sdpa_tiles_f32_64", vec![8]),
            (65, 65, "sdpa_tiles_f32_128", vec![16]),
            (9, 300, "sdpa_tiles_f32_256", vec![16]),
            (300, 8, "sdpa_tiles_f32_64", vec![32, 8]),
        ] {
            let tensors = tensors(Sizes {
                queries,
                columns,
                ..SIZES
            });
            let (launches, workspaces) = launched(&tensors, Element::F32, None)?;
            let expected: Vec<_> = blocks.iter().map(|&n| recorded(kernel, n)).collect();
            assert_eq!(launches, expected);
            assert!(workspaces.is_empty());
        }
        let few = tensors(SIZES);
        let (launches, _) = launched(&few, Element::F32, Some(0))?;
        assert_eq!(launches, [recorded("sdpa_tiles_f32_128", 8)]);
        Ok(())
    }

    #[test]
    fn rows_of_16_bits_go_to_matrix_units() -> Result<(), Refusal> {
        // Waves of 64: four of them have 64 queries.
        for (queries, depth, columns, width, blocks) in [
            (17, 64, 64, "64", vec![8]),
            (65, 8, 64, "64", vec![16]),
            (64, 72, 64, "96", vec![8]),
            (64, 96, 104, "128", vec![8]),
            (300, 64, 128, "128", vec![32, 8]),
            (64, 136, 192, "192", vec![8]),
            (64, 200, 40, "256", vec![8]),
        ] {
            for element in [Element::F16, Element::BF16] {
                let tensors = tensors(Sizes {
                    queries,
                    depth,
                    columns,
                    ..SIZES
                });
                let (launches, workspaces) = launched(&tensors, element, None)?;
                let kernel = format!("sdpa_matrix_{}_{width}", element.name());
                let expected: Vec<_> = blocks.iter().map(|&n| recorded(&kernel, n)).collect();
                assert_eq!(launches, expected);
                assert!(workspaces.is_empty());
            }
        }
        Ok(())
    }

    #[test]
    fn other_rows_take_tiles() -> Result<(), Refusal> {
        let taken = |tensors: &[Strided; 3], element| -> Result<String, Refusal> {
            Ok(launched(tensors, element, None)?.0[0].symbol.clone())
        };
        let sizes = Sizes {
            queries: 70,
            ..SIZES
        };
        let packed = tensors(sizes);
        assert_eq!(taken(&packed, Element::F32)?, "sdpa_tiles_f32_128");
        assert_eq!(taken(&packed, Element::F16)?, "sdpa_matrix_f16_128");
        let wide = tensors(Sizes {
            depth: 264,
            ..sizes
        });
        assert_eq!(taken(&wide, Element::F16)?, "sdpa_tiles_f16_128");
        let short = tensors(Sizes {
            columns: 60,
            ..sizes
        });
        assert_eq!(taken(&short, Element::F16)?, "sdpa_tiles_f16_64");
        let [q, k, v] = packed;
        for (at, width) in [(8, "matrix_f16_64"), (4, "tiles_f16_64")] {
            let part = |view: &Strided| view.clone().narrow(3, at, 64);
            let parts = [part(&q), part(&k), part(&v)];
            assert_eq!(taken(&parts, Element::F16)?, format!("sdpa_{width}"));
        }
        Ok(())
    }

    #[test]
    fn rows_that_are_not_packed_or_too_wide_take_tiles() -> Result<(), Refusal> {
        let taken = |tensors: &[Strided; 3]| -> Result<String, Refusal> {
            let (launches, _) = launched(tensors, Element::F32, Some(2))?;
            Ok(launches[0].symbol.clone())
        };
        let [q, k, v] = tensors(SIZES);
        let part = |view: &Strided, first| view.clone().narrow(3, first, 64);
        let quads = [part(&q, 4), part(&k, 8), part(&v, 64)];
        assert_eq!(taken(&quads)?, "sdpa_split_f32_64");
        let odd = [part(&q, 4), part(&k, 6), part(&v, 64)];
        assert_eq!(taken(&odd)?, "sdpa_tiles_f32_64");
        let depth = tensors(Sizes {
            depth: 260,
            ..SIZES
        });
        assert_eq!(taken(&depth)?, "sdpa_tiles_f32_128");
        let columns = tensors(Sizes {
            columns: 6,
            ..SIZES
        });
        assert_eq!(taken(&columns)?, "sdpa_tiles_f32_64");
        Ok(())
    }

    #[test]
    fn results_of_2_31_elements_take_tiles() -> Result<(), Refusal> {
        for (batch, kernel) in [
            (1 << 20, "sdpa_tiles_f32_256"),
            ((1 << 20) - 1, "sdpa_split_f32_256"),
        ] {
            let tensors = tensors(Sizes {
                batch,
                keys: 4,
                columns: 256,
                ..SIZES
            });
            let recorder = Recorder::of(CARD);
            let attention = attention(&tensors, Element::F32);
            sdpa(&recorder, &attention, None, Pointer::NULL)?;
            assert_eq!(recorder.launches.take()[0].symbol, kernel);
        }
        Ok(())
    }

    #[test]
    fn nothing_is_launched_for_no_result() -> Result<(), Refusal> {
        for sizes in [
            Sizes { batch: 0, ..SIZES },
            Sizes {
                queries: 0,
                ..SIZES
            },
            Sizes {
                columns: 0,
                ..SIZES
            },
        ] {
            assert_eq!(launched(&tensors(sizes), Element::F32, None)?.0, []);
        }
        Ok(())
    }

    #[test]
    fn last_dimensions_are_contiguous() {
        let fits = |tensors: &[Strided; 3]| attention(tensors, Element::F32).results().is_ok();
        let [q, k, v] = tensors(SIZES);
        assert!(fits(&[q.clone(), k.clone(), v.clone()]));
        let mut turned = v.clone();
        turned.strides.swap(2, 3);
        assert!(!fits(&[q.clone(), k.clone(), turned.clone()]));
        let mut broadcast = v;
        broadcast.strides[3] = 0;
        assert!(!fits(&[q.clone(), k.clone(), broadcast]));
        turned.shape[3] = 1;
        assert!(fits(&[q, k, turned]), "a single column has no next one");
    }

    #[test]
    fn kernels_count_in_32_bits() {
        let fits = |sizes: Sizes| sizes.check(&[]).is_ok();
        const MOST: usize = (1 << 31) - 1;
        let one = Sizes {
            batch: 1,
            heads: 1,
            key_heads: 1,
            queries: 1,
            keys: 1,
            depth: 1,
            columns: 1,
        };
        for (size, expected) in [(MOST, true), (MOST + 1, false)] {
            for sizes in [
                Sizes { keys: size, ..one },
                Sizes { depth: size, ..one },
                Sizes { batch: size, ..one },
                Sizes { heads: size, ..one },
                Sizes {
                    queries: size,
                    ..one
                },
            ] {
                assert_eq!(fits(sizes), expected, "{sizes:?}");
            }
        }
        let many = |batch, heads, queries, columns| {
            fits(Sizes {
                batch,
                heads,
                queries,
                columns,
                ..one
            })
        };
        assert!(many(1 << 10, 1 << 10, 1 << 10, 64));
        assert!(!many(1 << 11, 1 << 10, 1 << 10, 64));
        assert!(
            !many(1 << 10, 1 << 10, 1 << 10, 129),
            "times the parts of a row"
        );
        assert!(many(1 << 20, 1 << 10, 0, 64), "no query, but heads");
        assert!(!many(1 << 20, 1 << 11, 0, 64));
    }
}
