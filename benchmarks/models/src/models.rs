//! Whole models with made-up weights, and a step of training.
use crate::{devices, measured, report, seconds, Work};
use candle::{DType, Device, Module, ModuleT, Result, Shape, Tensor};
use candle_nn::var_builder::SimpleBackend;
use candle_nn::{Conv2dConfig, Init, Linear, Optimizer, VarBuilder, VarMap};
use candle_transformers::models::{convnext, efficientnet, resnet};

/// The same numbers on each device, whatever is asked for: small, and around one where they scale.
struct MadeUp;

impl SimpleBackend for MadeUp {
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
        let numbers =
            (0..count).map(|i| mean + spread * (((i * 7919 + 13) % 1009) as f32 / 504.5 - 1.));
        let made = Tensor::from_iter(numbers, &Device::Cpu)?.reshape(shape)?;
        made.to_dtype(dtype)?.to_device(device)
    }

    fn get_unchecked(&self, name: &str, _: DType, _: &Device) -> Result<Tensor> {
        candle::bail!("the shape of {name} is not known")
    }

    fn contains_tensor(&self, _: &str) -> bool {
        true
    }
}

pub(crate) fn time() -> Result<()> {
    let devices = devices();
    step_of_training(&devices)?;
    for (dtype, batch) in [
        (DType::F32, 1),
        (DType::F32, 32),
        (DType::F16, 1),
        (DType::F16, 32),
    ] {
        images("resnet50", &devices, dtype, batch, |vb| {
            let model = resnet::resnet50(1000, vb)?;
            Ok(Box::new(move |x| model.forward_t(x, false)))
        })?;
        images("efficientnet b0", &devices, dtype, batch, |vb| {
            let model =
                efficientnet::EfficientNet::new(vb, efficientnet::MBConvConfig::b0(), 1000)?;
            Ok(Box::new(move |x| model.forward(x)))
        })?;
        images("convnext tiny", &devices, dtype, batch, |vb| {
            let model = convnext::convnext(&convnext::Config::tiny(), 1000, vb)?;
            Ok(Box::new(move |x| model.forward(x)))
        })?;
    }
    Ok(())
}

type Forward = Box<dyn Fn(&Tensor) -> Result<Tensor>>;

/// Images of 224x224 through a model.
fn images(
    name: &str,
    devices: &[(&str, Device)],
    dtype: DType,
    batch: usize,
    model: impl Fn(VarBuilder<'static>) -> Result<Forward>,
) -> Result<()> {
    let x = Tensor::randn(0f32, 1., (batch, 3, 224, 224), &Device::Cpu)?.to_dtype(dtype)?;
    let mut works = Vec::new();
    for (_, device) in devices {
        let vb = VarBuilder::from_backend(Box::new(MadeUp), dtype, device.clone());
        let (forward, x) = (model(vb)?, x.to_device(device)?);
        works.push(Work {
            device,
            run: Box::new(move || forward(&x)),
        });
    }
    let name = format!("{name} {dtype:?}, {batch} images");
    match measured(&works) {
        Ok((times, apart)) => report(&name, devices, &times, apart),
        Err(error) => println!("{name}: {error}"),
    }
    Ok(())
}

/// Two convolutions and two linear layers, 256 images of 28x28, in f32.
fn step_of_training(devices: &[(&str, Device)]) -> Result<()> {
    let images = Tensor::randn(0f32, 1., (256, 1, 28, 28), &Device::Cpu)?;
    let labels = Tensor::from_iter((0..256u32).map(|i| i % 10), &Device::Cpu)?;
    let mut works = Vec::new();
    for (_, device) in devices {
        let (images, labels) = (images.to_device(device)?, labels.to_device(device)?);
        let variables = VarMap::new();
        let vb = VarBuilder::from_varmap(&variables, DType::F32, device);
        let first = candle_nn::conv2d(1, 32, 5, Conv2dConfig::default(), vb.pp("c1"))?;
        let second = candle_nn::conv2d(32, 64, 5, Conv2dConfig::default(), vb.pp("c2"))?;
        let third: Linear = candle_nn::linear(1024, 1024, vb.pp("l1"))?;
        let fourth: Linear = candle_nn::linear(1024, 10, vb.pp("l2"))?;
        let optimizer = candle_nn::AdamW::new_lr(variables.all_vars(), 1e-3)?;
        let optimizer = std::sync::Mutex::new(optimizer);
        let run = Box::new(move || {
            let x = first.forward(&images)?.max_pool2d(2)?;
            let x = second.forward(&x)?.max_pool2d(2)?.flatten_from(1)?;
            let x = fourth.forward(&third.forward(&x)?.relu()?)?;
            let loss = candle_nn::loss::cross_entropy(&x, &labels)?;
            let mut optimizer = optimizer.lock().expect("nobody has panicked");
            optimizer.backward_step(&loss)?;
            Ok(loss)
        });
        works.push(Work { device, run });
    }
    // Weights are drawn on each device, so that losses differ.
    report(
        "a step of training, two convolutions and two linear layers",
        devices,
        &seconds(&works)?,
        None,
    );
    Ok(())
}
