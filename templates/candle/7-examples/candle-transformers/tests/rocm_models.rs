//! Whole models without downloaded weights, on ROCm and on the CPU: the same numbers go in, the same have to come out.
#![cfg(feature = "rocm")]
use candle::{DType, Device, Result, Tensor};
use candle_nn::{loss, Conv2d, Conv2dConfig, Linear, Optimizer, VarBuilder, VarMap, SGD};
use candle_transformers::generation::LogitsProcessor;
use candle_transformers::models::llama::{Cache, Config, Llama, LlamaConfig};
use candle_transformers::utils::apply_repeat_penalty;
use std::collections::HashMap;

const PROMPT: &[u32] = &[1, 40, 7, 23, 7];
const GENERATED: usize = 6;

/// Weights between -1 and 1, scaled by the length of what they are multiplied with; those of norms are about 1.
fn weight(name: &str, shape: &[usize]) -> Result<Tensor> {
    let salt: usize = name.bytes().map(usize::from).sum();
    let count: usize = shape.iter().product();
    let numbers = (0..count)
        .map(|i| ((i * 97 + i / 11 + salt * 31) % 255) as f32 / 127. - 1.)
        .collect::<Vec<_>>();
    let numbers = Tensor::from_vec(numbers, shape, &Device::Cpu)?;
    if shape.len() == 1 {
        return numbers.affine(0.1, 1.);
    }
    let length: usize = shape[1..].iter().product();
    numbers * (1.5 / (length as f64).sqrt())
}

/// The largest difference between two tensors, relative to the largest number of the second one.
fn difference(got: &Tensor, expected: &Tensor) -> Result<f32> {
    assert_eq!(got.dims(), expected.dims());
    let numbers = |tensor: &Tensor| {
        let tensor = tensor.to_device(&Device::Cpu)?.to_dtype(DType::F32)?;
        tensor.flatten_all()?.to_vec1::<f32>()
    };
    let (got, expected) = (numbers(got)?, numbers(expected)?);
    let largest = expected.iter().fold(0f32, |most, x| most.max(x.abs()));
    assert!(largest > 0., "nothing to compare with");
    let mut most = 0f32;
    for (got, expected) in got.iter().zip(&expected) {
        assert!(got.is_finite() && expected.is_finite());
        most = most.max((got - expected).abs());
    }
    Ok(most / largest)
}

// --- a small llama -------------------------------------------------------------------------------------------------

/// Grouped attention, two layers, and all else as the real ones have it.
fn config() -> Config {
    let config = r#"{
        "hidden_size": 32, "intermediate_size": 48, "vocab_size": 61, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
        "max_position_embeddings": 64
    }"#;
    let config: LlamaConfig = serde_json::from_str(config).expect("a configuration");
    config.into_config(false)
}

struct Chat {
    llama: Llama,
    cache: Cache,
    device: Device,
}

impl Chat {
    fn new(dtype: DType, device: &Device) -> Result<Self> {
        let config = config();
        // The names and shapes of its weights.
        let asked = VarMap::new();
        Llama::load(
            VarBuilder::from_varmap(&asked, DType::F32, &Device::Cpu),
            &config,
        )?;
        let mut weights = HashMap::new();
        for (name, var) in asked.data().lock().unwrap().iter() {
            let weight = weight(name, var.dims())?;
            weights.insert(name.clone(), weight.to_device(device)?);
        }
        let weights = VarBuilder::from_tensors(weights, dtype, device);
        Ok(Self {
            llama: Llama::load(weights, &config)?,
            cache: Cache::new(true, dtype, &config, device)?,
            device: device.clone(),
        })
    }

    /// The logits behind the last of `tokens`, which stand at `position`.
    fn logits(&mut self, tokens: &[u32], position: usize) -> Result<Tensor> {
        let input = Tensor::new(tokens, &self.device)?.unsqueeze(0)?;
        let logits = self.llama.forward(&input, position, &mut self.cache)?;
        assert!(logits.device().same_device(&self.device));
        logits.squeeze(0)
    }

    fn generate(&mut self, mut sampler: LogitsProcessor) -> Result<Vec<u32>> {
        let mut tokens = PROMPT.to_vec();
        let mut position = 0;
        for _ in 0..GENERATED {
            let logits = self.logits(&tokens[position..], position)?;
            let logits = apply_repeat_penalty(&logits, 1.1, &tokens)?;
            position = tokens.len();
            tokens.push(sampler.sample(&logits)?);
        }
        Ok(tokens.split_off(PROMPT.len()))
    }
}

/// The prompt at once, then token by token through the cache.
fn llama_agrees_with_the_cpu(dtype: DType, allowed: f32) -> Result<()> {
    let device = Device::new_rocm(0)?;
    let (mut chat, mut expected) = (
        Chat::new(dtype, &device)?,
        Chat::new(DType::F32, &Device::Cpu)?,
    );
    let mut position = 0;
    for tokens in [PROMPT, &[11], &[60], &[0]] {
        let (got, expected) = (
            chat.logits(tokens, position)?,
            expected.logits(tokens, position)?,
        );
        let off = difference(&got, &expected)?;
        println!("{dtype:?} at {position}: off by {off:e}");
        assert!(
            off <= allowed,
            "{dtype:?} at {position}: off by {off:e}, {allowed:e} allowed"
        );
        position += tokens.len();
    }
    Ok(())
}

/// Products of 48 numbers at most, 15 behind one another.
const F32_ALLOWED: f32 = 48. * 15. * f32::EPSILON;

#[test]
fn llama_f32() -> Result<()> {
    llama_agrees_with_the_cpu(DType::F32, F32_ALLOWED)
}

#[test]
fn llama_bf16() -> Result<()> {
    // 15 results behind one another that are rounded to 8 bits, compared with f32.
    llama_agrees_with_the_cpu(DType::BF16, 15. / 256.)
}

#[test]
fn generation_of_likeliest_tokens() -> Result<()> {
    let run = |device: &Device| {
        Chat::new(DType::F32, device)?.generate(LogitsProcessor::new(1, None, None))
    };
    let (got, expected) = (run(&Device::new_rocm(0)?)?, run(&Device::Cpu)?);
    assert_eq!(got, expected);
    Ok(())
}

#[test]
fn generation_with_sampling() -> Result<()> {
    let run = |device: &Device| {
        let sampler = LogitsProcessor::new(299792458, Some(0.8), Some(0.9));
        Chat::new(DType::F32, device)?.generate(sampler)
    };
    let (got, expected) = (run(&Device::new_rocm(0)?)?, run(&Device::Cpu)?);
    assert_eq!(got.len(), GENERATED);
    assert_eq!(got, expected);
    Ok(())
}

// --- a convolutional net -------------------------------------------------------------------------------------------

struct ConvNet {
    first: Conv2d,
    second: Conv2d,
    head: Linear,
}

impl ConvNet {
    const CLASSES: usize = 5;

    fn new(vb: VarBuilder) -> Result<Self> {
        let padded = Conv2dConfig {
            padding: 1,
            ..Default::default()
        };
        Ok(Self {
            first: candle_nn::conv2d(1, 4, 3, Default::default(), vb.pp("first"))?,
            second: candle_nn::conv2d(4, 8, 3, padded, vb.pp("second"))?,
            head: candle_nn::linear(8, Self::CLASSES, vb.pp("head"))?,
        })
    }

    fn forward(&self, images: &Tensor) -> Result<Tensor> {
        images
            .apply(&self.first)?
            .max_pool2d(2)?
            .apply(&self.second)?
            .gelu()?
            .avg_pool2d(5)?
            .flatten_from(1)?
            .apply(&self.head)
    }
}

/// Loss before each step, logits behind the last one, and by how much training changed the weights.
struct Trained {
    losses: Vec<f32>,
    logits: Tensor,
    changes: Vec<(String, Tensor)>,
}

/// How many images a step sees: of Candle 0.9.1 and 0.9.2-alpha.1 one. With a view for a kernel, as in training, their
/// CPU convolves with what lies below the view; of one image the view is contiguous.
fn images_in_a_step() -> Result<usize> {
    let view = weight("view", &[2, 3, 2, 2])?.transpose(0, 1)?;
    let image = weight("image", &[1, 2, 4, 4])?;
    let right = image.conv2d(&view.contiguous()?, 0, 1, 1, 1)?;
    let off = difference(&image.conv2d(&view, 0, 1, 1, 1)?, &right)?;
    Ok(if off < 1e-3 { 10 } else { 1 })
}

fn train(device: &Device) -> Result<Trained> {
    let variables = VarMap::new();
    let net = ConvNet::new(VarBuilder::from_varmap(&variables, DType::F32, device))?;
    for (name, var) in variables.data().lock().unwrap().iter() {
        var.set(&weight(name, var.dims())?.to_device(device)?)?;
    }
    let labels = Tensor::new(&[0u32, 1, 2, 3, 4, 4, 3, 2, 1, 0], device)?;
    // Noise, the brighter the higher the label is.
    let bright = labels.to_dtype(DType::F32)?.reshape((10, 1, 1, 1))?;
    let noise = weight("images", &[10, 1, 12, 12])?.to_device(device)?;
    let images = noise.broadcast_add(&bright.affine(0.5, -1.)?)?;
    let count = images_in_a_step()?;
    let (images, labels) = (images.narrow(0, 0, count)?, labels.narrow(0, 0, count)?);

    let mut optimizer = SGD::new(variables.all_vars(), 0.05)?;
    let mut losses = Vec::new();
    for _ in 0..3 {
        let loss = loss::cross_entropy(&net.forward(&images)?, &labels)?;
        optimizer.backward_step(&loss)?;
        losses.push(loss.to_scalar::<f32>()?);
    }
    let logits = net.forward(&images)?;
    assert!(logits.device().same_device(device));
    let mut changes = Vec::new();
    for (name, var) in variables.data().lock().unwrap().iter() {
        let change = (var.to_device(&Device::Cpu)? - weight(name, var.dims())?)?;
        changes.push((name.clone(), change));
    }
    changes.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(Trained {
        losses,
        logits,
        changes,
    })
}

#[test]
fn convolutional_net_trains() -> Result<()> {
    let (got, expected) = (train(&Device::new_rocm(0)?)?, train(&Device::Cpu)?);
    println!("losses {:?}, on the CPU {:?}", got.losses, expected.losses);
    assert!(expected.losses[2] < expected.losses[0], "it learns nothing");
    // Sums over 10 images with 100 places each, three steps.
    let allowed = 1000. * 3. * f32::EPSILON;
    for (got, expected) in got.losses.iter().zip(&expected.losses) {
        assert!((got - expected).abs() <= allowed * expected);
    }
    assert!(difference(&got.logits, &expected.logits)? <= allowed);
    assert_eq!(got.changes.len(), 6);
    for ((name, got), (_, expected)) in got.changes.iter().zip(&expected.changes) {
        let off = difference(got, expected)?;
        let largest = expected.abs()?.flatten_all()?.max(0)?.to_scalar::<f32>()?;
        println!("{name} changed by {largest:e}, off by {off:e} of that");
        // The weights, which are about 1, are rounded in each step.
        let allowed = allowed + 4. * f32::EPSILON / largest;
        assert!(
            off <= allowed,
            "{name}: off by {off:e}, {allowed:e} allowed"
        );
    }
    Ok(())
}
