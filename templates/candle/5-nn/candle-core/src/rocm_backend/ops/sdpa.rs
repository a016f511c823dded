//! Scaled dot product attention in one pass over keys and values.
//!
//! Many queries are cut into tiles, and a block walks over the keys for each. Of few queries, the keys are dealt to
//! several blocks, whose results a second launch puts together.
use super::operand::{kernel_form, uninit, Operand};
use crate::rocm_backend::plan::table::sdpa as table;
use crate::rocm_backend::plan::Divisor;
use crate::rocm_backend::plan::{Argument, Card, Kernel, Launch, Launcher, Op, Pointer};
use crate::rocm_backend::{RocmDevice, RocmStorage};
use crate::{DType, Error, Layout, Result, Shape};

const OP: &str = "sdpa";

/// Elements that a lane takes at a time.
const QUAD: usize = 4;

/// Lanes that share a key of a split.
const TEAM: usize = 16;

/// Kernels for values of so many columns: the number of columns, the form, and the queries that a block of a split has.
const WIDTHS: [(usize, usize, usize); 3] = [
    (table::FORM_64_COLUMNS, table::FORM_64, table::FORM_64_ROWS),
    (
        table::FORM_128_COLUMNS,
        table::FORM_128,
        table::FORM_128_ROWS,
    ),
    (
        table::FORM_256_COLUMNS,
        table::FORM_256,
        table::FORM_256_ROWS,
    ),
];

/// How products of queries and keys become scores.
#[derive(Clone, Copy, Debug)]
pub struct Scores {
    /// What products are multiplied with.
    pub scale: f32,
    /// Scores s become cap * tanh(s / cap); 1 for none.
    pub softcapping: f32,
    /// Whether query i of m sees only the first n - m + i + 1 of n keys. A mask overrides it.
    pub causal: bool,
}

/// softmax(scores(q k^T) + mask) v, contiguous, and its shape (batch, heads, queries, columns).
///
/// q is (batch, heads, queries, depth), k (batch, key heads, keys, depth), v (batch, key heads, keys, columns), and the
/// mask (batch, heads, queries, keys); heads are a multiple of key heads. All are of one type: bf16, f16 or f32. The mask
/// may be any view, the others any whose last dimension is contiguous.
pub fn sdpa(
    q: (&RocmStorage, &Layout),
    k: (&RocmStorage, &Layout),
    v: (&RocmStorage, &Layout),
    mask: Option<(&RocmStorage, &Layout)>,
    scores: Scores,
) -> Result<(RocmStorage, Shape)> {
    let operand = |(storage, layout)| Operand::new(storage, layout);
    let call = Call {
        q: operand(q),
        k: operand(k),
        v: operand(v),
        mask: mask.map(operand),
    };
    let sizes = call.sizes()?;
    let shape = Shape::from((sizes.batch, sizes.heads, sizes.queries, sizes.columns));
    let y = uninit(shape.elem_count(), call.q.dtype(), call.q.device())?;
    let attention = Attention {
        device: call.q.device(),
        y: y.pointer(),
        operands: call.addresses(),
        packed: call.is_packed(),
        sizes,
    };
    attention.enqueue(&call, scores, shape.elem_count())?;
    Ok((y, shape))
}

/// The tensors of a call.
struct Call<'a> {
    q: Operand<'a>,
    k: Operand<'a>,
    v: Operand<'a>,
    mask: Option<Operand<'a>>,
}

/// How many there are; heads, queries and keys are those of a batch entry or head.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    batch: usize,
    heads: usize,
    key_heads: usize,
    queries: usize,
    keys: usize,
    /// Elements of a query or key.
    depth: usize,
    /// Elements of a value.
    columns: usize,
}

impl Call<'_> {
    /// The sizes, if the tensors fit together.
    fn sizes(&self) -> Result<Sizes> {
        let (batch, heads, queries, depth) = self.q.layout.shape().dims4()?;
        let (_, key_heads, keys, _) = self.k.layout.shape().dims4()?;
        let (.., columns) = self.v.layout.shape().dims4()?;
        let fits = |operand: Operand<'_>, dims: [usize; 4]| -> Result<()> {
            if operand.layout.dims() != dims {
                return Err(self.mismatch(operand));
            }
            if operand.dtype() != self.q.dtype() {
                return Err(Error::DTypeMismatchBinaryOp {
                    lhs: self.q.dtype(),
                    rhs: operand.dtype(),
                    op: OP,
                }
                .bt());
            }
            if operand.device() != self.q.device() {
                crate::bail!("{OP} of tensors on different devices")
            }
            Ok(())
        };
        fits(self.k, [batch, key_heads, keys, depth])?;
        fits(self.v, [batch, key_heads, keys, columns])?;
        if let Some(mask) = self.mask {
            fits(mask, [batch, heads, queries, keys])?;
        }
        if heads.checked_rem(key_heads) != Some(0) {
            return Err(self.mismatch(self.k));
        }
        for operand in [self.q, self.k, self.v] {
            if operand.layout.dims()[3] > 1 && operand.layout.stride()[3] != 1 {
                crate::bail!(
                    "{OP}: the last dimension of queries, keys and values has to be contiguous"
                )
            }
        }
        let sizes = Sizes {
            batch,
            heads,
            key_heads,
            queries,
            keys,
            depth,
            columns,
        };
        sizes.check()?;
        Ok(sizes)
    }

    fn mismatch(&self, other: Operand<'_>) -> Error {
        Error::ShapeMismatchBinaryOp {
            lhs: self.q.layout.shape().clone(),
            rhs: other.layout.shape().clone(),
            op: OP,
        }
        .bt()
    }

    /// Of q, k, v and the mask.
    fn addresses(&self) -> [Pointer; 4] {
        let mask = self.mask.map_or(Pointer::NULL, |mask| mask.start());
        [self.q.start(), self.k.start(), self.v.start(), mask]
    }

    /// Whether rows of q, k and v consist of quads, and each of those is aligned.
    fn is_packed(&self) -> bool {
        [self.q, self.k, self.v].iter().all(|operand| {
            let (dims, strides) = (operand.layout.dims(), operand.layout.stride());
            let mut steps = strides[..3].iter().chain(&dims[3..]);
            steps.all(|step| step % QUAD == 0)
                && operand.start().is_multiple_of(QUAD * operand.size())
        })
    }
}

impl Sizes {
    /// Kernels count in 32 bits.
    fn check(&self) -> Result<()> {
        let heads = self.batch * self.heads;
        let rows = heads * self.queries.max(1);
        let parts = self.columns.div_ceil(WIDTHS[0].0);
        let largest = [self.keys, self.depth, self.columns, rows, rows * parts];
        if largest.iter().any(|&size| size >= 1 << 31) {
            crate::bail!("{OP} of {self:?}, which is too large for its kernels")
        }
        Ok(())
    }

    /// Heads of queries that share a head of keys.
    fn group(&self) -> usize {
        self.heads / self.key_heads
    }

    /// Into how many parts a head's keys are cut, so that few queries fill the card.
    fn parts(&self, card: Card) -> usize {
        let blocks = card.multiprocessors * table::BLOCKS_PER_PROCESSOR;
        let wanted = blocks / (self.batch * self.key_heads);
        wanted.min(self.keys / table::LEAST_KEYS).max(1)
    }
}

/// The kernels for rows of so many columns: their form, and the queries of a block; `None` if the widest are too narrow.
fn width(columns: usize) -> Option<(usize, usize, usize)> {
    WIDTHS.into_iter().find(|(width, ..)| columns <= *width)
}

/// `candle::Attention`.
#[repr(C)]
struct KernelAttention {
    /// From one batch entry, head and row to the next: of q, k, v and the mask.
    strides: [[i64; 3]; 4],
    mask_key: i64,
    heads: Divisor,
    group: Divisor,
    queries: Divisor,
    keys: u32,
    depth: u32,
    columns: u32,
    scale: f32,
    cap: f32,
    causal: u32,
    packed: u32,
}

// SAFETY: the same fields in the same order, with C's layout on both sides.
unsafe impl Argument for KernelAttention {}

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

/// What is computed, and where it goes.
struct Attention<'a> {
    device: &'a RocmDevice,
    y: Pointer,
    /// q, k, v and the mask.
    operands: [Pointer; 4],
    packed: bool,
    sizes: Sizes,
}

impl Attention<'_> {
    /// Queues the launches that write the `count` elements of y.
    fn enqueue(&self, call: &Call<'_>, scores: Scores, count: usize) -> Result<()> {
        let sizes = &self.sizes;
        let kernel =
            |op: &Op, form| kernel_form(op, form, &[call.q.element(OP)?], call.q.dtype(), OP);
        let widest = WIDTHS[WIDTHS.len() - 1];
        let (columns, form, _) = width(sizes.columns).unwrap_or(widest);
        let tiles = kernel(&table::SDPA_TILES, form)?;
        if count == 0 {
            return Ok(());
        }
        let packed = self.pack(call, scores);
        let few = sizes.queries <= table::FEW_QUERIES && self.packed && count < 1 << 31;
        match width(sizes.depth.max(sizes.columns)) {
            Some((columns, form, rows)) if few => {
                let split = kernel(&table::SDPA_SPLIT, form)?;
                let combine = kernel(&table::SDPA_COMBINE, table::FORM_PLAIN)?;
                self.split(&packed, split, combine, (columns, rows))
            }
            _ => self.tiles(&packed, tiles, columns),
        }
    }

    fn pack(&self, call: &Call<'_>, scores: Scores) -> KernelAttention {
        let strides = |operand: Operand<'_>| {
            let strides = operand.layout.stride();
            [strides[0] as i64, strides[1] as i64, strides[2] as i64]
        };
        let sizes = &self.sizes;
        KernelAttention {
            strides: [
                strides(call.q),
                strides(call.k),
                strides(call.v),
                call.mask.map_or([0; 3], strides),
            ],
            mask_key: call.mask.map_or(0, |mask| mask.layout.stride()[3] as i64),
            heads: Divisor::of(sizes.heads),
            group: Divisor::of(sizes.group()),
            queries: Divisor::of(sizes.queries),
            keys: sizes.keys as u32,
            depth: sizes.depth as u32,
            columns: sizes.columns as u32,
            scale: scores.scale,
            cap: scores.softcapping,
            causal: (scores.causal && call.mask.is_none()).into(),
            packed: self.packed.into(),
        }
    }

    /// A block to each tile of queries and part of the columns.
    fn tiles(&self, packed: &KernelAttention, kernel: Kernel, columns: usize) -> Result<()> {
        let sizes = &self.sizes;
        let along = sizes.queries.div_ceil(table::TILE);
        let parts = sizes.columns.div_ceil(columns);
        let mut tiles = Tiles {
            along: Divisor::of(along),
            parts: Divisor::of(parts),
            first: 0,
        };
        let count = sizes.batch * sizes.heads * parts * along;
        let most = self.device.limits().blocks;
        for first in (0..count).step_by(most) {
            tiles.first = first as u32;
            let launch = Launch::new(self.device, kernel);
            let launch = launch.threads(most.min(count - first), table::BLOCK);
            let launch = launch.lds(table::TILE_LDS).arg(&self.y);
            let launch = self.with_operands(launch).arg(packed).arg(&tiles);
            // SAFETY: the arguments of tiles kernels; the tensors fit together, and Candle's layouts stay within their
            // storages.
            unsafe { launch.enqueue() }?;
        }
        Ok(())
    }

    /// A block to each part of a key head's keys and each group of its queries; `width` is the columns and the queries
    /// that the kernel is made for.
    fn split(
        &self,
        packed: &KernelAttention,
        kernel: Kernel,
        combine: Kernel,
        width: (usize, usize),
    ) -> Result<()> {
        let sizes = &self.sizes;
        let (columns, rows) = width;
        let of_part = sizes.keys.div_ceil(sizes.parts(self.device.card())).max(1);
        let parts = sizes.keys.div_ceil(of_part).max(1);
        let groups = (sizes.queries * sizes.group()).div_ceil(rows);
        let queries = sizes.batch * sizes.heads * sizes.queries;
        let slots = if parts > 1 { queries * parts } else { 0 };
        let totals = uninit(slots * 2, DType::F32, self.device)?;
        let sums = uninit(slots * sizes.columns, DType::F32, self.device)?;
        let (total, sum) = (totals.pointer(), sums.pointer());
        let mut split = Split {
            parts: Divisor::of(parts),
            row_groups: Divisor::of(groups),
            key_heads: Divisor::of(sizes.key_heads),
            keys: of_part as u32,
            first: 0,
        };
        let count = sizes.batch * sizes.key_heads * groups * parts;
        // Sums and a total of every team.
        let lds = table::BLOCK / TEAM * (columns * 4 + 8);
        let most = self.device.limits().blocks;
        for first in (0..count).step_by(most) {
            split.first = first as u32;
            let launch = Launch::new(self.device, kernel);
            let launch = launch.threads(most.min(count - first), table::BLOCK);
            let launch = launch.lds(lds).arg(&self.y).arg(&total).arg(&sum);
            let launch = self.with_operands(launch).arg(packed).arg(&split);
            // SAFETY: the arguments of split kernels; as for tiles, and if there are several parts there is room for a
            // total and sums of each.
            unsafe { launch.enqueue() }?;
        }
        if parts > 1 {
            let (parts, columns) = (parts as u32, Divisor::of(sizes.columns));
            let results = queries * sizes.columns;
            let count = results as u32;
            let launch = Launch::new(self.device, combine);
            let launch = launch.strided(results.div_ceil(table::BLOCK), table::BLOCK);
            let launch = launch.arg(&self.y).arg(&total).arg(&sum);
            let launch = launch.arg(&parts).arg(&columns).arg(&count);
            // SAFETY: the arguments of combine kernels; memory that is given back is reused behind the launch only.
            unsafe { launch.enqueue() }?;
        }
        Ok(())
    }

    fn with_operands<'b>(&'b self, launch: Launch<'b, RocmDevice>) -> Launch<'b, RocmDevice> {
        let operands = self.operands.iter();
        operands.fold(launch, |launch, operand| launch.arg(operand))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rocm_backend::launcher::MAX_GRID;
    use crate::rocm_backend::ops::to_cpu_storage;
    use crate::rocm_backend::testing::{allocations_of, gpu, launches_of, Launched};
    use crate::{CpuStorage, Device, Storage, Tensor};

    const SIZES: Sizes = Sizes {
        batch: 1,
        heads: 8,
        key_heads: 2,
        queries: 1,
        keys: 4096,
        depth: 128,
        columns: 128,
    };

    #[test]
    fn few_queries_are_split_until_the_card_is_full() {
        let parts = |sizes: Sizes| {
            sizes.parts(Card {
                wave_size: 64,
                multiprocessors: 8,
            })
        };
        assert_eq!(parts(SIZES), 16);
        assert_eq!(
            parts(Sizes {
                keys: 1000,
                ..SIZES
            }),
            3
        );
        assert_eq!(parts(Sizes { keys: 0, ..SIZES }), 1);
        assert_eq!(parts(Sizes { batch: 64, ..SIZES }), 1);
    }

    #[test]
    fn the_narrowest_kernel_that_holds_a_row_is_taken() {
        let columns = |columns| width(columns).map(|(width, ..)| width);
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
    fn kernels_count_in_32_bits() {
        let fits = |sizes: Sizes| sizes.check().is_ok();
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
            assert_eq!(fits(Sizes { keys: size, ..one }), expected);
            assert_eq!(fits(Sizes { depth: size, ..one }), expected);
            assert_eq!(fits(Sizes { batch: size, ..one }), expected);
            assert_eq!(fits(Sizes { heads: size, ..one }), expected);
            assert_eq!(
                fits(Sizes {
                    queries: size,
                    ..one
                }),
                expected
            );
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

    #[test]
    fn heads_share_keys() {
        assert_eq!(SIZES.group(), 4);
        let card = Card {
            wave_size: 32,
            multiprocessors: 8,
        };
        // 32 blocks for two heads of keys: 16 parts; of a batch of two 8, of 2047 keys as many as have 256.
        assert_eq!(SIZES.parts(card), 16);
        assert_eq!(Sizes { batch: 2, ..SIZES }.parts(card), 8);
        assert_eq!(
            Sizes {
                key_heads: 1,
                ..SIZES
            }
            .parts(card),
            16
        );
        assert_eq!(
            Sizes {
                key_heads: 8,
                ..SIZES
            }
            .parts(card),
            4
        );
        assert_eq!(
            Sizes {
                keys: 2047,
                ..SIZES
            }
            .parts(card),
            7
        );
    }

    /// Small numbers that repeat at no period of a kernel.
    fn numbers(shape: [usize; 4], seed: usize) -> Result<Tensor> {
        let count: usize = shape.iter().product();
        let number = |i: usize| ((i + seed) * 7919 % 1009) as f32 / 504. - 1.;
        let data: Vec<f32> = (0..count).map(number).collect();
        Tensor::from_vec(data, &shape, &Device::Cpu)
    }

    type Attended = (Result<(Vec<f32>, Shape)>, Vec<Launched>);

    /// What `sdpa` computes of tensors on the device, and what it launches.
    fn attended(
        q: &Tensor,
        k: &Tensor,
        v: &Tensor,
        mask: Option<&Tensor>,
        scores: Scores,
    ) -> Attended {
        let held = [q, k, v].map(Tensor::storage_and_layout);
        let held_mask = mask.map(Tensor::storage_and_layout);
        fn on_rocm(storage: &Storage) -> &RocmStorage {
            match storage {
                Storage::Rocm(storage) => storage,
                _ => panic!("the tensors are on the device"),
            }
        }
        let [q, k, v] = held
            .each_ref()
            .map(|(storage, layout)| (on_rocm(storage), *layout));
        let mask = held_mask
            .as_ref()
            .map(|(storage, layout)| (on_rocm(storage), *layout));
        let (result, launches) = launches_of(|| sdpa(q, k, v, mask, scores));
        let read = || {
            let (y, shape) = result?;
            match to_cpu_storage(&y)? {
                CpuStorage::F32(y) => Ok((y, shape)),
                _ => Ok((vec![], shape)),
            }
        };
        (read(), launches)
    }

    /// The same with plain loops.
    fn plainly(
        q: &Tensor,
        k: &Tensor,
        v: &Tensor,
        mask: Option<&Tensor>,
        scores: Scores,
    ) -> Result<Vec<f32>> {
        let (batch, heads, queries, depth) = q.dims4()?;
        let (_, key_heads, keys, _) = k.dims4()?;
        let columns = v.dims4()?.3;
        let flat = |x: &Tensor| x.flatten_all()?.to_vec1::<f32>();
        let (q, k, v) = (flat(q)?, flat(k)?, flat(v)?);
        let mask = mask.map(flat).transpose()?;
        let mut y = Vec::new();
        for row in 0..batch * heads * queries {
            let (head, query) = (row / queries, row % queries);
            let (b, shared) = (head / heads, head % heads / (heads / key_heads));
            let first = (b * key_heads + shared) * keys;
            let score = |key: usize| {
                let pairs = (0..depth).map(|d| (q[row * depth + d], k[(first + key) * depth + d]));
                let product: f64 = pairs.map(|(a, b)| f64::from(a) * f64::from(b)).sum();
                let (scale, cap) = (f64::from(scores.scale), f64::from(scores.softcapping));
                let product = product * scale;
                let capped = if cap == 1. {
                    product
                } else {
                    cap * (product / cap).tanh()
                };
                match &mask {
                    Some(mask) => capped + f64::from(mask[row * keys + key]),
                    None if scores.causal && key + queries > keys + query => f64::NEG_INFINITY,
                    None => capped,
                }
            };
            let powers: Vec<f64> = (0..keys).map(|key| score(key).exp()).collect();
            let total: f64 = powers.iter().sum();
            for column in 0..columns {
                let value = |key: usize| f64::from(v[(first + key) * columns + column]);
                let sum: f64 = powers
                    .iter()
                    .enumerate()
                    .map(|(key, p)| p * value(key))
                    .sum();
                y.push((sum / total) as f32);
            }
        }
        Ok(y)
    }

    const PLAIN: Scores = Scores {
        scale: 0.5,
        softcapping: 1.,
        causal: false,
    };

    /// Sizes in the order of their fields, how the keys are cut, and the kernels that are launched, more often where
    /// there are more blocks than a launch has.
    #[test]
    fn attention_is_what_plain_loops_compute() -> Result<()> {
        let Some(device) = gpu("attention_is_what_plain_loops_compute") else {
            return Ok(());
        };
        let device = Device::Rocm(device);
        let (tiles, split) = ("sdpa_tiles_f32", "sdpa_split_f32");
        for (sizes, kernel, launches) in [
            ([2, 4, 2, 3, 70, 16, 16], format!("{split}_64"), 1),
            ([1, 3, 3, 8, 40, 12, 100], format!("{split}_128"), 1),
            ([1, 2, 1, 2, 40, 132, 8], format!("{split}_256"), 1),
            ([3, 8, 4, 8, 20, 8, 8], format!("{split}_64"), 2),
            ([1, 1, 1, 5, 30, 260, 8], format!("{tiles}_64"), 1),
            ([1, 2, 2, 2, 30, 6, 8], format!("{tiles}_64"), 1),
            ([1, 2, 2, 9, 30, 8, 8], format!("{tiles}_64"), 1),
            ([3, 5, 5, 130, 20, 8, 8], format!("{tiles}_64"), 2),
            ([1, 2, 1, 65, 33, 8, 65], format!("{tiles}_128"), 1),
            ([1, 9, 3, 65, 10, 4, 300], format!("{tiles}_256"), 2),
        ] {
            let [batch, heads, key_heads, queries, keys, depth, columns] = sizes;
            let q = numbers([batch, heads, queries, depth], 1)?;
            let k = numbers([batch, key_heads, keys, depth], 2)?;
            let v = numbers([batch, key_heads, keys, columns], 3)?;
            let mask = numbers([batch, heads, queries, keys], 4)?;
            let on = |x: &Tensor| x.to_device(&device);
            let (on_q, on_k, on_v, on_mask) = (on(&q)?, on(&k)?, on(&v)?, on(&mask)?);
            for (with_mask, scores) in [
                (false, PLAIN),
                (
                    true,
                    Scores {
                        causal: true,
                        ..PLAIN
                    },
                ),
                (
                    false,
                    Scores {
                        causal: queries <= keys,
                        ..PLAIN
                    },
                ),
                (
                    false,
                    Scores {
                        softcapping: 0.7,
                        ..PLAIN
                    },
                ),
            ] {
                let what = format!("{sizes:?}, {with_mask}, {scores:?}");
                let masks = with_mask.then_some((&mask, &on_mask));
                let wanted = plainly(&q, &k, &v, masks.map(|(mask, _)| mask), scores)?;
                let given = masks.map(|(_, mask)| mask);
                let (found, launched) = attended(&on_q, &on_k, &on_v, given, scores);
                let (found, shape) = found?;
                assert_eq!(shape.dims(), [batch, heads, queries, columns], "{what}");
                let names: Vec<_> = launched.iter().map(|l| l.kernel.as_str()).collect();
                assert_eq!(names, vec![kernel.as_str(); launches], "{what}");
                for (at, (found, wanted)) in found.iter().zip(&wanted).enumerate() {
                    let error = (found - wanted).abs();
                    assert!(error < 1e-5, "{what}: {found} instead of {wanted} at {at}");
                }
            }
        }
        Ok(())
    }

    #[test]
    fn parts_of_many_keys_are_put_together() -> Result<()> {
        let Some(device) = gpu("parts_of_many_keys_are_put_together") else {
            return Ok(());
        };
        let card = device.card();
        let device = Device::Rocm(device);
        for (heads, key_heads, queries, keys, columns) in [(2, 1, 1, 1100, 64), (6, 2, 5, 700, 80)]
        {
            let q = numbers([2, heads, queries, 8], 5)?;
            let k = numbers([2, key_heads, keys, 8], 6)?;
            let v = numbers([2, key_heads, keys, columns], 7)?;
            let on = |x: &Tensor| x.to_device(&device);
            let (found, launched) = attended(&on(&q)?, &on(&k)?, &on(&v)?, None, PLAIN);
            let wanted = plainly(&q, &k, &v, None, PLAIN)?;
            for (found, wanted) in found?.0.iter().zip(&wanted) {
                assert!((found - wanted).abs() < 1e-5, "{found} instead of {wanted}");
            }
            let room = card.multiprocessors * 4 / (2 * key_heads);
            if room.min(keys / 256) > 1 {
                let last = launched.last().expect("there are launches");
                assert_eq!(last.kernel, "sdpa_combine_f32");
                let results = (2 * heads * queries * columns).div_ceil(256);
                assert_eq!(last.grid, [results.min(MAX_GRID) as u32, 1, 1]);
            }
        }
        Ok(())
    }

    #[test]
    fn sums_of_parts_take_memory_only_where_there_are_parts() -> Result<()> {
        let Some(device) = gpu("sums_of_parts_take_memory_only_where_there_are_parts") else {
            return Ok(());
        };
        let card = device.card();
        let own = Device::Rocm(RocmDevice::new_with_stream(0)?);
        let Device::Rocm(stream) = &own else {
            panic!("it was made so")
        };
        for keys in [200, 600] {
            let zeros = |rows| Tensor::zeros((1, 1, rows, 8), DType::F32, &own);
            let (q, k, v) = (zeros(1)?, zeros(keys)?, zeros(keys)?);
            let held = [&q, &k, &v].map(Tensor::storage_and_layout);
            let [q, k, v] = held.each_ref().map(|(storage, layout)| match &**storage {
                Storage::Rocm(storage) => (storage, *layout),
                _ => panic!("the tensors are on the device"),
            });
            let (result, blocks) = allocations_of(stream, || sdpa(q, k, v, None, PLAIN));
            result?;
            let parts = (card.multiprocessors * 4).min(keys / 256);
            assert_eq!(blocks, if parts > 1 { 3 } else { 1 }, "{keys} keys");
        }
        Ok(())
    }

    #[test]
    fn tensors_have_to_fit_together() -> Result<()> {
        let Some(device) = gpu("tensors_have_to_fit_together") else {
            return Ok(());
        };
        let device = Device::Rocm(device);
        let zeros = |shape: [usize; 4]| Tensor::zeros(&shape, DType::F32, &device);
        let fits = |q: &Tensor, k: &Tensor, v: &Tensor, mask: Option<&Tensor>| {
            attended(q, k, v, mask, PLAIN).0.is_ok()
        };
        let q = zeros([2, 4, 3, 8])?;
        let (k, v) = (zeros([2, 2, 5, 8])?, zeros([2, 2, 5, 6])?);
        let mask = zeros([2, 4, 3, 5])?;
        assert!(fits(&q, &k, &v, Some(&mask)));
        for shape in [[1, 2, 5, 8], [2, 3, 5, 8], [2, 2, 4, 8], [2, 2, 5, 7]] {
            assert!(!fits(&q, &zeros(shape)?, &v, None), "keys {shape:?}");
        }
        for shape in [[1, 2, 5, 6], [2, 1, 5, 6], [2, 2, 4, 6]] {
            assert!(!fits(&q, &k, &zeros(shape)?, None), "values {shape:?}");
        }
        for shape in [[1, 4, 3, 5], [2, 2, 3, 5], [2, 4, 1, 5], [2, 4, 3, 4]] {
            assert!(!fits(&q, &k, &v, Some(&zeros(shape)?)), "mask {shape:?}");
        }
        let three = (zeros([2, 3, 5, 8])?, zeros([2, 3, 5, 6])?);
        assert!(!fits(&q, &three.0, &three.1, None), "4 heads share no 3");
        let none = (zeros([2, 0, 5, 8])?, zeros([2, 0, 5, 6])?);
        assert!(!fits(&q, &none.0, &none.1, None));
        let halves = k.to_dtype(DType::F16)?;
        assert!(!fits(&q, &halves, &v, None));
        assert!(!fits(&q, &k, &v, Some(&mask.to_dtype(DType::F16)?)));
        // A last dimension with gaps, which matters where it has more than one element.
        let turned = zeros([2, 2, 8, 5])?.transpose(2, 3)?;
        assert!(!fits(&q, &turned, &v, None));
        let single = zeros([2, 2, 5, 3])?.narrow(3, 1, 1)?;
        assert!(fits(&q, &k, &single, None));
        if crate::rocm::device_count()? > 1 {
            let other = v.to_device(&Device::new_rocm(1)?)?;
            assert!(!fits(&q, &k, &other, None));
        }
        Ok(())
    }

    #[test]
    fn rows_of_whole_quads_are_packed() -> Result<()> {
        let Some(device) = gpu("rows_of_whole_quads_are_packed") else {
            return Ok(());
        };
        let device = Device::Rocm(device);
        let zeros = |shape: [usize; 4]| Tensor::zeros(&shape, DType::F32, &device);
        let q = zeros([1, 2, 3, 8])?;
        let (k, v) = (zeros([1, 2, 5, 8])?, zeros([1, 2, 5, 8])?);
        // What is packed, and of few queries, is split.
        let packed = |q: &Tensor, k: &Tensor, v: &Tensor| -> Result<bool> {
            let (result, launches) = attended(q, k, v, None, PLAIN);
            result?;
            Ok(launches[0].kernel == "sdpa_split_f32_64")
        };
        assert!(packed(&q, &k, &v)?);
        let part = |shape: [usize; 4], first: usize| zeros(shape)?.narrow(3, first, 8);
        assert!(packed(&part([1, 2, 3, 12], 4)?, &k, &v)?);
        for first in [1, 2, 3] {
            let within = part([1, 2, 3, 12], first)?;
            assert!(!packed(&within, &k, &v)?, "begins within a quad: {first}");
        }
        assert!(
            !packed(&q, &part([1, 2, 5, 10], 0)?, &v)?,
            "rows are no quads apart"
        );
        assert!(
            !packed(&q, &k, &zeros([1, 2, 5, 6])?)?,
            "columns are no quads"
        );
        Ok(())
    }
}
