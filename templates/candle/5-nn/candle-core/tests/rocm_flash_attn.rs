//! Flash attention on ROCm against plain loops in f64, for each of its functions.
//!
//! As in rocm_basic.rs, a test without a GPU writes `SKIPPED: <test>: <reason>` to stderr.
#![cfg(feature = "rocm")]
mod rocm_gpu;

use candle_core::rocm::flash_attn::*;
use candle_core::{DType, Device, Result, Tensor};
use rocm_gpu::gpu;

/// How scores are made, in the order of the longest function's arguments.
#[derive(Clone, Copy, Debug)]
struct Scores {
    slopes: bool,
    scale: f32,
    window: [Option<usize>; 2],
    cap: f32,
}

const PLAIN: Scores = Scores {
    slopes: false,
    scale: 0.25,
    window: [None, None],
    cap: 0.,
};

const CAUSAL: Scores = Scores {
    window: [None, Some(0)],
    ..PLAIN
};

/// Small numbers that repeat at no period of a kernel: (rows, heads, columns).
fn numbers(shape: (usize, usize, usize), seed: usize) -> Vec<f32> {
    let number = |i: usize| ((i + seed) * 7919 % 1009) as f32 / 504. - 1.;
    (0..shape.0 * shape.1 * shape.2).map(number).collect()
}

/// One sequence: (rows, heads, columns) of queries, keys and values.
struct Sequence {
    heads: [usize; 2],
    rows: [usize; 2],
    depth: usize,
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
}

impl Sequence {
    fn new(heads: [usize; 2], rows: [usize; 2], depth: usize, seed: usize) -> Self {
        let of = |which: usize, more| numbers((rows[which], heads[which], depth), seed + more);
        Self {
            heads,
            rows,
            depth,
            q: of(0, 0),
            k: of(1, 11),
            v: of(1, 29),
        }
    }

    fn attended(&self, scores: Scores) -> Vec<f32> {
        let ([heads, key_heads], [queries, keys]) = (self.heads, self.rows);
        let mut y = vec![];
        for (query, head) in (0..queries).flat_map(|q| (0..heads).map(move |h| (q, h))) {
            let place = (query + keys) as i64 - queries as i64;
            let shared = head / (heads / key_heads);
            let row = |key: usize| (key * key_heads + shared) * self.depth;
            let score = |key: usize| {
                let at = key as i64;
                let [before, after] = scores.window.map(|n| n.map_or(i64::MAX / 4, |n| n as i64));
                if !(place - before..=place + after).contains(&at) {
                    return f64::NEG_INFINITY;
                }
                let first = (query * heads + head) * self.depth;
                let pairs = self.q[first..][..self.depth]
                    .iter()
                    .zip(&self.k[row(key)..]);
                let product: f64 = pairs.map(|(&q, &k)| f64::from(q) * f64::from(k)).sum();
                let (product, cap) = (product * f64::from(scores.scale), f64::from(scores.cap));
                let capped = if cap == 0. {
                    product
                } else {
                    cap * (product / cap).tanh()
                };
                capped - f64::from(slope(scores, head)) * (place - at).abs() as f64
            };
            let weights: Vec<f64> = (0..keys).map(|key| score(key).exp()).collect();
            let total: f64 = weights.iter().sum();
            for column in 0..self.depth {
                let values =
                    (0..keys).map(|key| weights[key] * f64::from(self.v[row(key) + column]));
                let sum: f64 = values.sum();
                y.push(if total == 0. {
                    0.
                } else {
                    (sum / total) as f32
                });
            }
        }
        y
    }
}

fn slope(scores: Scores, head: usize) -> f32 {
    if scores.slopes {
        0.5 / (head + 1) as f32
    } else {
        0.
    }
}

fn slopes(scores: Scores, heads: usize, device: &Device) -> Result<Option<Tensor>> {
    let each: Vec<f32> = (0..heads).map(|head| slope(scores, head)).collect();
    let tensor = scores.slopes.then(|| Tensor::new(each, device));
    tensor.transpose()
}

fn near(found: &Tensor, wanted: &[f32], dtype: DType, what: &str) -> Result<()> {
    // A score is a sum of as many products as a row has, each of which is rounded.
    let allowed = match dtype {
        DType::F32 => found.dim(candle_core::D::Minus1)? as f32 / (1 << 24) as f32,
        DType::F16 => 1e-3,
        _ => 8e-3,
    };
    assert_eq!(found.dtype(), dtype, "{what}");
    let found = found
        .to_dtype(DType::F32)?
        .flatten_all()?
        .to_vec1::<f32>()?;
    assert_eq!(found.len(), wanted.len(), "{what}");
    for (at, (found, wanted)) in found.iter().zip(wanted).enumerate() {
        let error = (found - wanted).abs();
        assert!(
            error <= allowed,
            "{what}: {found} instead of {wanted} at {at}"
        );
    }
    Ok(())
}

/// Numbers that the type has, too.
fn rounded(numbers: &mut [f32], dtype: DType) -> Result<()> {
    let tensor = Tensor::new(&*numbers, &Device::Cpu)?.to_dtype(dtype)?;
    numbers.copy_from_slice(&tensor.to_dtype(DType::F32)?.to_vec1::<f32>()?);
    Ok(())
}

/// Sequences one behind another, their ends, and the most rows of one.
struct Batch {
    sequences: Vec<Sequence>,
    ends: [Vec<u32>; 2],
    most: [usize; 2],
}

impl Batch {
    fn new(heads: [usize; 2], rows: &[[usize; 2]], depth: usize, dtype: DType) -> Result<Self> {
        let mut sequences = vec![];
        let (mut ends, mut most) = ([vec![0], vec![0]], [0, 0]);
        for (at, &rows) in rows.iter().enumerate() {
            let mut sequence = Sequence::new(heads, rows, depth, 101 * at);
            for numbers in [&mut sequence.q, &mut sequence.k, &mut sequence.v] {
                rounded(numbers, dtype)?;
            }
            sequences.push(sequence);
            for which in [0, 1] {
                ends[which].push(ends[which][at] + rows[which] as u32);
                most[which] = most[which].max(rows[which]);
            }
        }
        Ok(Self {
            sequences,
            ends,
            most,
        })
    }

    /// (all rows, heads, depth) of q, k and v.
    fn tensors(&self, dtype: DType, device: &Device) -> Result<[Tensor; 3]> {
        let first = &self.sequences[0];
        let tensor = |of: fn(&Sequence) -> &Vec<f32>, which: usize| {
            let all: Vec<f32> = self.sequences.iter().flat_map(|s| of(s).clone()).collect();
            let rows = *self.ends[which].last().unwrap() as usize;
            let shape = (rows, first.heads[which], first.depth);
            Tensor::from_vec(all, shape, device)?.to_dtype(dtype)
        };
        Ok([
            tensor(|s| &s.q, 0)?,
            tensor(|s| &s.k, 1)?,
            tensor(|s| &s.v, 1)?,
        ])
    }

    fn starts(&self, device: &Device) -> Result<[Tensor; 2]> {
        let tensor = |which: usize| Tensor::new(&self.ends[which][..], device);
        Ok([tensor(0)?, tensor(1)?])
    }

    fn wanted(&self, scores: Scores) -> Vec<f32> {
        let sequences = self.sequences.iter();
        sequences.flat_map(|each| each.attended(scores)).collect()
    }
}

/// A third of the ways to make scores, another one at each `turn`: three turns see all of them.
fn check(
    turn: usize,
    count: usize,
    rows: [usize; 2],
    depth: usize,
    dtype: DType,
    device: &Device,
) -> Result<()> {
    // Single queries have heads of keys of their own.
    let key_heads = if rows[0] == 1 { 4 } else { 2 };
    let batch = Batch::new([4, key_heads], &vec![rows; count], depth, dtype)?;
    let [q, k, v] = batch.tensors(dtype, device)?;
    let whole = |x: &Tensor, rows: usize| x.reshape((count, rows, x.dim(1)?, depth));
    let (q, k, v) = (
        whole(&q, rows[0])?,
        whole(&k, rows[1])?,
        whole(&v, rows[1])?,
    );
    let what = format!("{rows:?}, {depth}, {dtype:?}");
    let near = |found: Tensor, scores: Scores| {
        assert_eq!(found.dims(), q.dims(), "{what}");
        near(
            &found,
            &batch.wanted(scores),
            dtype,
            &format!("{what}, {scores:?}"),
        )
    };
    let scale = PLAIN.scale;
    let windowed = Scores {
        window: [Some(5), Some(2)],
        ..PLAIN
    };
    let sloped = Scores {
        slopes: true,
        ..CAUSAL
    };
    let both = Scores {
        slopes: true,
        ..windowed
    };
    let alibi = slopes(sloped, 4, device)?.unwrap();
    for way in ((3 - turn % 3) % 3..7).step_by(3) {
        match way {
            0 => near(flash_attn(&q, &k, &v, scale, false)?, PLAIN)?,
            1 => near(flash_attn(&q, &k, &v, scale, true)?, CAUSAL)?,
            2 => near(
                flash_attn_windowed(&q, &k, &v, scale, Some(5), Some(2))?,
                windowed,
            )?,
            3 => near(flash_attn_alibi(&q, &k, &v, &alibi, scale, true)?, sloped)?,
            4 => {
                let (left, right) = (Some(5), Some(2));
                let found = flash_attn_alibi_windowed(&q, &k, &v, &alibi, scale, left, right)?;
                near(found, both)?;
            }
            _ => {
                let (slopes, cap) = if way == 5 {
                    (Some(&alibi), 0.7)
                } else {
                    (None, 1.)
                };
                let (left, right) = (None, Some(3));
                let found =
                    flash_attn_alibi_windowed_softcap(&q, &k, &v, slopes, scale, left, right, cap)?;
                let scores = Scores {
                    slopes: slopes.is_some(),
                    scale,
                    window: [left, right],
                    cap,
                };
                near(found, scores)?;
            }
        }
    }
    Ok(())
}

#[test]
fn whole_sequences_are_what_plain_loops_compute() -> Result<()> {
    let Some(device) = gpu("whole_sequences_are_what_plain_loops_compute") else {
        return Ok(());
    };
    // Single queries, few and many, of each width of kernels; keys that are dealt to several blocks; rows that are no
    // packs of 16 bytes in 16 bits; and so many sequences that blocks for tiles of their queries fill a card.
    // Each shape sees all ways to make scores, in one type or another, and each type all of them, in one shape or another.
    let shapes = [
        (2, [1, 40], 64),
        (2, [1, 40], 128),
        (2, [1, 40], 256),
        (2, [65, 70], 64),
        (2, [2, 600], 128),
        (2, [66, 67], 72),
        (2, [3, 20], 256),
        (2, [9, 20], 200),
        (2, [9, 20], 60),
        (2, [9, 20], 124),
        (2, [9, 20], 252),
        (2, [2, 20], 60),
        (2, [2, 20], 124),
        (2, [2, 20], 252),
        (14, [17, 18], 64),
        (14, [17, 18], 128),
        (14, [17, 18], 256),
    ];
    for (at, (count, rows, depth)) in shapes.into_iter().enumerate() {
        for (type_, dtype) in [DType::F32, DType::F16, DType::BF16]
            .into_iter()
            .enumerate()
        {
            check(at + type_, count, rows, depth, dtype, &device)?;
        }
    }
    (0..3).try_for_each(|turn| check(turn, 2, [9, 5], 20, DType::F32, &device))
}

#[test]
fn tensors_have_to_fit_together() -> Result<()> {
    let Some(device) = gpu("tensors_have_to_fit_together") else {
        return Ok(());
    };
    let batch = Batch::new([2, 1], &[[6, 9]], 16, DType::F32)?;
    let [q, k, v] = batch.tensors(DType::F32, &device)?;
    let heads_first = |x: &Tensor| -> Result<Tensor> {
        x.transpose(0, 1)?
            .contiguous()?
            .transpose(0, 1)?
            .unsqueeze(0)
    };
    let (q, k, v) = (heads_first(&q)?, heads_first(&k)?, heads_first(&v)?);
    let found = flash_attn(&q, &k, &v, PLAIN.scale, true)?;
    near(&found, &batch.wanted(CAUSAL), DType::F32, "heads first")?;
    let wide = |x: &Tensor| x.to_dtype(DType::F64);
    assert!(flash_attn(&wide(&q)?, &wide(&k)?, &wide(&v)?, 1., true).is_err());
    assert!(flash_attn(&q, &k.to_dtype(DType::F16)?, &v, 1., true).is_err());
    assert!(flash_attn(&q, &k.narrow(3, 0, 8)?, &v, 1., true).is_err());
    assert!(flash_attn(&q, &k, &v.narrow(1, 0, 8)?, 1., true).is_err());
    assert!(flash_attn(&q.squeeze(0)?, &k, &v, 1., true).is_err());
    let turned = q.transpose(1, 3)?;
    assert!(flash_attn(&turned, &turned, &turned, 1., true).is_err());
    let three = Tensor::zeros((1, 9, 3, 16), DType::F32, &device)?;
    assert!(flash_attn(&q, &three, &three, 1., true).is_err());
    let slopes = |n: usize, device: &Device| Tensor::zeros(n, DType::F32, device);
    assert!(flash_attn_alibi(&q, &k, &v, &slopes(2, &device)?, 1., true).is_ok());
    assert!(flash_attn_alibi(&q, &k, &v, &slopes(3, &device)?, 1., true).is_err());
    assert!(flash_attn_alibi(&q, &k, &v, &slopes(2, &Device::Cpu)?, 1., true).is_err());
    let half = slopes(2, &device)?.to_dtype(DType::F16)?;
    assert!(flash_attn_alibi(&q, &k, &v, &half, 1., true).is_err());
    let on_cpu = q.to_device(&Device::Cpu)?;
    assert!(flash_attn(&on_cpu, &on_cpu, &on_cpu, 1., true).is_err());
    Ok(())
}

#[test]
fn sequences_have_lengths_of_their_own() -> Result<()> {
    let Some(device) = gpu("sequences_have_lengths_of_their_own") else {
        return Ok(());
    };
    let rows = [[3, 30], [0, 4], [66, 70], [1, 0], [2, 90]];
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        let batch = Batch::new([4, 2], &rows, 64, dtype)?;
        let [q, k, v] = batch.tensors(dtype, &device)?;
        let ([sq, sk], [mq, mk]) = (batch.starts(&device)?, batch.most);
        let near = |found: Tensor, scores: Scores| {
            let what = format!("{dtype:?}, {scores:?}");
            near(&found, &batch.wanted(scores), dtype, &what)
        };
        let scale = PLAIN.scale;
        let found = flash_attn_varlen(&q, &k, &v, &sq, &sk, mq, mk, scale, false)?;
        near(found, PLAIN)?;
        let found = flash_attn_varlen(&q, &k, &v, &sq, &sk, mq, mk, scale, true)?;
        near(found, CAUSAL)?;
        let (left, right) = (Some(7), Some(1));
        let windowed = Scores {
            window: [left, right],
            ..PLAIN
        };
        let found = flash_attn_varlen_windowed(&q, &k, &v, &sq, &sk, mq, mk, scale, left, right)?;
        near(found, windowed)?;
        let sloped = Scores {
            slopes: true,
            ..CAUSAL
        };
        let alibi = slopes(sloped, 4, &device)?.unwrap();
        let found = flash_attn_varlen_alibi(&q, &k, &v, &alibi, &sq, &sk, mq, mk, scale, true)?;
        near(found, sloped)?;
        let both = Scores {
            slopes: true,
            ..windowed
        };
        let found = flash_attn_varlen_alibi_windowed(
            &q, &k, &v, &alibi, &sq, &sk, mq, mk, scale, left, right,
        )?;
        near(found, both)?;
        let found = flash_attn_varlen_alibi_windowed_softcap(
            &q,
            &k,
            &v,
            Some(&alibi),
            &sq,
            &sk,
            mq,
            mk,
            scale,
            left,
            right,
            0.6,
        )?;
        near(found, Scores { cap: 0.6, ..both })?;
    }
    Ok(())
}

#[test]
fn keys_and_values_lie_in_pages() -> Result<()> {
    let Some(device) = gpu("keys_and_values_lie_in_pages") else {
        return Ok(());
    };
    let (size, dtype) = (32, DType::F32);
    let batch = Batch::new([4, 2], &[[3, 70], [1, 32], [40, 40]], 64, dtype)?;
    let [q, k, v] = batch.tensors(dtype, &device)?;
    let ([sq, sk], [mq, mk]) = (batch.starts(&device)?, batch.most);
    // Pages in the order 5, 4, 3, ...: three, one and two of them.
    let paged = |x: &Tensor| -> Result<Tensor> {
        let mut pages = vec![];
        for (at, sequence) in batch.sequences.iter().enumerate() {
            let (first, rows) = (batch.ends[1][at] as usize, sequence.rows[1]);
            let own = x.narrow(0, first, rows)?;
            let own = own.pad_with_zeros(0, 0, rows.next_multiple_of(size) - rows)?;
            for page in own.chunk(own.dim(0)? / size, 0)? {
                pages.insert(0, page);
            }
        }
        Tensor::stack(&pages, 0)
    };
    let (k, v) = (paged(&k)?, paged(&v)?);
    let table = Tensor::new(&[[5u32, 4, 3], [2, 0, 0], [1, 0, 9]], &device)?;
    let attended = |table: &Tensor, size: usize, cap: Option<f32>| {
        let (left, right, scale) = (Some(40), Some(0), PLAIN.scale);
        flash_attn_varlen_paged_windowed(
            &q, &k, &v, &sq, &sk, table, None, mq, mk, scale, left, right, size, cap,
        )
    };
    for cap in [None, Some(0.8)] {
        let scores = Scores {
            window: [Some(40), Some(0)],
            cap: cap.unwrap_or(0.),
            ..PLAIN
        };
        let found = attended(&table, size, cap)?;
        near(&found, &batch.wanted(scores), dtype, "pages")?;
    }
    assert!(attended(&table, 16, None).is_err(), "pages have 32 keys");
    assert!(attended(&table.narrow(0, 0, 2)?, size, None).is_err());
    assert!(attended(&table.to_dtype(DType::F32)?, size, None).is_err());
    let short = sq.narrow(0, 0, 1)?;
    assert!(flash_attn_varlen(&q, &q, &q, &short, &short, mq, mq, 1., true).is_err());
    assert!(flash_attn_varlen(&q, &q, &q, &sq, &short, mq, mq, 1., true).is_err());
    let signed = sq.to_dtype(DType::I64)?;
    assert!(flash_attn_varlen(&q, &q, &q, &signed, &sq, mq, mq, 1., true).is_err());
    Ok(())
}
