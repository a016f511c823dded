//! Tensors on a device.
use super::gpu;
use candle_core::{DType, Device, Result, Tensor};

#[test]
fn a_tensor_lies_on_its_device() -> Result<()> {
    let Some(device) = gpu("a_tensor_lies_on_its_device") else {
        return Ok(());
    };
    let device = Device::Rocm(device);
    let ones = Tensor::ones(4, DType::F32, &device)?;
    assert!(ones.device().same_device(&device));
    assert_eq!(ones.to_vec1::<f32>()?, [1.; 4]);
    Ok(())
}
