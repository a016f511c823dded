//! Times of quantized matrices (`matrices`) and of a llama of 8B size (`models`), side by side on the devices of one build.
use candle::quantized::{gguf_file, GgmlDType, QMatMul, QStorage, QTensor};
use candle::{DType, Device, Module, Result, Tensor, D};
use candle_transformers::models::quantized_llama::ModelWeights;
use std::borrow::Cow;
use std::time::Instant;

const FORMATS: [GgmlDType; 10] = [
    GgmlDType::Q4_0,
    GgmlDType::Q4_1,
    GgmlDType::Q5_0,
    GgmlDType::Q5_1,
    GgmlDType::Q8_0,
    GgmlDType::Q2K,
    GgmlDType::Q3K,
    GgmlDType::Q4K,
    GgmlDType::Q5K,
    GgmlDType::Q6K,
];
const SHAPES: [(usize, usize); 4] = [(128256, 4096), (14336, 4096), (4096, 14336), (4096, 4096)];
/// Bytes of matrices that no cache holds.
const MUCH: usize = 400_000_000;
/// Seconds of a measurement; of several, the shortest counts.
const SECONDS: f64 = 0.04;
const ROUNDS: usize = 3;

fn main() -> Result<()> {
    for what in std::env::args().skip(1) {
        match what.as_str() {
            "matrices" => matrices()?,
            "models" => [GgmlDType::Q4K, GgmlDType::Q8_0]
                .into_iter()
                .try_for_each(model)?,
            _ => candle::bail!("`matrices` and `models` can be timed, and not `{what}`"),
        }
    }
    Ok(())
}

fn devices() -> Vec<(&'static str, Device)> {
    let all = [("cuda", Device::new_cuda(0)), ("rocm", Device::new_rocm(0))];
    let there = |(name, device): (_, Result<Device>)| device.ok().map(|device| (name, device));
    all.into_iter().filter_map(there).collect()
}

/// 64 random rows, time and again.
fn blocks(format: GgmlDType, rows: usize, k: usize) -> Result<Vec<u8>> {
    let few = rows.min(64);
    let numbers = Tensor::randn(0f32, 0.02, (few, k), &Device::Cpu)?;
    let data = QTensor::quantize(&numbers, format)?.data()?.into_owned();
    Ok(data.repeat(rows / few))
}

fn matrices() -> Result<()> {
    for (n, k) in SHAPES {
        for format in FORMATS {
            let data = blocks(format, n, k)?;
            let copies = (MUCH / data.len()).clamp(1, 32);
            let mut on = Vec::new();
            for (name, device) in devices() {
                let mut products = Vec::new();
                for _ in 0..copies {
                    let storage = QStorage::from_data(Cow::Borrowed(&data), &device, format)?;
                    products.push(QMatMul::from_qtensor(QTensor::new(storage, (n, k))?)?);
                }
                on.push((name, device, products));
            }
            for rows in [1, 2, 4, 8, 16, 32, 64, 512] {
                let x = Tensor::randn(0f32, 1., (1, rows, k), &Device::Cpu)?;
                let mut best = vec![f64::INFINITY; on.len()];
                for _ in 0..ROUNDS {
                    for ((_, device, products), best) in on.iter().zip(&mut best) {
                        *best = best.min(seconds(device, products, &x.to_device(device)?)?);
                    }
                }
                for ((name, ..), best) in on.iter().zip(best) {
                    let (time, bytes) = (best * 1e6, data.len() as f64 / best / 1e12);
                    println!(
                        "{format:?} {n}x{k}, {rows} rows, {name}: {time:.1} us, {bytes:.2} TB/s"
                    );
                }
            }
        }
    }
    Ok(())
}

/// Of one product, in a series that takes the matrices in turns.
fn seconds(device: &Device, products: &[QMatMul], x: &Tensor) -> Result<f64> {
    let mut count = products.len();
    loop {
        device.synchronize()?;
        let start = Instant::now();
        for product in products.iter().cycle().take(count) {
            std::hint::black_box(product.forward(x)?);
        }
        device.synchronize()?;
        let took = start.elapsed().as_secs_f64();
        if took > SECONDS {
            return Ok(took / count as f64);
        }
        count = (count as f64 * (SECONDS / took * 1.2).clamp(1.5, 100.)) as usize;
    }
}

const LAYERS: usize = 32;
const HIDDEN: usize = 4096;
const FEED_FORWARD: usize = 14336;
const KEYS: usize = 1024;
const VOCABULARY: usize = 128256;

/// A GGUF file with all matrices in one format, in the folder for temporary files.
fn write_model(path: &std::path::Path, format: GgmlDType) -> Result<()> {
    use gguf_file::Value::{String, F32, U32};
    let metadata = [
        ("general.architecture", String("llama".into())),
        ("llama.attention.head_count", U32(32)),
        ("llama.attention.head_count_kv", U32(8)),
        ("llama.attention.layer_norm_rms_epsilon", F32(1e-5)),
        ("llama.block_count", U32(LAYERS as u32)),
        ("llama.embedding_length", U32(HIDDEN as u32)),
        ("llama.rope.dimension_count", U32(128)),
    ];
    let matrix = |rows: usize, k: usize| {
        let data = Cow::Owned(blocks(format, rows, k)?);
        QTensor::new(QStorage::from_data(data, &Device::Cpu, format)?, (rows, k))
    };
    let ones = Tensor::ones(HIDDEN, DType::F32, &Device::Cpu)?;
    let norm = QTensor::quantize(&ones, GgmlDType::F32)?;
    let embedding = matrix(VOCABULARY, HIDDEN)?;
    let (square, keys) = (matrix(HIDDEN, HIDDEN)?, matrix(KEYS, HIDDEN)?);
    let (wide, tall) = (matrix(FEED_FORWARD, HIDDEN)?, matrix(HIDDEN, FEED_FORWARD)?);
    let mut tensors = vec![
        ("token_embd.weight".to_string(), &embedding),
        ("output.weight".to_string(), &embedding),
        ("output_norm.weight".to_string(), &norm),
    ];
    for layer in 0..LAYERS {
        for (name, tensor) in [
            ("attn_q", &square),
            ("attn_k", &keys),
            ("attn_v", &keys),
            ("attn_output", &square),
            ("ffn_gate", &wide),
            ("ffn_up", &wide),
            ("ffn_down", &tall),
            ("attn_norm", &norm),
            ("ffn_norm", &norm),
        ] {
            tensors.push((format!("blk.{layer}.{name}.weight"), tensor));
        }
    }
    let metadata: Vec<_> = metadata
        .iter()
        .map(|(name, value)| (*name, value))
        .collect();
    let tensors: Vec<_> = tensors
        .iter()
        .map(|(name, tensor)| (name.as_str(), *tensor))
        .collect();
    let mut file = std::io::BufWriter::new(std::fs::File::create(path)?);
    gguf_file::write(&mut file, &metadata, &tensors)
}

/// Twice on each device: the first time, kernels are compiled.
fn model(format: GgmlDType) -> Result<()> {
    let path =
        std::env::temp_dir().join(format!("quantized-benchmark-{}.gguf", std::process::id()));
    write_model(&path, format)?;
    let timed = (0..2).try_for_each(|round| {
        devices().into_iter().try_for_each(|(name, device)| {
            println!(
                "{format:?}, {name}, {round}: {}",
                time_model(&path, &device)?
            );
            Ok(())
        })
    });
    std::fs::remove_file(&path)?;
    timed
}

fn time_model(path: &std::path::Path, device: &Device) -> Result<String> {
    let start = Instant::now();
    let mut file = std::fs::File::open(path)?;
    let content = gguf_file::Content::read(&mut file)?;
    let mut llama = ModelWeights::from_gguf(content, &mut file, device)?;
    device.synchronize()?;
    let size = file.metadata()?.len() as f64;
    let mut said = format!(
        "load {:.2} GB/s",
        size / start.elapsed().as_secs_f64() / 1e9
    );
    let next = |logits: Tensor| logits.argmax(D::Minus1)?.to_vec1::<u32>();
    for length in [128, 512, 2048] {
        let prompt = Tensor::arange(0u32, length as u32, device)?.unsqueeze(0)?;
        let mut best = f64::INFINITY;
        for _ in 0..ROUNDS {
            let start = Instant::now();
            next(llama.forward(&prompt, 0)?)?;
            best = best.min(start.elapsed().as_secs_f64());
        }
        let (warm, tokens) = (8, 64);
        let (mut token, mut start) = (1u32, Instant::now());
        for step in 0..warm + tokens {
            if step == warm {
                start = Instant::now();
            }
            let input = Tensor::new(&[[token]], device)?;
            token = next(llama.forward(&input, length + step)?)?[0];
        }
        let prefill = length as f64 / best;
        let decode = tokens as f64 / start.elapsed().as_secs_f64();
        said += &format!("; at {length}: prefill {prefill:.0} tok/s, decode {decode:.1} tok/s");
    }
    Ok(said)
}
