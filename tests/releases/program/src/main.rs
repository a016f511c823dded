//! A product, a softmax and a sum on an AMD GPU where one answers, else on the CPU; both give the same numbers.
use candle_core::{DType, Device, DeviceLocation, Result, Tensor};
use candle_nn::ops::softmax_last_dim;

/// The device of the program: `cpu` on the command line, or the first AMD GPU there is.
fn device() -> Result<Device> {
    match std::env::args().nth(1).as_deref() {
        Some("cpu") => Ok(Device::Cpu),
        _ => Device::rocm_if_available(0),
    }
}

/// Each row of a 3x4 by 4x5 product as shares that add up to one.
fn shares(device: &Device) -> Result<Tensor> {
    let left = Tensor::arange(0f32, 12., device)?
        .reshape((3, 4))?
        .affine(0.1, -0.5)?;
    let right = Tensor::arange(0f32, 20., device)?.reshape((4, 5))?.cos()?;
    softmax_last_dim(&left.matmul(&right)?)
}

fn main() -> Result<()> {
    let device = device()?;
    let name = match device.location() {
        DeviceLocation::Cpu => "cpu".to_string(),
        other => format!("{other:?}"),
    };
    println!("device: {name}");

    let found = shares(&device)?;
    println!("sums: {:.3?}", found.sum(1)?.to_vec1::<f32>()?);
    for row in found.to_vec2::<f32>()? {
        println!("{row:.3?}");
    }
    let apart = (found.to_device(&Device::Cpu)? - shares(&Device::Cpu)?)?
        .abs()?
        .max_all()?
        .to_dtype(DType::F64)?
        .to_scalar::<f64>()?;
    assert!(apart < 1e-6, "{apart} away from the CPU");
    println!("as on the CPU");
    Ok(())
}
