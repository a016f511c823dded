//! A llama of 8B size that decodes in a cache of fixed capacity: launch by launch, and captured.
use crate::made_up::{quantized, weights};
use crate::model::{Config, Llama};
use crate::{devices, measured, Rate, Rows, Work};
use candle::quantized::{GgmlDType, QMatMul};
use candle::rocm::Captured;
use candle::{DType, Device, Result, Tensor, D};
use std::cell::RefCell;

/// Llama 3 8B, with room for a text and a little more.
fn config(length: usize) -> Config {
    Config {
        vocabulary: 128_256,
        hidden: 4096,
        layers: 32,
        heads: 32,
        key_heads: 8,
        inner: 14_336,
        rope_theta: 500_000.,
        rms_norm_eps: 1e-5,
        capacity: length + 64,
    }
}

#[derive(Clone, Copy)]
enum Format {
    Plain(DType),
    Quantized(GgmlDType),
}

impl Format {
    fn name(self) -> String {
        match self {
            Self::Plain(dtype) => format!("{dtype:?}"),
            Self::Quantized(format) => format!("{format:?}"),
        }
    }

    fn llama(self, length: usize, device: &Device) -> Result<Llama> {
        let dtype = match self {
            Self::Plain(dtype) => dtype,
            Self::Quantized(_) => DType::F32,
        };
        let vb = weights(dtype, device);
        let matrices = vb.clone();
        Llama::new(config(length), vb, |parts, columns| {
            let rows = parts.iter().map(|(_, rows)| rows).sum();
            match self {
                Self::Plain(_) => matrices.get((rows, columns), "").map(QMatMul::Tensor),
                Self::Quantized(format) => {
                    QMatMul::from_qtensor(quantized(format, rows, columns, device)?)
                }
            }
        })
    }
}

pub(crate) fn time(rows: &Rows) {
    for format in [
        Format::Plain(DType::F16),
        Format::Plain(DType::BF16),
        Format::Quantized(GgmlDType::Q4K),
        Format::Quantized(GgmlDType::Q8_0),
    ] {
        for length in [128, 2048] {
            let name = format!("llama 8B {}, decode at {length}, captured", format.name());
            rows.time(&name, || row(format, length));
        }
    }
}

/// The same token at the same place each time, so that results can be compared.
fn row(format: Format, length: usize) -> Result<String> {
    let devices = devices();
    let mut models = Vec::new();
    for (name, device) in &devices {
        let llama = format.llama(length, device)?;
        let prompt: Vec<u32> = (0..length as u32).map(|i| i * 7919 % 128_256).collect();
        llama.read(&prompt)?;
        let token = Tensor::new(&[1u32], device)?;
        let position = Tensor::new(&[length as u32], device)?;
        models.push((*name, device, llama, token, position));
    }
    let mut works = Vec::new();
    for (name, device, llama, token, position) in &models {
        let step = move || {
            let logits = llama.forward(token, position)?;
            logits.argmax(D::Minus1)?;
            Ok(logits)
        };
        works.push(Work {
            name,
            device,
            run: Box::new(step),
        });
        if device.is_rocm() {
            let captured = RefCell::new(Captured::new(device, step)?);
            works.push(Work {
                name: "captured",
                device,
                run: Box::new(move || captured.borrow_mut().replay().cloned()),
            });
        }
    }
    measured(&works, Some(Rate(1, "tok")))
}
