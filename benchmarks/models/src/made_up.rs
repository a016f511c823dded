//! Weights that nobody has trained: the same numbers on each device, small, and around one where they scale.
use candle::quantized::{GgmlDType, QStorage, QTensor};
use candle::{DType, Device, Result, Shape, Tensor};
use candle_nn::var_builder::SimpleBackend;
use candle_nn::{Init, VarBuilder};
use std::borrow::Cow;

/// Numbers begin again after so many.
const PERIOD: usize = 1009;

/// Numbers around `mean`.
fn numbers(mean: f32, spread: f32, count: usize) -> Vec<f32> {
    let number = |i| mean + spread * ((i * 7919 + 13) % PERIOD) as f32 / 504.5 - spread;
    (0..count).map(number).collect()
}

struct MadeUp;

impl SimpleBackend for MadeUp {
    /// What repeats is repeated on the device.
    fn get(
        &self,
        shape: Shape,
        name: &str,
        _: Init,
        dtype: DType,
        device: &Device,
    ) -> Result<Tensor> {
        let count = shape.elem_count();
        let fan = shape.dims().iter().skip(1).product::<usize>().max(1) as f32;
        let is_scale =
            name.ends_with("running_var") || shape.rank() == 1 && name.ends_with("weight");
        let (mean, spread) = if is_scale {
            (1., 0.1)
        } else {
            (0., fan.powf(-0.5))
        };
        let period = Tensor::new(numbers(mean, spread, PERIOD), &Device::Cpu)?;
        let period = period.to_dtype(dtype)?.to_device(device)?;
        let all = period.broadcast_as((count.div_ceil(PERIOD), PERIOD))?;
        let all = all.contiguous()?.flatten_all()?;
        all.narrow(0, 0, count)?.copy()?.reshape(shape)
    }

    fn get_unchecked(&self, name: &str, _: DType, _: &Device) -> Result<Tensor> {
        candle::bail!("the shape of {name} is not known")
    }

    fn contains_tensor(&self, _: &str) -> bool {
        true
    }
}

pub(crate) fn weights(dtype: DType, device: &Device) -> VarBuilder<'static> {
    VarBuilder::from_backend(Box::new(MadeUp), dtype, device.clone())
}

/// A matrix in a format of GGUF: rows that repeat.
pub(crate) fn quantized(
    format: GgmlDType,
    rows: usize,
    columns: usize,
    device: &Device,
) -> Result<QTensor> {
    let few = rows.min(64);
    let spread = (columns as f32).powf(-0.5);
    let numbers = numbers(0., spread, few * columns);
    let numbers = Tensor::from_vec(numbers, (few, columns), &Device::Cpu)?;
    let data = QTensor::quantize(&numbers, format)?.data()?.into_owned();
    let storage = QStorage::from_data(Cow::Owned(data.repeat(rows / few)), device, format)?;
    QTensor::new(storage, (rows, columns))
}

/// Numbers between -1 and 1.
pub(crate) fn input(shape: impl Into<Shape>, dtype: DType, device: &Device) -> Result<Tensor> {
    let shape = shape.into();
    let numbers = numbers(0., 1., shape.elem_count());
    Tensor::from_vec(numbers, shape, &Device::Cpu)?
        .to_dtype(dtype)?
        .to_device(device)
}

/// Words of a vocabulary.
pub(crate) fn tokens(shape: impl Into<Shape>, device: &Device) -> Result<Tensor> {
    let shape = shape.into();
    let tokens: Vec<u32> = (0..shape.elem_count() as u32)
        .map(|i| i * 7919 % 30011)
        .collect();
    Tensor::from_vec(tokens, shape, device)
}
