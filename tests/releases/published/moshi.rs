//! Encodes and decodes sound with moshi's convolutional codec, weights at random, on the device and on the CPU.
use std::collections::HashMap;

use candle_core::{DType, Device, Module, Result, Tensor};
use candle_nn::{Activation, VarBuilder, VarMap};
use moshi::conv::{Norm, PadMode};
use moshi::seanet::{Config, SeaNetDecoder, SeaNetEncoder};

fn config() -> Config {
    Config {
        dimension: 16,
        channels: 1,
        causal: true,
        n_filters: 4,
        n_residual_layers: 1,
        ratios: vec![4, 2],
        activation: Activation::Elu(1.),
        norm: Norm::WeightNorm,
        kernel_size: 7,
        residual_kernel_size: 3,
        last_kernel_size: 3,
        dilation_base: 2,
        pad_mode: PadMode::Constant,
        true_skip: true,
        compress: 2,
        lstm: 0,
        disable_norm_outer_blocks: 4,
        final_activation: None,
    }
}

/// The codes of half a second, and the sound that comes of them.
fn coded(weights: VarBuilder, device: &Device) -> Result<[Tensor; 2]> {
    let encoder = SeaNetEncoder::new(&config(), weights.pp("encoder"))?;
    let decoder = SeaNetDecoder::new(&config(), weights.pp("decoder"))?;
    let time = Tensor::arange(0f32, 480., device)?.reshape((1, 1, 480))?;
    let codes = encoder.forward(&(time * 0.1)?.sin()?)?;
    let sound = decoder.forward(&codes)?;
    Ok([codes, sound])
}

fn main() -> Result<()> {
    let device = Device::rocm_if_available(0)?;
    println!("rocm: {}", device.is_rocm());
    let weights = VarMap::new();
    let wanted = coded(VarBuilder::from_varmap(&weights, DType::F32, &Device::Cpu), &Device::Cpu)?;
    let named = weights.data().lock().unwrap();
    let copies: HashMap<_, _> = named
        .iter()
        .map(|(name, weight)| Ok((name.clone(), weight.to_device(&device)?)))
        .collect::<Result<_>>()?;
    let found = coded(VarBuilder::from_tensors(copies, DType::F32, &device), &device)?;
    for (found, wanted) in found.iter().zip(&wanted) {
        let apart = (found.to_device(&Device::Cpu)? - wanted)?.abs()?.max_all()?.to_scalar::<f32>()?;
        let size = wanted.abs()?.max_all()?.to_scalar::<f32>()?;
        assert!(apart < 1e-5 * size.max(1.) && size > 1e-3, "{apart} of {size}");
    }
    println!("as on the CPU");
    Ok(())
}
