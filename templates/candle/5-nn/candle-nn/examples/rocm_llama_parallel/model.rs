//! llama on several GPUs: each matrix in parts, one for each rank, or each GPU with layers of its own.
//!
//! Weights have the names and shapes of Hugging Face's checkpoints. Rotary embeddings are not scaled, as llama 3.1 does it
//! for long texts.
use candle::rocm::rccl::{AllGather, AllReduce, Comm};
use candle::safetensors::MmapedSafetensors;
use candle::{DType, Device, IndexOp, Result, Tensor, D};
use candle_nn::var_builder::{Shard, ShardedSafeTensors, ShardedVarBuilder};
use candle_nn::{ops, rotary_emb};
use std::path::PathBuf;
use std::sync::Arc;

/// What the weights do not say.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Heads of queries; those of keys and values follow from their matrices.
    pub heads: usize,
    pub rope_theta: f32,
    pub rms_norm_eps: f32,
}

/// The numbers of a model.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Sizes {
    vocabulary: usize,
    hidden: usize,
    layers: usize,
    heads: usize,
    key_heads: usize,
    head: usize,
    inner: usize,
    rope_theta: f32,
    rms_norm_eps: f32,
    /// Whether logits are made with the embeddings.
    tied: bool,
}

impl Sizes {
    fn read(files: &[PathBuf], shape: Shape) -> Result<Self> {
        // SAFETY: nobody writes the files while they are mapped.
        let weights = unsafe { MmapedSafetensors::multi(files)? };
        let dims = |name: &str| -> Result<Vec<usize>> { Ok(weights.get(name)?.shape().to_vec()) };
        let embeddings = dims("model.embed_tokens.weight")?;
        let layer = |at: usize, name: &str| format!("model.layers.{at}.{name}.weight");
        let queries = dims(&layer(0, "self_attn.q_proj"))?;
        let keys = dims(&layer(0, "self_attn.k_proj"))?;
        let inner = dims(&layer(0, "mlp.gate_proj"))?;
        let layers = (0..).take_while(|at| weights.get(&layer(*at, "input_layernorm")).is_ok());
        if shape.heads == 0 || queries[0] % shape.heads != 0 {
            candle::bail!(
                "{} rows of queries are no {} heads",
                queries[0],
                shape.heads
            );
        }
        let head = queries[0] / shape.heads;
        Ok(Self {
            vocabulary: embeddings[0],
            hidden: embeddings[1],
            layers: layers.count(),
            heads: shape.heads,
            key_heads: keys[0] / head,
            head,
            inner: inner[0],
            rope_theta: shape.rope_theta,
            rms_norm_eps: shape.rms_norm_eps,
            tied: weights.get("lm_head.weight").is_err(),
        })
    }

    /// An error if a model cannot be parted so often.
    fn check(&self, ranks: usize) -> Result<()> {
        for (what, count) in [
            ("heads of queries", self.heads),
            ("heads of keys", self.key_heads),
            ("rows of the feed-forward net", self.inner),
            ("entries of the vocabulary", self.vocabulary),
        ] {
            if count % ranks != 0 {
                candle::bail!("{count} {what} cannot be parted among {ranks} ranks");
            }
        }
        Ok(())
    }
}

/// A matrix of which each rank has some of the rows: it makes some of the results from all of the inputs.
struct ColumnParallel {
    weight: Tensor,
}

/// A matrix of which each rank has some of the columns: it makes a part of each sum from its own inputs.
struct RowParallel {
    weight: Tensor,
    sum: Option<AllReduce>,
}

/// Rows of tokens times a matrix that lies as checkpoints have it.
fn product(weight: &Tensor, xs: &Tensor) -> Result<Tensor> {
    xs.matmul(&weight.t()?)
}

/// Where a rank's weights come from.
struct Weights<'a> {
    builder: ShardedVarBuilder<'a>,
    comm: Option<&'a Arc<Comm>>,
}

impl Weights<'_> {
    fn part(&self, dim: usize) -> Shard {
        let (rank, world_size) = self
            .comm
            .map_or((0, 1), |comm| (comm.rank(), comm.world_size()));
        Shard {
            dim,
            rank,
            world_size,
        }
    }

    fn whole<S: Into<candle::Shape>>(&self, shape: S, name: &str) -> Result<Tensor> {
        self.builder.get(shape, name)
    }

    fn column_parallel(&self, rows: usize, columns: usize, name: &str) -> Result<ColumnParallel> {
        let weight = self
            .builder
            .get_with_hints((rows, columns), name, self.part(0))?;
        Ok(ColumnParallel { weight })
    }

    fn row_parallel(&self, rows: usize, columns: usize, name: &str) -> Result<RowParallel> {
        let weight = self
            .builder
            .get_with_hints((rows, columns), name, self.part(1))?;
        let sum = self.comm.map(AllReduce::new);
        Ok(RowParallel { weight, sum })
    }
}

impl ColumnParallel {
    fn forward(&self, xs: &Tensor) -> Result<Tensor> {
        product(&self.weight, xs)
    }
}

impl RowParallel {
    fn forward(&self, xs: &Tensor) -> Result<Tensor> {
        let own = product(&self.weight, xs)?;
        match &self.sum {
            Some(sum) => own.apply_op1_no_bwd(sum),
            None => Ok(own),
        }
    }
}

/// Sines and cosines of positions, on one device.
#[derive(Clone)]
struct Rotary {
    cos: Tensor,
    sin: Tensor,
}

impl Rotary {
    fn new(sizes: &Sizes, most: usize, dtype: DType, device: &Device) -> Result<Self> {
        let step = |at: usize| 1. / sizes.rope_theta.powf(at as f32 / sizes.head as f32);
        let steps: Vec<f32> = (0..sizes.head).step_by(2).map(step).collect();
        let half = steps.len();
        let steps = Tensor::from_vec(steps, (1, half), device)?;
        let positions = Tensor::arange(0u32, most as u32, device)?.to_dtype(DType::F32)?;
        let angles = positions.reshape((most, 1))?.matmul(&steps)?;
        let (cos, sin) = (
            angles.cos()?.to_dtype(dtype)?,
            angles.sin()?.to_dtype(dtype)?,
        );
        Ok(Self { cos, sin })
    }

    /// `xs` has the dimensions batch, heads, tokens, head.
    fn turn(&self, xs: &Tensor, from: usize) -> Result<Tensor> {
        let tokens = xs.dim(2)?;
        let (cos, sin) = (
            self.cos.narrow(0, from, tokens)?,
            self.sin.narrow(0, from, tokens)?,
        );
        rotary_emb::rope(&xs.contiguous()?, &cos, &sin)
    }
}

struct Layer {
    device: Device,
    rotary: Rotary,
    before_attention: Tensor,
    queries: ColumnParallel,
    keys: ColumnParallel,
    values: ColumnParallel,
    output: RowParallel,
    before_net: Tensor,
    gate: ColumnParallel,
    up: ColumnParallel,
    down: RowParallel,
    /// Keys and values of all tokens so far.
    cache: Option<(Tensor, Tensor)>,
}

impl Layer {
    fn load(weights: &Weights, at: usize, sizes: &Sizes, rotary: Rotary) -> Result<Self> {
        let weights = Weights {
            builder: weights.builder.pp(format!("model.layers.{at}")),
            comm: weights.comm,
        };
        let (hidden, inner) = (sizes.hidden, sizes.inner);
        let (queries, keys) = (sizes.heads * sizes.head, sizes.key_heads * sizes.head);
        Ok(Self {
            device: weights.builder.device().clone(),
            rotary,
            before_attention: weights.whole(hidden, "input_layernorm.weight")?,
            queries: weights.column_parallel(queries, hidden, "self_attn.q_proj.weight")?,
            keys: weights.column_parallel(keys, hidden, "self_attn.k_proj.weight")?,
            values: weights.column_parallel(keys, hidden, "self_attn.v_proj.weight")?,
            output: weights.row_parallel(hidden, queries, "self_attn.o_proj.weight")?,
            before_net: weights.whole(hidden, "post_attention_layernorm.weight")?,
            gate: weights.column_parallel(inner, hidden, "mlp.gate_proj.weight")?,
            up: weights.column_parallel(inner, hidden, "mlp.up_proj.weight")?,
            down: weights.row_parallel(hidden, inner, "mlp.down_proj.weight")?,
            cache: None,
        })
    }

    fn attend(&mut self, xs: &Tensor, from: usize, sizes: &Sizes) -> Result<Tensor> {
        let tokens = xs.dim(0)?;
        let heads = |xs: Tensor| -> Result<Tensor> {
            let count = xs.dim(1)? / sizes.head;
            xs.reshape((1, tokens, count, sizes.head))?.transpose(1, 2)
        };
        let queries = self.rotary.turn(&heads(self.queries.forward(xs)?)?, from)?;
        let keys = self.rotary.turn(&heads(self.keys.forward(xs)?)?, from)?;
        let values = heads(self.values.forward(xs)?)?.contiguous()?;
        let (keys, values) = match self.cache.take() {
            None => (keys, values),
            Some((before, values_before)) => (
                Tensor::cat(&[before, keys], 2)?,
                Tensor::cat(&[values_before, values], 2)?,
            ),
        };
        self.cache = Some((keys.clone(), values.clone()));
        let (own, key_heads) = (queries.dim(1)?, keys.dim(1)?);
        // All queries of a head of keys are rows of one product.
        let queries = queries.reshape((1, key_heads, own / key_heads * tokens, sizes.head))?;
        let scores = (queries.matmul(&keys.t()?.contiguous()?)? / (sizes.head as f64).sqrt())?;
        let seen = keys.dim(2)?;
        let scores = scores
            .reshape((1, own, tokens, seen))?
            .to_dtype(DType::F32)?;
        let scores = match tokens {
            1 => scores,
            _ => scores.broadcast_add(&mask(tokens, seen, xs.device())?)?,
        };
        let weights = ops::softmax_last_dim(&scores)?.to_dtype(values.dtype())?;
        let weights = weights.reshape((1, key_heads, own / key_heads * tokens, seen))?;
        let attended = weights
            .matmul(&values)?
            .reshape((1, own, tokens, sizes.head))?;
        let attended = attended.transpose(1, 2)?.contiguous()?;
        self.output
            .forward(&attended.reshape((tokens, own * sizes.head))?)
    }

    fn forward(&mut self, xs: &Tensor, from: usize, sizes: &Sizes) -> Result<Tensor> {
        let xs = xs.to_device(&self.device)?;
        let eps = sizes.rms_norm_eps;
        let normed = ops::rms_norm(&xs, &self.before_attention, eps)?;
        let xs = (self.attend(&normed, from, sizes)? + xs)?;
        let normed = ops::rms_norm(&xs, &self.before_net, eps)?;
        let inner = (ops::silu(&self.gate.forward(&normed)?)? * self.up.forward(&normed)?)?;
        self.down.forward(&inner)? + xs
    }
}

/// 0 where a token may look, and minus infinity at those after it; the last `tokens` of `seen` look.
fn mask(tokens: usize, seen: usize, device: &Device) -> Result<Tensor> {
    let before = seen - tokens;
    let entry = |at: usize| match at % seen > before + at / seen {
        true => f32::NEG_INFINITY,
        false => 0.,
    };
    Tensor::from_vec(
        (0..tokens * seen).map(entry).collect(),
        (1, 1, tokens, seen),
        device,
    )
}

/// A llama, or a rank's part of one.
pub struct Llama {
    sizes: Sizes,
    embeddings: Tensor,
    layers: Vec<Layer>,
    norm: Tensor,
    head: ColumnParallel,
    gather: Option<AllGather>,
    position: usize,
}

impl Llama {
    /// A rank's part of a model, for texts of up to `most` tokens; without a communicator all of it.
    pub fn tensor_parallel(
        files: &[PathBuf],
        shape: Shape,
        dtype: DType,
        device: &Device,
        comm: Option<&Arc<Comm>>,
        most: usize,
    ) -> Result<Self> {
        Self::load(
            files,
            shape,
            dtype,
            std::slice::from_ref(device),
            comm,
            most,
        )
    }

    /// A model whose layers are spread over devices, the first ones on the first.
    pub fn spread(
        files: &[PathBuf],
        shape: Shape,
        dtype: DType,
        devices: &[Device],
        most: usize,
    ) -> Result<Self> {
        Self::load(files, shape, dtype, devices, None, most)
    }

    fn load(
        files: &[PathBuf],
        shape: Shape,
        dtype: DType,
        devices: &[Device],
        comm: Option<&Arc<Comm>>,
        most: usize,
    ) -> Result<Self> {
        let sizes = Sizes::read(files, shape)?;
        sizes.check(comm.map_or(1, |comm| comm.world_size()))?;
        let mut parts = Vec::new();
        for device in devices {
            // SAFETY: nobody writes the files while they are mapped.
            let builder = unsafe { ShardedSafeTensors::var_builder(files, dtype, device)? };
            let rotary = Rotary::new(&sizes, most, dtype, device)?;
            parts.push((Weights { builder, comm }, rotary));
        }
        let (Some((first, _)), Some((last, _))) = (parts.first(), parts.last()) else {
            candle::bail!("a model needs a device");
        };
        let layer = |at: usize| {
            let (weights, rotary) = &parts[at * parts.len() / sizes.layers];
            Layer::load(weights, at, &sizes, rotary.clone())
        };
        let (vocabulary, hidden) = (sizes.vocabulary, sizes.hidden);
        let head = match sizes.tied {
            true => "model.embed_tokens.weight",
            false => "lm_head.weight",
        };
        Ok(Self {
            embeddings: first.whole((vocabulary, hidden), "model.embed_tokens.weight")?,
            layers: (0..sizes.layers).map(layer).collect::<Result<_>>()?,
            norm: last.whole(hidden, "model.norm.weight")?,
            head: last.column_parallel(vocabulary, hidden, head)?,
            gather: comm.map(|comm| AllGather::new(comm, 1)),
            sizes,
            position: 0,
        })
    }

    /// The logits of what follows some more tokens, in f32.
    pub fn forward(&mut self, tokens: &[u32]) -> Result<Tensor> {
        let ids = Tensor::new(tokens, self.embeddings.device())?;
        let mut xs = self.embeddings.index_select(&ids, 0)?;
        for layer in &mut self.layers {
            xs = layer.forward(&xs, self.position, &self.sizes)?;
        }
        self.position += tokens.len();
        let last = xs.i(tokens.len() - 1..)?.contiguous()?;
        let last = last.to_device(self.norm.device())?;
        let normed = ops::rms_norm(&last, &self.norm, self.sizes.rms_norm_eps)?;
        let own = self.head.forward(&normed)?;
        let logits = match &self.gather {
            Some(gather) => own.apply_op1_no_bwd(gather)?,
            None => own,
        };
        logits.to_dtype(DType::F32)?.squeeze(0)
    }

    /// The most likely tokens after a prompt, and the logits that they were chosen by.
    pub fn generate(&mut self, prompt: &[u32], count: usize) -> Result<Vec<(u32, Vec<f32>)>> {
        let mut found: Vec<(u32, Vec<f32>)> = Vec::new();
        for _ in 0..count {
            let logits = match found.last() {
                None => self.forward(prompt)?,
                Some((token, _)) => self.forward(&[*token])?,
            };
            let token = logits.argmax(D::Minus1)?.to_scalar::<u32>()?;
            found.push((token, logits.to_vec1()?));
        }
        Ok(found)
    }
}

/// Writes weights of a small llama that says something else for each prompt: nothing that was trained.
pub fn write_random(file: &std::path::Path) -> Result<Shape> {
    const LAYERS: usize = 3;
    const HIDDEN: usize = 128;
    const HEADS: usize = 16;
    const KEY_HEADS: usize = 8;
    const INNER: usize = 256;
    const WORDS: usize = 320;
    let mut state = 299_792_458u64;
    let mut random = |rows: usize, columns: usize| -> Result<Tensor> {
        let mut number = || {
            // A linear congruential generator (Knuth's MMIX) is enough for weights that nobody trains.
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            ((state >> 40) as f32 / (1 << 24) as f32 - 0.5) * 2. / (columns as f32).sqrt() * 1.7
        };
        let values = (0..rows * columns).map(|_| number()).collect();
        Tensor::from_vec(values, (rows, columns), &Device::Cpu)
    };
    let mut weights = std::collections::HashMap::new();
    let mut matrix = |name: String, rows: usize, columns: usize| -> Result<()> {
        weights.insert(name, random(rows, columns)?);
        Ok(())
    };
    matrix("model.embed_tokens.weight".into(), WORDS, HIDDEN)?;
    matrix("lm_head.weight".into(), WORDS, HIDDEN)?;
    let keys = KEY_HEADS * HIDDEN / HEADS;
    for layer in 0..LAYERS {
        for (name, rows, columns) in [
            ("self_attn.q_proj", HIDDEN, HIDDEN),
            ("self_attn.k_proj", keys, HIDDEN),
            ("self_attn.v_proj", keys, HIDDEN),
            ("self_attn.o_proj", HIDDEN, HIDDEN),
            ("mlp.gate_proj", INNER, HIDDEN),
            ("mlp.up_proj", INNER, HIDDEN),
            ("mlp.down_proj", HIDDEN, INNER),
        ] {
            matrix(format!("model.layers.{layer}.{name}.weight"), rows, columns)?;
        }
    }
    let ones = Tensor::ones(HIDDEN, DType::F32, &Device::Cpu)?;
    weights.insert("model.norm.weight".into(), ones.clone());
    for layer in 0..LAYERS {
        for name in ["input_layernorm", "post_attention_layernorm"] {
            weights.insert(format!("model.layers.{layer}.{name}.weight"), ones.clone());
        }
    }
    candle::safetensors::save(&weights, file)?;
    Ok(Shape {
        heads: HEADS,
        rope_theta: 10_000.,
        rms_norm_eps: 1e-5,
    })
}
