//! Models of texts and of speech that read all at once.
use crate::made_up::{input, tokens, weights};
use crate::{devices, measured, Rate, Rows, Work};
use candle::{DType, Result};
use candle_transformers::models::{bert, whisper};
use std::cell::RefCell;

pub(crate) fn time(rows: &Rows) {
    // In f16, Candle's mask is not a number, and so are the results.
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        for (batch, length) in [(1, 128), (32, 512)] {
            let name = format!("bert base {dtype:?}, {batch}x{length}");
            rows.time(&name, || bert_base(dtype, batch, length));
        }
    }
    // Candle's encoder has places in f32 only.
    for batch in [1, 8] {
        let name = format!("whisper small encoder F32, {batch} times 30 s");
        rows.time(&name, || whisper_encoder(batch));
    }
}

fn bert_base(dtype: DType, batch: usize, length: usize) -> Result<String> {
    let devices = devices();
    let mut works = Vec::new();
    for (name, device) in &devices {
        let model = bert::BertModel::load(weights(dtype, device), &bert::Config::default())?;
        let tokens = tokens((batch, length), device)?;
        let kinds = tokens.zeros_like()?;
        let run = Box::new(move || model.forward(&tokens, &kinds, None));
        works.push(Work { name, device, run });
    }
    measured(&works, Some(Rate(batch * length, "tok")))
}

fn whisper_encoder(batch: usize) -> Result<String> {
    let config = whisper::Config {
        num_mel_bins: 80,
        max_source_positions: 1500,
        d_model: 768,
        encoder_attention_heads: 12,
        encoder_layers: 12,
        vocab_size: 51_865,
        max_target_positions: 448,
        decoder_attention_heads: 12,
        decoder_layers: 1,
        suppress_tokens: Vec::new(),
    };
    let devices = devices();
    let mut works = Vec::new();
    for (name, device) in &devices {
        let vb = weights(DType::F32, device);
        let model = whisper::model::Whisper::load(&vb, config.clone())?;
        let encoder = RefCell::new(model.encoder);
        let sound = input((batch, config.num_mel_bins, 3000), DType::F32, device)?;
        let run = Box::new(move || encoder.borrow_mut().forward(&sound, true));
        works.push(Work { name, device, run });
    }
    measured(&works, None)
}
