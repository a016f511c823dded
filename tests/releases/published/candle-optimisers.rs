//! Fits a line with Adam of candle-optimisers, on the device and on the CPU.
use candle_core::{Device, Result, Tensor, Var};
use candle_nn::Optimizer;
use candle_optimisers::adam::{Adam, ParamsAdam};

fn fitted(device: &Device) -> Result<Vec<f32>> {
    let xs = Tensor::new(&[[1f32, 0.], [0., 1.], [1., 1.]], device)?;
    let ys = Tensor::new(&[[2f32], [-1.], [1.]], device)?;
    let weights = Var::zeros((2, 1), candle_core::DType::F32, device)?;
    let params = ParamsAdam {
        lr: 0.05,
        ..Default::default()
    };
    let mut optimiser = Adam::new(vec![weights.clone()], params)?;
    for _ in 0..20 {
        let loss = xs.matmul(&weights)?.sub(&ys)?.sqr()?.mean_all()?;
        optimiser.backward_step(&loss)?;
    }
    weights.flatten_all()?.to_vec1()
}

fn main() -> Result<()> {
    let device = Device::rocm_if_available(0)?;
    println!("rocm: {}", device.is_rocm());
    let (found, wanted) = (fitted(&device)?, fitted(&Device::Cpu)?);
    let apart = found
        .iter()
        .zip(&wanted)
        .map(|(a, b)| (a - b).abs())
        .fold(0f32, f32::max);
    assert!(apart < 1e-5 && wanted[0] > 0.5, "{found:?} {wanted:?}");
    println!("as on the CPU");
    Ok(())
}
