//! Models that see images, and one that makes them.
use crate::made_up::{input, weights};
use crate::{devices, measured, Rate, Rows, Work};
use candle::{DType, Module, ModuleT, Result, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::stable_diffusion::unet_2d;
use candle_transformers::models::{convnext, efficientnet, resnet};

type Forward = Box<dyn Fn(&Tensor) -> Result<Tensor>>;
type Build = fn(VarBuilder<'static>) -> Result<Forward>;

pub(crate) fn time(rows: &Rows) {
    for dtype in [DType::F32, DType::F16] {
        for batch in [1, 32] {
            let row = |name: &str, model: Build| {
                let name = format!("{name} {dtype:?}, {batch} images");
                rows.time(&name, || images(dtype, batch, model));
            };
            row("resnet50", |vb| {
                let model = resnet::resnet50(1000, vb)?;
                Ok(Box::new(move |x| model.forward_t(x, false)))
            });
            row("efficientnet b0", |vb| {
                let config = efficientnet::MBConvConfig::b0();
                let model = efficientnet::EfficientNet::new(vb, config, 1000)?;
                Ok(Box::new(move |x| model.forward(x)))
            });
            row("convnext tiny", |vb| {
                let model = convnext::convnext(&convnext::Config::tiny(), 1000, vb)?;
                Ok(Box::new(move |x| model.forward(x)))
            });
        }
        for batch in [2, 8] {
            let name = format!("stable diffusion unet {dtype:?}, {batch} latents of 64x64");
            rows.time(&name, || unet(dtype, batch));
        }
    }
}

/// Images of 224x224 through a model.
fn images(dtype: DType, batch: usize, model: Build) -> Result<String> {
    let devices = devices();
    let mut works = Vec::new();
    for (name, device) in &devices {
        let forward = model(weights(dtype, device))?;
        let x = input((batch, 3, 224, 224), dtype, device)?;
        let run = Box::new(move || forward(&x));
        works.push(Work { name, device, run });
    }
    measured(&works, Some(Rate(batch, "images")))
}

/// A step of version 1.5.
fn unet(dtype: DType, batch: usize) -> Result<String> {
    let config = unet_2d::UNet2DConditionModelConfig {
        cross_attention_dim: 768,
        ..Default::default()
    };
    let devices = devices();
    let mut works = Vec::new();
    for (name, device) in &devices {
        let vb = weights(dtype, device);
        let model = unet_2d::UNet2DConditionModel::new(vb, 4, 4, false, config.clone())?;
        let latents = input((batch, 4, 64, 64), dtype, device)?;
        let text = input((batch, 77, 768), dtype, device)?;
        let run = Box::new(move || model.forward(&latents, 500., &text));
        works.push(Work { name, device, run });
    }
    measured(&works, None)
}
