//! A llama whose step of decoding can be captured: every launch has the same shapes and the same memory each time.
//!
//! Keys and values lie in tensors with room for a whole text, and positions in a tensor on the device: they choose where
//! new keys go, how far queries see and how they are turned. So nothing of a step depends on what the host knows.
use super::attention::attend;
use candle::quantized::QMatMul;
use candle::rocm::Captured;
use candle::{DType, Device, Module, Result, Tensor, D};
use candle_nn::rocm::{rms_norm_residual, rope_with_caches};
use candle_nn::{ops, rotary_emb, VarBuilder};

#[derive(Debug, Clone, Copy)]
pub struct Config {
    pub vocabulary: usize,
    pub hidden: usize,
    pub layers: usize,
    pub heads: usize,
    pub key_heads: usize,
    pub inner: usize,
    pub rope_theta: f32,
    pub rms_norm_eps: f32,
    /// Tokens of the longest text.
    pub capacity: usize,
}

impl Config {
    fn head(&self) -> usize {
        self.hidden / self.heads
    }
}

/// Keys and values of a layer: room for `capacity` tokens, filled in place.
struct Cache {
    keys: Tensor,
    values: Tensor,
}

impl Cache {
    fn new(config: &Config, dtype: DType, device: &Device) -> Result<Self> {
        let shape = (1, config.key_heads, config.capacity, config.head());
        Ok(Self {
            keys: Tensor::zeros(shape, dtype, device)?,
            values: Tensor::zeros(shape, dtype, device)?,
        })
    }

    /// Keeps keys and values, (1, key heads, tokens, head), and turns the keys and these queries: by one launch on ROCm.
    fn take(&self, q: &Tensor, k: &Tensor, v: &Tensor, places: &Places) -> Result<Tensor> {
        let Places {
            cos,
            sin,
            tokens,
            rows,
            ..
        } = places;
        let turned = rope_with_caches(q, k, v, cos, sin, tokens, &self.keys, &self.values)?;
        if let Some(turned) = turned {
            return Ok(turned);
        }
        self.keys
            .scatter_set(rows, &rotary_emb::rope(k, cos, sin)?, 2)?;
        self.values.scatter_set(rows, v, 2)?;
        rotary_emb::rope(q, cos, sin)
    }
}

/// What all layers want to know of the tokens of a step.
struct Places {
    cos: Tensor,
    sin: Tensor,
    /// The rows of the caches that the tokens get: (tokens), and for each element of keys.
    tokens: Tensor,
    rows: Tensor,
    /// Zero for what a token sees, and minus infinity for what comes after it: (1, 1, tokens, capacity).
    mask: Tensor,
}

struct Layer {
    before_attention: Tensor,
    /// Queries, keys and values by one product: rows of several matrices are those of a taller one.
    attention: QMatMul,
    output: QMatMul,
    before_net: Tensor,
    gate_and_up: QMatMul,
    down: QMatMul,
    cache: Cache,
}

impl Layer {
    /// What the net makes, and what it is added to. `normed` is `xs`, normed before attention: that is done where the sum
    /// of the layer before is made, by the same launch.
    fn forward(
        &self,
        xs: &Tensor,
        normed: &Tensor,
        places: &Places,
        config: &Config,
    ) -> Result<(Tensor, Tensor)> {
        let attended = self.attend(normed, places, config)?;
        let (xs, normed) = rms_norm_residual(&attended, xs, &self.before_net, config.rms_norm_eps)?;
        let inner = ops::swiglu(&self.gate_and_up.forward(&normed)?)?;
        Ok((self.down.forward(&inner)?, xs))
    }

    fn attend(&self, xs: &Tensor, places: &Places, config: &Config) -> Result<Tensor> {
        let tokens = xs.dim(0)?;
        let Config {
            heads, key_heads, ..
        } = *config;
        let xs = self.attention.forward(xs)?;
        let xs = xs.reshape((1, tokens, heads + 2 * key_heads, config.head()))?;
        let xs = xs.transpose(1, 2)?.contiguous()?;
        let queries = xs.narrow(1, 0, heads)?;
        let keys = xs.narrow(1, heads, key_heads)?;
        let values = xs.narrow(1, heads + key_heads, key_heads)?;
        let queries = self.cache.take(&queries, &keys, &values, places)?;
        let attended = attend(&queries, &self.cache.keys, &self.cache.values, &places.mask)?;
        let attended = attended.transpose(1, 2)?.contiguous()?;
        let attended = attended.reshape((tokens, config.hidden))?;
        self.output.forward(&attended)
    }
}

pub struct Llama {
    config: Config,
    embeddings: Tensor,
    layers: Vec<Layer>,
    norm: Tensor,
    head: QMatMul,
    /// Of all positions.
    cos: Tensor,
    sin: Tensor,
    /// All positions: (1, 1, 1, capacity).
    positions: Tensor,
    /// What `Places::mask` consists of.
    seen: Tensor,
    hidden: Tensor,
}

impl Llama {
    /// Weights by the names of Hugging Face's checkpoints. `matrix` has the rows of the matrices that are named, one after
    /// another: the name and the number of rows of each, and the number of columns.
    pub fn new(
        config: Config,
        vb: VarBuilder,
        matrix: impl Fn(&[(String, usize)], usize) -> Result<QMatMul>,
    ) -> Result<Self> {
        let (device, dtype) = (vb.device(), vb.dtype());
        let Config {
            vocabulary,
            hidden,
            inner,
            capacity,
            ..
        } = config;
        let keys = config.key_heads * config.head();
        let layer = |at: usize| {
            let name = |part: &str| format!("model.layers.{at}.{part}.weight");
            let matrix = |parts: &[(&str, usize)], columns| {
                let parts = parts.iter().map(|(part, rows)| (name(part), *rows));
                matrix(&parts.collect::<Vec<_>>(), columns)
            };
            Ok(Layer {
                before_attention: vb.get(hidden, &name("input_layernorm"))?,
                attention: matrix(
                    &[
                        ("self_attn.q_proj", hidden),
                        ("self_attn.k_proj", keys),
                        ("self_attn.v_proj", keys),
                    ],
                    hidden,
                )?,
                output: matrix(&[("self_attn.o_proj", hidden)], hidden)?,
                before_net: vb.get(hidden, &name("post_attention_layernorm"))?,
                gate_and_up: matrix(&[("mlp.gate_proj", inner), ("mlp.up_proj", inner)], hidden)?,
                down: matrix(&[("mlp.down_proj", hidden)], inner)?,
                cache: Cache::new(&config, dtype, device)?,
            })
        };
        let (cos, sin) = turns(&config, device)?;
        let positions = Tensor::arange(0u32, capacity as u32, device)?;
        Ok(Self {
            embeddings: vb.get((vocabulary, hidden), "model.embed_tokens.weight")?,
            layers: (0..config.layers).map(layer).collect::<Result<_>>()?,
            norm: vb.get(hidden, "model.norm.weight")?,
            head: matrix(&[("lm_head.weight".to_string(), vocabulary)], hidden)?,
            cos: cos.to_dtype(dtype)?,
            sin: sin.to_dtype(dtype)?,
            positions: positions.reshape((1, 1, 1, capacity))?,
            seen: Tensor::new(0f32, device)?.to_dtype(dtype)?,
            hidden: Tensor::new(f32::NEG_INFINITY, device)?.to_dtype(dtype)?,
            config,
        })
    }

    fn device(&self) -> &Device {
        self.embeddings.device()
    }

    /// `positions` has the place in the text of each of some tokens.
    fn places(&self, positions: &Tensor) -> Result<Places> {
        let Config {
            key_heads,
            capacity,
            ..
        } = self.config;
        let tokens = positions.dim(0)?;
        let column = positions.reshape((1, 1, tokens, 1))?;
        let rows = column.broadcast_as((1, key_heads, tokens, self.config.head()))?;
        let mask = (1, 1, tokens, capacity);
        let sees = self.positions.broadcast_le(&column)?;
        let mask = sees.where_cond(
            &self.seen.broadcast_as(mask)?,
            &self.hidden.broadcast_as(mask)?,
        )?;
        Ok(Places {
            cos: self.cos.index_select(positions, 0)?,
            sin: self.sin.index_select(positions, 0)?,
            tokens: positions.clone(),
            rows: rows.contiguous()?,
            mask,
        })
    }

    /// The logits of what follows the last of some tokens: (1, vocabulary). Places after theirs in the caches are not seen.
    pub fn forward(&self, tokens: &Tensor, positions: &Tensor) -> Result<Tensor> {
        let places = self.places(positions)?;
        let eps = self.config.rms_norm_eps;
        let norms = self.layers.iter().map(|layer| &layer.before_attention);
        let norms: Vec<_> = norms.chain([&self.norm]).collect();
        let mut xs = self.embeddings.index_select(tokens, 0)?;
        let mut normed = ops::rms_norm(&xs, norms[0], eps)?;
        for (layer, next) in self.layers.iter().zip(&norms[1..]) {
            let (made, sum) = layer.forward(&xs, &normed, &places, &self.config)?;
            (xs, normed) = rms_norm_residual(&made, &sum, next, eps)?;
        }
        let last = normed.narrow(0, normed.dim(0)? - 1, 1)?.contiguous()?;
        self.head.forward(&last)
    }

    /// Reads a prompt, so that a step can go on from it.
    pub fn read(&self, prompt: &[u32]) -> Result<State> {
        let tokens = Tensor::new(prompt, self.device())?;
        let end = prompt.len() as u32;
        let logits = self.forward(&tokens, &Tensor::arange(0, end, self.device())?)?;
        Ok(State {
            token: logits.argmax(D::Minus1)?,
            position: Tensor::new(&[end], self.device())?,
            one: Tensor::new(&[1u32], self.device())?,
        })
    }

    /// One more token, which the state has afterwards.
    pub fn step(&self, state: &State) -> Result<()> {
        let logits = self.forward(&state.token, &state.position)?;
        state.token.slice_set(&logits.argmax(D::Minus1)?, 0, 0)?;
        state
            .position
            .slice_set(&(&state.position + &state.one)?, 0, 0)
    }

    /// The most likely tokens after a prompt, by steps that are captured or not.
    pub fn generate(&self, prompt: &[u32], count: usize, captured: bool) -> Result<Vec<u32>> {
        if prompt.len() + count > self.config.capacity {
            candle::bail!("there is room for {} tokens", self.config.capacity)
        }
        let state = self.read(prompt)?;
        let mut said = state.token.to_vec1::<u32>()?;
        if !captured {
            while said.len() < count {
                self.step(&state)?;
                said.extend(state.token.to_vec1::<u32>()?);
            }
            return Ok(said);
        }
        // The first step is done here, with launches of its own.
        let mut step = Captured::new(self.device(), || self.step(&state))?;
        said.extend(state.token.to_vec1::<u32>()?);
        while said.len() < count {
            step.replay()?;
            said.extend(state.token.to_vec1::<u32>()?);
        }
        said.truncate(count);
        Ok(said)
    }
}

/// What a step reads, and leaves to the next one: tensors that stay where they are.
pub struct State {
    /// The last token.
    pub token: Tensor,
    /// Its place in the text.
    pub position: Tensor,
    one: Tensor,
}

/// Cosines and sines of all positions.
fn turns(config: &Config, device: &Device) -> Result<(Tensor, Tensor)> {
    let head = config.head();
    let step = |at: usize| config.rope_theta.powf(-(at as f32) / head as f32);
    let steps: Vec<f32> = (0..head).step_by(2).map(step).collect();
    let steps = Tensor::from_vec(steps, (1, head / 2), device)?;
    let positions = Tensor::arange(0u32, config.capacity as u32, device)?.to_dtype(DType::F32)?;
    let angles = positions.reshape((config.capacity, 1))?.matmul(&steps)?;
    Ok((angles.cos()?, angles.sin()?))
}
