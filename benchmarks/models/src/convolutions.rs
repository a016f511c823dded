//! Convolutions that nobody chose: forward, and the two that gradients are, as Candle's `backprop` asks for them.
use crate::{apart_said, devices, difference_of, said, seconds, Work};
use candle::{DType, Device, Result, Tensor};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// Elements of the largest tensor, and products of numbers, at most.
const ELEMENTS: usize = 1 << 25;
const PRODUCTS: usize = 1 << 36;

#[derive(Clone, Copy, Debug)]
enum Direction {
    Forward,
    ByInput,
    ByWeights,
}

#[derive(Clone, Copy, Debug)]
struct Convolution {
    direction: Direction,
    dtype: DType,
    x: [usize; 4],
    channels: usize,
    groups: usize,
    kernel: usize,
    padding: usize,
    stride: usize,
    dilation: usize,
}

/// Those from number `from` on.
pub(crate) fn time(number: usize, seed: u64, from: usize) -> Result<()> {
    let devices = devices();
    let mut random = StdRng::seed_from_u64(seed);
    let mut factors = Vec::new();
    for at in 1..=number {
        let drawn = Convolution::draw(&mut random);
        if at < from {
            continue;
        }
        // Whoever waits for a row knows which one.
        eprintln!("#{at} {}", drawn.name());
        match drawn.measure(&devices) {
            Ok((times, row)) => {
                println!("#{at} {}: {row}", drawn.name());
                if let [first, .., last] = times.as_slice() {
                    factors.push(first / last);
                }
            }
            Err(error) => println!("#{at} {}: {error}", drawn.name()),
        }
    }
    factors.sort_by(f64::total_cmp);
    let share = |least: f64| factors.iter().filter(|factor| **factor >= least).count();
    if let Some(median) = factors.get(factors.len() / 2) {
        println!(
            "{} of {}: median {median:.2} x, at least 0.9 x {}, below 0.6 x {}, least {:.2} x",
            factors.len(),
            number + 1 - from,
            share(0.9),
            factors.len() - share(0.6),
            factors[0],
        );
    }
    Ok(())
}

/// Each factor of two as likely as another.
fn size(random: &mut StdRng, most: usize) -> usize {
    let exact: f64 = random.random_range(0.0..(most as f64).ln());
    exact.exp().round() as usize
}

impl Convolution {
    fn draw(random: &mut StdRng) -> Self {
        let direction = [Direction::Forward, Direction::ByInput, Direction::ByWeights];
        let dtype = [DType::F32, DType::F16, DType::BF16];
        let kernel = random.random_range(1..=7);
        let side = 7 + size(random, 218) - 1;
        let (mut inputs, mut channels) = (size(random, 512), size(random, 512));
        // One of four has groups, and one of eight as many as there are channels.
        let groups = match random.random_range(0..8) {
            0 => inputs.min(64),
            1 => random.random_range(2..=4),
            _ => 1,
        };
        inputs = inputs.next_multiple_of(groups);
        channels = if groups > 4 {
            inputs
        } else {
            channels.next_multiple_of(groups)
        };
        let stride = random.random_range(1..=2);
        let padding = random.random_range(0..=kernel / 2);
        let dilation = if kernel <= 3 {
            random.random_range(1..=2)
        } else {
            1
        };
        let pixels = (side / stride + 1).pow(2);
        let products = channels * inputs / groups * kernel * kernel * pixels;
        let largest = (inputs * side * side).max(channels * pixels);
        let most = (ELEMENTS / largest).min(PRODUCTS / products).clamp(1, 256);
        Self {
            direction: direction[random.random_range(0..3)],
            dtype: dtype[random.random_range(0..3)],
            x: [size(random, most.max(2)).min(most), inputs, side, side],
            channels,
            groups,
            kernel,
            padding,
            stride,
            dilation,
        }
    }

    fn name(&self) -> String {
        let [b, c, h, w] = self.x;
        let Self {
            direction,
            dtype,
            channels,
            groups,
            kernel,
            padding,
            stride,
            dilation,
            ..
        } = self;
        format!("{direction:?} {dtype:?} {b}x{c}x{h}x{w}, {channels} channels, k{kernel} p{padding} s{stride} d{dilation} g{groups}")
    }

    /// Height and width of the result.
    fn results(&self) -> usize {
        (self.x[2] + 2 * self.padding - self.dilation * (self.kernel - 1) - 1) / self.stride + 1
    }

    /// Seconds on each device, and what is said of them.
    fn measure(&self, devices: &[(&str, Device)]) -> Result<(Vec<f64>, String)> {
        let y = [self.x[0], self.channels, self.results(), self.results()];
        let w = [
            self.channels,
            self.x[1] / self.groups,
            self.kernel,
            self.kernel,
        ];
        let made =
            |shape: [usize; 4]| Tensor::randn(0f32, 1., &shape, &Device::Cpu)?.to_dtype(self.dtype);
        let operands = match self.direction {
            Direction::Forward => (made(self.x)?, made(w)?),
            Direction::ByInput => (made(y)?, made(w)?),
            Direction::ByWeights => (made(self.x)?, made(y)?),
        };
        let mut works = Vec::new();
        for (name, device) in devices {
            let (a, b) = (operands.0.to_device(device)?, operands.1.to_device(device)?);
            let run = Box::new(move || self.compute(&a, &b));
            works.push(Work { name, device, run });
        }
        let apart = difference_of(&works)?;
        let times = seconds(&works)?;
        let row = said(&works, &times, None) + &apart.map_or(String::new(), apart_said);
        Ok((times, row))
    }

    /// Groups as Candle computes them: one by one.
    fn compute(&self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        let Self {
            groups,
            kernel,
            padding,
            stride,
            dilation,
            ..
        } = *self;
        if matches!(self.direction, Direction::Forward) {
            return a.conv2d(b, padding, stride, dilation, groups);
        }
        let dim = match self.direction {
            Direction::ByInput => 0,
            _ => 1,
        };
        let (of_a, of_b) = (a.chunk(groups, 1)?, b.chunk(groups, dim)?);
        let each = of_a.iter().zip(&of_b).map(|(a, b)| {
            if dim == 0 {
                let size =
                    (self.results() - 1) * stride + dilation * (kernel - 1) + 1 - 2 * padding;
                return a.conv_transpose2d(b, padding, self.x[2] - size, stride, dilation);
            }
            let gradient =
                a.transpose(0, 1)?
                    .conv2d(&b.transpose(0, 1)?, padding, dilation, stride, 1)?;
            gradient
                .transpose(0, 1)?
                .narrow(2, 0, kernel)?
                .narrow(3, 0, kernel)
        });
        let each = each.collect::<Result<Vec<_>>>()?;
        Tensor::cat(&each, dim ^ 1)
    }
}
