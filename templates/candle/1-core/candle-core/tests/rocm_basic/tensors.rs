//! Tensors, which a later phase brings.
use super::{bare, gpu};
use candle_core::{DType, Device, Error, Result, RocmError, Tensor};

#[test]
fn a_tensor_needs_a_later_phase() -> Result<()> {
    let Some(device) = gpu("a_tensor_needs_a_later_phase") else {
        return Ok(());
    };
    match Tensor::zeros(4, DType::F32, &Device::Rocm(device)).map_err(bare) {
        Err(Error::Rocm(RocmError::NotGenerated { op, phase })) => {
            assert_eq!((op, phase), ("zeros_impl", 3));
        }
        other => panic!("{other:?}"),
    }
    Ok(())
}
