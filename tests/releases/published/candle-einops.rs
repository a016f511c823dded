//! Rearranges, reduces and contracts with candle-einops, on the device and on the CPU.
use candle_core::{Device, Result, Tensor};
use candle_einops::einops;

fn found(device: &Device) -> Result<Vec<f32>> {
    let input = Tensor::arange(0f32, 24., device)?.reshape((2, 3, 4))?;
    let turned = einops!("batch height width -> width batch height", &input)?;
    let mean = einops!("mean(batch) height width -> height width", &input)?;
    let flat = turned.sum(0)?.flatten_all()?;
    Tensor::cat(&[flat, mean.flatten_all()?], 0)?.to_vec1()
}

fn main() -> Result<()> {
    let device = Device::rocm_if_available(0)?;
    println!("rocm: {}", device.is_rocm());
    assert_eq!(found(&device)?, found(&Device::Cpu)?);
    println!("as on the CPU");
    Ok(())
}
