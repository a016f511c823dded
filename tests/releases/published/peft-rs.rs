//! Adapts a layer with LoRA of peft-rs, trains the adapter and merges it, on the device and on the CPU.
use candle_core::{Device, Result, Tensor, Var};
use candle_nn::{Optimizer, SGD};
use peft_rs::{Adapter, LoraConfig, LoraLayer, Mergeable};

const RANK: usize = 2;

fn ramp(shape: (usize, usize), scale: f64, device: &Device) -> Result<Tensor> {
    let count = (shape.0 * shape.1) as f32;
    let steps = Tensor::arange(0f32, count, device)?.reshape(shape)?;
    (steps * scale)?.sin()
}

/// The merged weights after some steps of training.
fn merged(device: &Device) -> Result<Vec<f32>> {
    let base = ramp((5, 3), 0.7, device)?;
    let (xs, ys) = (ramp((8, 3), 0.3, device)?, ramp((8, 5), 0.2, device)?);
    let a = Var::from_tensor(&ramp((RANK, 3), 0.9, device)?)?;
    let b = Var::from_tensor(&Tensor::zeros((5, RANK), candle_core::DType::F32, device)?)?;
    let adapter = || {
        let config = LoraConfig { r: RANK, alpha: 4, ..Default::default() };
        LoraLayer::from_weights(a.as_tensor().clone(), b.as_tensor().clone(), config)
            .map_err(candle_core::Error::wrap)
    };
    let mut optimiser = SGD::new(vec![a.clone(), b.clone()], 0.05)?;
    for _ in 0..10 {
        let plain = xs.matmul(&base.t()?)?;
        let adapted = adapter()?.forward(&xs, Some(&plain)).map_err(candle_core::Error::wrap)?;
        optimiser.backward_step(&(adapted - &ys)?.sqr()?.mean_all()?)?;
    }
    let weights = adapter()?.merge(&base).map_err(candle_core::Error::wrap)?;
    let moved = (&weights - &base)?.abs()?.max_all()?.to_scalar::<f32>()?;
    assert!(moved > 0.01, "nothing was learnt: {moved}");
    weights.flatten_all()?.to_vec1()
}

fn main() -> Result<()> {
    let device = Device::rocm_if_available(0)?;
    println!("rocm: {}", device.is_rocm());
    let (found, wanted) = (merged(&device)?, merged(&Device::Cpu)?);
    let apart = found.iter().zip(&wanted).map(|(a, b)| (a - b).abs()).fold(0f32, f32::max);
    assert!(apart < 1e-5, "{found:?} {wanted:?}");
    println!("as on the CPU");
    Ok(())
}
