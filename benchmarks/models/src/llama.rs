//! Llamas of 8B size as Candle's models compute them: prompts, and a token after them.
use crate::made_up::{tokens, weights};
use crate::{devices, measured, Rate, Rows, Work};
use candle::quantized::gguf_file::{Content, TensorInfo, Value, VersionedMagic};
use candle::quantized::{GgmlDType, QTensor};
use candle::{DType, Device, Result, Tensor};
use candle_transformers::models::{llama, quantized_llama};
use std::cell::RefCell;
use std::collections::HashMap;
use std::io::{Read, Seek, SeekFrom};

const PROMPTS: [usize; 3] = [128, 512, 2048];
const TEXTS: [usize; 2] = [128, 2048];
const VOCABULARY: usize = 128_256;
const HIDDEN: usize = 4096;
const KEYS: usize = 1024;
const INNER: usize = 14_336;
const LAYERS: usize = 32;

pub(crate) fn time(rows: &Rows) {
    for dtype in [DType::F16, DType::BF16] {
        let model = format!("llama 8B {dtype:?}");
        time_model(rows, &model, |device| Plain::new(dtype, device));
    }
    for format in [GgmlDType::Q4K, GgmlDType::Q8_0] {
        let model = format!("GGUF 8B {format:?}");
        time_model(rows, &model, |device| Quantized::new(format, device));
    }
}

trait Model {
    /// The logits after a prompt.
    fn prompt(&self, tokens: &Tensor) -> Result<Tensor>;

    /// Reads a text, which `next` goes on from.
    fn read(&self, tokens: &Tensor) -> Result<()>;

    /// The logits after one more token than `read` has read; as if it had not been called before.
    fn next(&self, token: &Tensor, position: usize) -> Result<Tensor>;
}

fn time_model<M: Model>(rows: &Rows, model: &str, load: impl Fn(&Device) -> Result<M>) {
    let prompt = |length| format!("{model}, prefill {length}");
    let decode = |length| format!("{model}, decode at {length}, Candle's cache");
    let mut names = PROMPTS.map(prompt).into_iter().chain(TEXTS.map(decode));
    if !names.any(|name| rows.want(&name)) {
        return;
    }
    let devices = devices();
    let models = devices.iter().map(|(_, device)| load(device));
    let models = match models.collect::<Result<Vec<_>>>() {
        Ok(models) => models,
        Err(error) => return println!("{model}: {error}"),
    };
    let on = || devices.iter().zip(&models);
    for length in PROMPTS {
        rows.time(&prompt(length), || {
            let mut works = Vec::new();
            for ((name, device), model) in on() {
                let tokens = tokens((1, length), device)?;
                let run = Box::new(move || model.prompt(&tokens));
                works.push(Work { name, device, run });
            }
            measured(&works, Some(Rate(length, "tok")))
        });
    }
    for length in TEXTS {
        rows.time(&decode(length), || {
            let mut works = Vec::new();
            for ((name, device), model) in on() {
                model.read(&tokens((1, length), device)?)?;
                let token = Tensor::new(&[[1u32]], device)?;
                let run = Box::new(move || model.next(&token, length));
                works.push(Work { name, device, run });
            }
            measured(&works, Some(Rate(1, "tok")))
        });
    }
}

/// candle-transformers' llama.
struct Plain {
    llama: llama::Llama,
    /// Has the masks of prompts, and no keys.
    prompts: RefCell<llama::Cache>,
    text: RefCell<llama::Cache>,
    empty: llama::Cache,
}

impl Plain {
    fn new(dtype: DType, device: &Device) -> Result<Self> {
        let config = llama::Config {
            hidden_size: HIDDEN,
            intermediate_size: INNER,
            vocab_size: VOCABULARY,
            num_hidden_layers: LAYERS,
            num_attention_heads: 32,
            num_key_value_heads: 8,
            use_flash_attn: false,
            rms_norm_eps: 1e-5,
            rope_theta: 500_000.,
            bos_token_id: None,
            eos_token_id: None,
            rope_scaling: None,
            max_position_embeddings: 8192,
            tie_word_embeddings: false,
        };
        let cache = |keys| llama::Cache::new(keys, dtype, &config, device);
        Ok(Self {
            llama: llama::Llama::load(weights(dtype, device), &config)?,
            prompts: RefCell::new(cache(false)?),
            text: RefCell::new(cache(true)?),
            empty: cache(true)?,
        })
    }
}

impl Model for Plain {
    fn prompt(&self, tokens: &Tensor) -> Result<Tensor> {
        self.llama
            .forward(tokens, 0, &mut self.prompts.borrow_mut())
    }

    fn read(&self, tokens: &Tensor) -> Result<()> {
        let mut text = self.text.borrow_mut();
        *text = self.empty.clone();
        self.llama.forward(tokens, 0, &mut text).map(|_| ())
    }

    fn next(&self, token: &Tensor, position: usize) -> Result<Tensor> {
        let mut text = self.text.borrow().clone();
        self.llama.forward(token, position, &mut text)
    }
}

/// candle-transformers' llama of a GGUF file.
struct Quantized {
    prompts: RefCell<quantized_llama::ModelWeights>,
    text: RefCell<quantized_llama::ModelWeights>,
}

impl Quantized {
    fn new(format: GgmlDType, device: &Device) -> Result<Self> {
        let (content, mut file) = file(format)?;
        let llama = quantized_llama::ModelWeights::from_gguf(content, &mut file, device)?;
        Ok(Self {
            prompts: RefCell::new(llama.clone()),
            text: RefCell::new(llama),
        })
    }
}

impl Model for Quantized {
    fn prompt(&self, tokens: &Tensor) -> Result<Tensor> {
        self.prompts.borrow_mut().forward(tokens, 0)
    }

    fn read(&self, tokens: &Tensor) -> Result<()> {
        self.text.borrow_mut().forward(tokens, 0).map(|_| ())
    }

    fn next(&self, token: &Tensor, position: usize) -> Result<Tensor> {
        let mut text = self.text.borrow().clone();
        text.forward(token, position)
    }
}

/// A GGUF file that lies nowhere: blocks of one matrix, time and again, and ones from `NORMS` on.
struct File {
    blocks: Vec<u8>,
    at: u64,
}

const NORMS: u64 = 1 << 40;
/// Of a file that has room for all.
const END: u64 = 2 * NORMS;

impl Read for File {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let source: &[u8] = if self.at < NORMS {
            &self.blocks[self.at as usize % self.blocks.len()..]
        } else {
            &ONES[self.at as usize % 4..]
        };
        let count = source.len().min(into.len());
        into[..count].copy_from_slice(&source[..count]);
        self.at += count as u64;
        Ok(count)
    }
}

/// 1 in f32, so often that a norm is read in few pieces.
static ONES: [u8; 4096] = {
    let (one, mut all, mut at) = (1f32.to_le_bytes(), [0; 4096], 0);
    while at < all.len() {
        all[at] = one[at % 4];
        at += 1;
    }
    all
};

impl Seek for File {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        self.at = match to {
            SeekFrom::Start(at) => at,
            SeekFrom::Current(by) => self.at.saturating_add_signed(by),
            SeekFrom::End(by) => END.saturating_add_signed(by),
        };
        Ok(self.at)
    }
}

fn file(format: GgmlDType) -> Result<(Content, File)> {
    let metadata = [
        ("llama.attention.head_count", Value::U32(32)),
        ("llama.attention.head_count_kv", Value::U32(8)),
        ("llama.attention.layer_norm_rms_epsilon", Value::F32(1e-5)),
        ("llama.block_count", Value::U32(LAYERS as u32)),
        ("llama.embedding_length", Value::U32(HIDDEN as u32)),
        ("llama.rope.dimension_count", Value::U32(128)),
    ];
    let mut tensors = HashMap::new();
    let mut put = |name: String, shape: &[usize]| {
        let is_norm = shape.len() == 1;
        let info = TensorInfo {
            ggml_dtype: if is_norm { GgmlDType::F32 } else { format },
            shape: shape.into(),
            offset: if is_norm { NORMS } else { 0 },
        };
        tensors.insert(name + ".weight", info);
    };
    put("token_embd".into(), &[VOCABULARY, HIDDEN]);
    put("output".into(), &[VOCABULARY, HIDDEN]);
    put("output_norm".into(), &[HIDDEN]);
    for layer in 0..LAYERS {
        let parts: [(&str, &[usize]); 9] = [
            ("attn_q", &[HIDDEN, HIDDEN]),
            ("attn_k", &[KEYS, HIDDEN]),
            ("attn_v", &[KEYS, HIDDEN]),
            ("attn_output", &[HIDDEN, HIDDEN]),
            ("ffn_gate", &[INNER, HIDDEN]),
            ("ffn_up", &[INNER, HIDDEN]),
            ("ffn_down", &[HIDDEN, INNER]),
            ("attn_norm", &[HIDDEN]),
            ("ffn_norm", &[HIDDEN]),
        ];
        for (name, shape) in parts {
            put(format!("blk.{layer}.{name}"), shape);
        }
    }
    let content = Content {
        magic: VersionedMagic::GgufV3,
        metadata: metadata.map(|(name, value)| (name.into(), value)).into(),
        tensor_infos: tensors,
        tensor_data_offset: 0,
    };
    let few = crate::made_up::quantized(format, 64, HIDDEN, &Device::Cpu)?;
    let blocks = QTensor::data(&few)?.into_owned();
    Ok((content, File { blocks, at: 0 }))
}
