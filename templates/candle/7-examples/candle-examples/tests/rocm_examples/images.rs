//! A convolutional network that classifies an image.

use crate::program::{run_on_both, Folder};
use crate::weights::{numbers, weight};
use candle::{DType, Device, Result, Tensor};
use candle_nn::{VarBuilder, VarMap};
use candle_transformers::models::resnet::resnet18;
use std::path::Path;

const SIDE: usize = 224;
const CLASSES: usize = candle_examples::imagenet::CLASS_COUNT as usize;

/// Writes a picture of coloured noise.
fn write_image(file: &Path) -> Result<()> {
    let pixels = numbers("picture", 3 * SIDE * SIDE);
    let pixels = pixels.into_iter().map(|x| (x * 127. + 128.) as u8);
    let image = Tensor::from_iter(pixels, &Device::Cpu)?.reshape((3, SIDE, SIDE))?;
    candle_examples::save_image(&image, file)
}

/// Writes ResNet-18's weights, with which the activations neither fade nor grow much, and some classes win.
fn write_weights(file: &Path) -> Result<()> {
    let variables = VarMap::new();
    let vb = VarBuilder::from_varmap(&variables, DType::F32, &Device::Cpu);
    resnet18(CLASSES, vb)?;
    for (name, var) in variables.data().lock().unwrap().iter() {
        if var.dims().len() > 1 || name == "fc.bias" {
            let inputs = var.dims().iter().skip(1).product::<usize>();
            var.set(&weight(name, var.dims(), (3. / inputs as f64).sqrt())?)?;
        }
    }
    variables.save(file)
}

/// The classes that were printed, each with its probability in percent.
fn classes(printed: &str) -> Vec<(&str, f32)> {
    let lines = printed.lines().filter_map(|line| line.strip_suffix('%'));
    lines
        .map(|line| line.rsplit_once(':').unwrap())
        .map(|(class, percent)| (class.trim(), percent.trim().parse().unwrap()))
        .collect()
}

#[test]
fn resnet() -> Result<()> {
    let data = Folder::new("resnet-data");
    let (image, model) = (data.join("image.png"), data.join("resnet18.safetensors"));
    write_image(&image)?;
    write_weights(&model)?;

    let (on_cpu, on_rocm) = run_on_both(
        "resnet",
        "resnet",
        &[
            "--which=18",
            &format!("--model={}", model.display()),
            &format!("--image={}", image.display()),
        ],
    );

    let (expected, found) = (classes(&on_cpu), classes(&on_rocm));
    println!("{expected:?}");
    assert_eq!(expected.len(), 5, "{on_cpu}");
    assert!(expected[0].1 > 2. * expected[4].1, "nothing stands out");
    assert_eq!(found.len(), 5, "{on_rocm}");
    for ((class, percent), (found, found_percent)) in expected.iter().zip(&found) {
        assert_eq!(class, found, "{on_rocm}");
        // Both were rounded to hundredths.
        assert!((percent - found_percent).abs() < 0.015, "{on_rocm}");
    }
    Ok(())
}
