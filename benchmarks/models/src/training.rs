//! Steps of training. Weights are drawn on each device, so that losses differ.
use crate::{devices, said, seconds, Rate, Rows, Work};
use candle::{DType, Device, Module, Result, Tensor, D};
use candle_nn::{loss, ops, AdamW, Conv2dConfig, Embedding, Linear, RmsNorm};
use candle_nn::{Optimizer, VarBuilder, VarMap};
use std::cell::RefCell;

pub(crate) fn time(rows: &Rows) {
    rows.time(
        "a step of training, two convolutions and two linear layers",
        || {
            let labels = Tensor::from_iter((0..256u32).map(|i| i % 10), &Device::Cpu)?;
            let images = Tensor::randn(0f32, 1., (256, 1, 28, 28), &Device::Cpu)?;
            step(Rate(256, "images"), |vb| {
                let device = vb.device().clone();
                let (images, labels) = (images.to_device(&device)?, labels.to_device(&device)?);
                let model = Convolutions::new(vb)?;
                Ok(Box::new(move || {
                    loss::cross_entropy(&model.forward(&images)?, &labels)
                }))
            })
        },
    );
    rows.time("a step of training, a transformer of four layers", || {
        step(Rate(BATCH * LENGTH, "tok"), |vb| {
            let tokens = crate::made_up::tokens((BATCH, LENGTH), vb.device())?;
            let tokens = (tokens.to_dtype(DType::F32)? / (30_011. / WORDS as f64))?;
            let tokens = tokens.to_dtype(DType::U32)?;
            let labels = tokens.flatten_all()?;
            let model = Transformer::new(vb)?;
            Ok(Box::new(move || {
                loss::cross_entropy(&model.forward(&tokens)?, &labels)
            }))
        })
    });
}

type Loss = Box<dyn Fn() -> Result<Tensor>>;

/// Forward, backward and AdamW, in f32.
fn step(rate: Rate, model: impl Fn(VarBuilder) -> Result<Loss>) -> Result<String> {
    let devices = devices();
    let mut works = Vec::new();
    for (name, device) in &devices {
        let variables = VarMap::new();
        let loss = model(VarBuilder::from_varmap(&variables, DType::F32, device))?;
        let optimizer = RefCell::new(AdamW::new_lr(variables.all_vars(), 1e-3)?);
        let run = Box::new(move || {
            let loss = loss()?;
            optimizer.borrow_mut().backward_step(&loss)?;
            Ok(loss)
        });
        works.push(Work { name, device, run });
    }
    Ok(said(&works, &seconds(&works)?, Some(rate)))
}

/// For images of 28x28.
struct Convolutions {
    first: candle_nn::Conv2d,
    second: candle_nn::Conv2d,
    third: Linear,
    fourth: Linear,
}

impl Convolutions {
    fn new(vb: VarBuilder) -> Result<Self> {
        Ok(Self {
            first: candle_nn::conv2d(1, 32, 5, Conv2dConfig::default(), vb.pp("c1"))?,
            second: candle_nn::conv2d(32, 64, 5, Conv2dConfig::default(), vb.pp("c2"))?,
            third: candle_nn::linear(1024, 1024, vb.pp("l1"))?,
            fourth: candle_nn::linear(1024, 10, vb.pp("l2"))?,
        })
    }

    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let x = self.first.forward(x)?.max_pool2d(2)?;
        let x = self.second.forward(&x)?.max_pool2d(2)?.flatten_from(1)?;
        self.fourth.forward(&self.third.forward(&x)?.relu()?)
    }
}

const BATCH: usize = 16;
const LENGTH: usize = 256;
const HIDDEN: usize = 512;
const HEADS: usize = 8;
const WORDS: usize = 8192;

/// For texts of `LENGTH` words.
struct Transformer {
    words: Embedding,
    places: Tensor,
    layers: Vec<Layer>,
    norm: RmsNorm,
    head: Linear,
    mask: Tensor,
}

struct Layer {
    before_attention: RmsNorm,
    all: Linear,
    output: Linear,
    before_net: RmsNorm,
    up: Linear,
    down: Linear,
}

impl Transformer {
    fn new(vb: VarBuilder) -> Result<Self> {
        let hidden = |i: usize| {
            if i % LENGTH > i / LENGTH {
                f32::NEG_INFINITY
            } else {
                0.
            }
        };
        let mask: Vec<f32> = (0..LENGTH * LENGTH).map(hidden).collect();
        Ok(Self {
            words: candle_nn::embedding(WORDS, HIDDEN, vb.pp("words"))?,
            places: vb.get_with_hints((LENGTH, HIDDEN), "places", candle_nn::init::ZERO)?,
            layers: (0..4)
                .map(|at| Layer::new(vb.pp(at)))
                .collect::<Result<_>>()?,
            norm: candle_nn::rms_norm(HIDDEN, 1e-5, vb.pp("norm"))?,
            head: candle_nn::linear_no_bias(HIDDEN, WORDS, vb.pp("head"))?,
            mask: Tensor::from_vec(mask, (LENGTH, LENGTH), vb.device())?,
        })
    }

    fn forward(&self, tokens: &Tensor) -> Result<Tensor> {
        let mut xs = self.words.forward(tokens)?.broadcast_add(&self.places)?;
        for layer in &self.layers {
            xs = layer.forward(&xs, &self.mask)?;
        }
        let normed = self.norm.forward_diff(&xs)?;
        self.head.forward(&normed.flatten_to(1)?)
    }
}

impl Layer {
    fn new(vb: VarBuilder) -> Result<Self> {
        let linear = |from, to, name: &str| candle_nn::linear_no_bias(from, to, vb.pp(name));
        Ok(Self {
            before_attention: candle_nn::rms_norm(HIDDEN, 1e-5, vb.pp("before_attention"))?,
            all: linear(HIDDEN, 3 * HIDDEN, "all")?,
            output: linear(HIDDEN, HIDDEN, "output")?,
            before_net: candle_nn::rms_norm(HIDDEN, 1e-5, vb.pp("before_net"))?,
            up: linear(HIDDEN, 4 * HIDDEN, "up")?,
            down: linear(4 * HIDDEN, HIDDEN, "down")?,
        })
    }

    fn forward(&self, xs: &Tensor, mask: &Tensor) -> Result<Tensor> {
        let (batch, length, _) = xs.dims3()?;
        let all = self.all.forward(&self.before_attention.forward_diff(xs)?)?;
        let part = |at: usize| {
            let part = all.narrow(D::Minus1, at * HIDDEN, HIDDEN)?.contiguous()?;
            let heads = part.reshape((batch, length, HEADS, HIDDEN / HEADS))?;
            heads.transpose(1, 2)?.contiguous()
        };
        let scale = (HIDDEN as f64 / HEADS as f64).powf(-0.5);
        let scores = (part(0)?.matmul(&part(1)?.t()?)? * scale)?;
        let shares = ops::softmax(&scores.broadcast_add(mask)?, D::Minus1)?;
        let attended = shares.matmul(&part(2)?)?.transpose(1, 2)?;
        let attended = attended.reshape((batch, length, HIDDEN))?;
        let xs = (xs + self.output.forward(&attended)?)?;
        let inner = self
            .up
            .forward(&self.before_net.forward_diff(&xs)?)?
            .gelu()?;
        xs + self.down.forward(&inner)?
    }
}
