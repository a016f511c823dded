//! GGUF files of small models with random weights.
use candle::quantized::gguf_file::{self, Value};
use candle::quantized::{GgmlDType, QTensor};
use candle::{Device, Result, Tensor};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many tokens the models know.
pub const VOCABULARY: usize = 61;
/// The length of a token's vector: a block of the K formats.
pub const HIDDEN: usize = 256;

/// The formats of a file's matrices.
#[derive(Clone, Copy, Debug)]
pub struct Formats {
    most: GgmlDType,
    /// Those of values and of what leaves a feed-forward net, which llama.cpp keeps more exactly.
    sensitive: GgmlDType,
    output: GgmlDType,
}

impl Formats {
    pub const Q4_0: Self = Self::new(GgmlDType::Q4_0, GgmlDType::Q4_0, GgmlDType::Q6K);
    pub const Q5_1: Self = Self::new(GgmlDType::Q5_1, GgmlDType::Q5_1, GgmlDType::Q6K);
    pub const Q8_0: Self = Self::all(GgmlDType::Q8_0);
    pub const Q2_K: Self = Self::new(GgmlDType::Q2K, GgmlDType::Q3K, GgmlDType::Q6K);
    pub const Q4_K_M: Self = Self::new(GgmlDType::Q4K, GgmlDType::Q6K, GgmlDType::Q6K);
    pub const Q5_K_M: Self = Self::new(GgmlDType::Q5K, GgmlDType::Q6K, GgmlDType::Q6K);

    const fn new(most: GgmlDType, sensitive: GgmlDType, output: GgmlDType) -> Self {
        Self {
            most,
            sensitive,
            output,
        }
    }

    /// One for all, as Candle's own tensor-tools write them.
    pub const fn all(format: GgmlDType) -> Self {
        Self::new(format, format, format)
    }

    fn of(&self, name: &str) -> GgmlDType {
        if name == "output.weight" {
            self.output
        } else if name.ends_with("attn_v.weight") || name.contains(".ffn_down") {
            self.sensitive
        } else {
            self.most
        }
    }
}

/// What a file holds.
pub struct Gguf {
    formats: Formats,
    metadata: Vec<(String, Value)>,
    tensors: Vec<(String, QTensor)>,
}

impl Gguf {
    pub fn new(formats: Formats) -> Self {
        Self {
            formats,
            metadata: Vec::new(),
            tensors: Vec::new(),
        }
    }

    /// Metadata of the model `architecture`, all of one type.
    pub fn set<T: Copy>(
        &mut self,
        architecture: &str,
        value: fn(T) -> Value,
        entries: &[(&str, T)],
    ) {
        let entries = entries.iter();
        self.metadata
            .extend(entries.map(|(key, number)| (format!("{architecture}.{key}"), value(*number))));
    }

    /// A matrix whose products with numbers are `scale` times as large as these.
    pub fn matrix(&mut self, name: &str, rows: usize, columns: usize, scale: f64) -> Result<()> {
        self.matrices(name, &[rows, columns], scale)
    }

    /// Such matrices: (..., rows, columns).
    pub fn matrices(&mut self, name: &str, shape: &[usize], scale: f64) -> Result<()> {
        let scale = scale / (shape[shape.len() - 1] as f64).sqrt();
        let weights = (numbers(name, shape)? * scale)?;
        self.push(name, &weights, self.formats.of(name))
    }

    /// Vectors of tokens, numbers of about `scale`.
    pub fn embeddings(&mut self, name: &str, scale: f64) -> Result<()> {
        let vectors = (numbers(name, &[VOCABULARY, HIDDEN])? * scale)?;
        self.push(name, &vectors, self.formats.of(name))
    }

    /// Rows of an output: the vectors in `embeddings` of other tokens, so that one logit is far ahead of the rest.
    pub fn output(&mut self, name: &str, embeddings: &str) -> Result<()> {
        let vectors = numbers(embeddings, &[VOCABULARY, HIDDEN])?;
        let after = 7;
        let (front, back) = (
            vectors.narrow(0, 0, VOCABULARY - after)?,
            vectors.narrow(0, VOCABULARY - after, after)?,
        );
        self.push(
            name,
            &Tensor::cat(&[back, front], 0)?,
            self.formats.of(name),
        )
    }

    /// A norm's weights, which are about 1.
    pub fn norm(&mut self, name: &str, length: usize) -> Result<()> {
        self.push(
            name,
            &numbers(name, &[length])?.affine(0.1, 1.)?,
            GgmlDType::F32,
        )
    }

    /// What stays f32 in users' files too.
    pub fn plain(&mut self, name: &str, shape: &[usize], scale: f64) -> Result<()> {
        self.push(name, &(numbers(name, shape)? * scale)?, GgmlDType::F32)
    }

    fn push(&mut self, name: &str, weights: &Tensor, format: GgmlDType) -> Result<()> {
        let weights = QTensor::quantize(weights, format)?;
        self.tensors.push((name.to_string(), weights));
        Ok(())
    }

    /// The same numbers, each as it is: in f32.
    pub fn exact(&self) -> Result<Self> {
        let mut exact = Self::new(self.formats);
        exact.metadata = self.metadata.clone();
        for (name, weights) in &self.tensors {
            exact.push(name, &weights.dequantize(&Device::Cpu)?, GgmlDType::F32)?;
        }
        Ok(exact)
    }

    /// Writes the file, which lives as long as what is returned.
    pub fn write(&self) -> Result<File> {
        let file = File::new();
        let metadata = self.metadata.iter().map(|(key, value)| (&key[..], value));
        let tensors = self.tensors.iter();
        let tensors = tensors.map(|(name, weights)| (&name[..], weights));
        gguf_file::write(
            &mut std::fs::File::create(file.path())?,
            &metadata.collect::<Vec<_>>(),
            &tensors.collect::<Vec<_>>(),
        )?;
        Ok(file)
    }
}

pub struct File(PathBuf);

impl File {
    pub fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("rocm-{}-{count}.gguf", std::process::id());
        Self(Path::new(env!("CARGO_TARGET_TMPDIR")).join(name))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Numbers that look random, with a mean of 0 and a mean square of 1, the same for a name in every run.
pub fn numbers(name: &str, shape: &[usize]) -> Result<Tensor> {
    let mut state = name.bytes().fold(1469598103934665603u64, |state, byte| {
        (state ^ u64::from(byte)).wrapping_mul(1099511628211)
    });
    let mut next = || {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        ((state >> 40) as f32 / (1 << 23) as f32 - 1.) * 3f32.sqrt()
    };
    let numbers = (0..shape.iter().product()).map(|_| next()).collect();
    Tensor::from_vec::<_, f32>(numbers, shape, &Device::Cpu)
}
