//! candle-nn's scaled dot product attention on ROCm against a naive one on the CPU, in f64, on random configurations.
#![cfg(feature = "rocm")]
#[path = "rocm_sdpa/masks.rs"]
mod masks;
mod rocm_ulp;

use candle::{DType, Device, Result, Tensor};
use candle_nn::ops;
use masks::Masking;
use rocm_ulp::ulp;

const CONFIGURATIONS: usize = 100;
const SEED: u64 = 0x5eed;

/// Half the distance of f32's neighbours near 1: what a rounding costs.
const ROUNDING: f64 = 1. / (1 << 24) as f64;

/// SplitMix64 (Steele, Lea and Flood, 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn choose<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.next() as usize % choices.len()]
    }

    /// Between -1 and 1.
    fn number(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1 << 23) as f32 - 1.
    }
}

/// How a tensor lies in its memory.
#[derive(Clone, Copy, Debug)]
enum View {
    Contiguous,
    /// (batch, rows, heads, columns) behind (batch, heads, rows, columns).
    HeadsInside,
    /// The first rows of a cache with room for more.
    Cache,
    /// Columns 1 and following of rows that have one more.
    Misaligned,
}

#[derive(Clone, Copy, Debug)]
struct Configuration {
    dtype: DType,
    batch: usize,
    key_heads: usize,
    /// Heads of queries to a head of keys.
    group: usize,
    queries: usize,
    keys: usize,
    depth: usize,
    columns: usize,
    cap: f32,
    masking: Masking,
    views: [View; 3],
}

impl Configuration {
    fn random(random: &mut Random) -> Self {
        let views = [
            View::Contiguous,
            View::HeadsInside,
            View::Cache,
            View::Misaligned,
        ];
        let queries = random.choose(&[1, 1, 1, 2, 5, 8, 9, 33, 64, 65, 70]);
        // Only of few queries, many keys are dealt to several blocks.
        let most = if queries > 9 { 8 } else { 10 };
        let keys = random.choose(&[1, 3, 16, 33, 64, 65, 100, 200, 700, 1100][..most]);
        let masking = Masking::random(random);
        let keys = masking.keys(keys, queries);
        let same = random.choose(&[true, true, false]);
        let depths = [1, 17, 32, 64, 72, 80, 96, 128, 256, 260];
        let depth = random.choose(&depths);
        Self {
            dtype: random.choose(&[DType::F32, DType::F16, DType::BF16]),
            batch: random.choose(&[1, 1, 2]),
            key_heads: random.choose(&[1, 2, 3]),
            group: random.choose(&[1, 1, 2, 4]),
            queries,
            keys,
            depth,
            columns: if same { depth } else { random.choose(&depths) },
            cap: random.choose(&[1., 1., 2., 30.]),
            masking,
            views: [
                random.choose(&views),
                random.choose(&views),
                random.choose(&views),
            ],
        }
    }

    fn scale(&self) -> f32 {
        1. / (self.depth as f32).sqrt()
    }

    /// Sizes for each of the kernels of 16 bits: single queries, few and many, of each width, in rows that consist of
    /// packs of 16 bytes, which matrix units take, and in others.
    fn of_every_kernel() -> Vec<Self> {
        let mut all = vec![];
        for dtype in [DType::F16, DType::BF16] {
            for depth in [64, 128, 256, 60, 124, 252] {
                for (batch, group, queries, keys) in
                    [(1, 1, 1, 300), (1, 4, 2, 300), (14, 4, 17, 20)]
                {
                    all.push(Self {
                        dtype,
                        batch,
                        key_heads: 1,
                        group,
                        queries,
                        keys,
                        depth,
                        columns: depth,
                        cap: 1.,
                        masking: Masking::Plain,
                        views: [View::Contiguous; 3],
                    });
                }
            }
        }
        all
    }

    /// What rounding the weights changes of a sum of values below 1: on matrix units, which queries of 16 bits may go to,
    /// they are rounded to that type, in f16 to multiples of 2^-24.
    fn of_weights(&self) -> f64 {
        match self.dtype {
            DType::F16 => ulp(DType::F16, 1.) / 2. + self.keys as f64 * ROUNDING,
            DType::BF16 => ulp(DType::BF16, 1.) / 2.,
            _ => 0.,
        }
    }

    /// Of q, k and v.
    fn shapes(&self) -> [[usize; 4]; 3] {
        let heads = self.key_heads * self.group;
        [
            [self.batch, heads, self.queries, self.depth],
            [self.batch, self.key_heads, self.keys, self.depth],
            [self.batch, self.key_heads, self.keys, self.columns],
        ]
    }
}

/// Numbers between -1 and 1 that the type has.
fn tensor(random: &mut Random, shape: [usize; 4], view: View, dtype: DType) -> Result<Tensor> {
    let [batch, heads, rows, columns] = shape;
    let behind = match view {
        View::Contiguous => shape,
        View::HeadsInside => [batch, rows, heads, columns],
        View::Cache => [batch, heads, rows + 5, columns],
        View::Misaligned => [batch, heads, rows, columns + 1],
    };
    let numbers = (0..behind.iter().product()).map(|_: usize| random.number());
    let numbers = Tensor::from_vec(numbers.collect(), &behind, &Device::Cpu)?.to_dtype(dtype)?;
    in_view(&numbers, shape, view)
}

/// The view of that shape on what lies behind it.
fn in_view(behind: &Tensor, shape: [usize; 4], view: View) -> Result<Tensor> {
    match view {
        View::Contiguous => Ok(behind.clone()),
        View::HeadsInside => behind.transpose(1, 2),
        View::Cache => behind.narrow(2, 0, shape[2]),
        View::Misaligned => behind.narrow(3, 1, shape[3]),
    }
}

/// The same view of the same numbers on a device: what is copied as it is would be contiguous there.
fn on(device: &Device, tensor: &Tensor, view: View) -> Result<Tensor> {
    let shape = tensor.dims4()?;
    let shape = [shape.0, shape.1, shape.2, shape.3];
    let behind = match view {
        View::Contiguous => tensor.clone(),
        View::HeadsInside => tensor.transpose(1, 2)?,
        View::Cache => tensor.pad_with_zeros(2, 0, 5)?,
        View::Misaligned => tensor.pad_with_zeros(3, 1, 0)?,
    };
    in_view(&behind.contiguous()?.to_device(device)?, shape, view)
}

/// The numbers in f64.
fn wide(tensor: &Tensor) -> Result<Tensor> {
    tensor.to_dtype(DType::F64)?.contiguous()
}

/// Attention as it is defined, in f64: what comes out, and by how much f32's roundings may change a score.
fn naive(
    c: &Configuration,
    [q, k, v]: [&Tensor; 3],
    mask: Option<&Tensor>,
) -> Result<(Tensor, f64)> {
    let repeated = |tensor: &Tensor| -> Result<Tensor> {
        let (batch, heads, rows, columns) = tensor.dims4()?;
        let tensor = wide(tensor)?.unsqueeze(2)?;
        let tensor = tensor.broadcast_as((batch, heads, c.group, rows, columns))?;
        tensor.reshape((batch, heads * c.group, rows, columns))
    };
    let k = repeated(k)?.transpose(2, 3)?.contiguous()?;
    let (q, v) = (wide(q)?, repeated(v)?);
    let scale = f64::from(c.scale());
    let largest = (q.abs()?.matmul(&k.abs()?)? * scale)?;
    let largest = largest.flatten_all()?.max(0)?.to_scalar::<f64>()?;
    let mut scores = (q.matmul(&k)? * scale)?;
    // A rounding for each product, and some for the scale, the mask and the exponential.
    let mut error = (c.depth + 8) as f64 * ROUNDING * (largest + 1.);
    if c.cap != 1. {
        let cap = f64::from(c.cap);
        scores = ((scores / cap)?.tanh()? * cap)?;
        error += 8. * ROUNDING * cap;
    }
    let scores = masks::hide(c, scores, mask)?;
    Ok((ops::softmax(&scores, 3)?.matmul(&v)?, error))
}

fn numbers(tensor: &Tensor) -> Result<Vec<f64>> {
    let tensor = tensor.to_device(&Device::Cpu)?.to_dtype(DType::F64)?;
    tensor.flatten_all()?.to_vec1()
}

fn check(configuration: &Configuration, random: &mut Random, device: &Device) -> Result<()> {
    let c = configuration;
    let mut operands = vec![];
    for (shape, view) in c.shapes().into_iter().zip(c.views) {
        operands.push(tensor(random, shape, view, c.dtype)?);
    }
    let [q, k, v] = [&operands[0], &operands[1], &operands[2]];
    let [q_view, k_view, v_view] = c.views;
    let (own_q, own_k) = (on(device, q, q_view)?, on(device, k, k_view)?);
    let own_v = on(device, v, v_view)?;
    let mask = masks::mask(c, random)?;
    let (wanted, error) = naive(c, [q, k, v], mask.as_ref())?;
    let got = masks::sdpa(c, [&own_q, &own_k, &own_v], mask.as_ref())?;
    assert_eq!((got.dims(), got.dtype()), (wanted.dims(), c.dtype), "{c:?}");
    // A score that is off by e changes its weight by a factor of exp(e), and the sum of weights as well; and there is a
    // rounding for each value that is added. Values are below 1.
    let of_sums = 2. * error.exp_m1() + (c.keys + 8) as f64 * ROUNDING + c.of_weights();
    let pairs = numbers(&got)?.into_iter().zip(numbers(&wanted)?);
    for (at, (got, wanted)) in pairs.enumerate() {
        let allowed = of_sums + ulp(c.dtype, wanted);
        assert!(
            allowed.is_finite() && (got - wanted).abs() <= allowed,
            "{c:?}: element {at} is {got} instead of {wanted}, off by {allowed} at most"
        );
    }
    Ok(())
}

mod agrees_with_naive_attention {
    use super::*;

    #[test]
    fn rocm() -> Result<()> {
        let device = Device::new_rocm(0)?;
        let mut random = Random(SEED);
        for _ in 0..CONFIGURATIONS {
            let configuration = Configuration::random(&mut random);
            check(&configuration, &mut random, &device)?;
        }
        for configuration in Configuration::of_every_kernel() {
            check(&configuration, &mut random, &device)?;
        }
        Ok(())
    }
}

mod what_does_not_fit_is_an_error {
    use super::masks::plain_sdpa as sdpa;
    use super::*;

    #[test]
    fn rocm() -> Result<()> {
        let device = Device::new_rocm(0)?;
        let zeros = |shape: (usize, usize, usize, usize)| Tensor::zeros(shape, DType::F32, &device);
        let q = zeros((2, 4, 3, 8))?;
        let k = zeros((2, 2, 5, 8))?;
        assert_eq!(sdpa(&q, &k, &k)?.dims(), [2, 4, 3, 8]);
        let none = sdpa(&q.narrow(2, 0, 0)?, &k, &k)?;
        assert_eq!(none.dims(), [2, 4, 0, 8]);
        let (narrow, long) = (zeros((2, 2, 5, 7))?, zeros((2, 2, 6, 8))?);
        let (three, half) = (zeros((2, 3, 5, 8))?, k.to_dtype(DType::F16)?);
        let strided = zeros((2, 2, 8, 5))?.transpose(2, 3)?;
        for (why, result) in [
            ("depth", sdpa(&q, &narrow, &k)),
            ("keys", sdpa(&q, &k, &long)),
            ("heads", sdpa(&q, &three, &three)),
            ("types", sdpa(&q, &k, &half)),
            ("strides", sdpa(&q, &strided, &k)),
            (
                "f64",
                sdpa(
                    &q.to_dtype(DType::F64)?,
                    &k.to_dtype(DType::F64)?,
                    &k.to_dtype(DType::F64)?,
                ),
            ),
        ] {
            assert!(result.is_err(), "{why}");
        }
        masks::check_errors(&q, &k)?;
        Ok(())
    }
}
