//! Language models that generate text, one attending and one recurrent.

use crate::program::{run_on_both, Folder};
use crate::weights::{numbers, weight};
use candle::{Device, Result, Tensor};
use serde_json::json;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

const VOCABULARY: usize = 64;
const PROMPT: &str = "w5 w17 w40 w3";

/// Writes a tokenizer whose tokens are whole words, the last of which ends a text.
fn write_tokenizer(folder: &Path) -> PathBuf {
    let words = (0..VOCABULARY - 1).map(|id| (format!("w{id}"), json!(id)));
    let vocabulary = words
        .chain([("<|endoftext|>".to_string(), json!(VOCABULARY - 1))])
        .collect::<serde_json::Map<_, _>>();
    let tokenizer = json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": [],
        "normalizer": null,
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": null,
        "decoder": null,
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "<|endoftext|>"},
    });
    let file = folder.join("tokenizer.json");
    std::fs::write(&file, tokenizer.to_string()).unwrap();
    file
}

/// What an example printed from its prompt on, without the speed that follows how many tokens there are.
fn generated(printed: &str) -> &str {
    let start = printed.find("w5").unwrap_or_else(|| panic!("{printed}"));
    let end = printed.find(" tokens generated (");
    &printed[start..end.unwrap_or_else(|| panic!("{printed}"))]
}

fn assert_same_text(on_cpu: &str, on_rocm: &str, least_words: usize) {
    let (expected, found) = (generated(on_cpu), generated(on_rocm));
    println!("{expected}");
    let words = expected.split_whitespace().collect::<HashSet<_>>();
    assert!(words.len() >= least_words, "it repeats itself: {expected}");
    assert_eq!(found, expected);
}

// --- llama2-c --------------------------------------------------------------------------------------------------------

const DIM: usize = 48;
const HIDDEN: usize = 112;
const LAYERS: usize = 2;
const HEADS: usize = 4;
const LENGTH: usize = 24;

/// Writes a model in the format of llama2.c, version 0: seven sizes, and then the weights, all layers of one kind
/// behind each other. Embeddings are small beside what the layers add, or each token would be followed by itself.
fn write_llama(folder: &Path) -> PathBuf {
    let sizes = [DIM, HIDDEN, LAYERS, HEADS, HEADS, VOCABULARY, LENGTH];
    let head_size = DIM / HEADS;
    let spread = |name: &str, count: usize, scale: f32| -> Vec<f32> {
        let numbers = numbers(name, count).into_iter();
        numbers.map(|x| x * scale).collect()
    };
    let matrix = |name: &str, inputs: usize, outputs: usize| {
        spread(name, LAYERS * inputs * outputs, (3. / inputs as f32).sqrt())
    };
    let angle = |at: usize| {
        let (position, pair) = (at / (head_size / 2), at % (head_size / 2));
        position as f32 / 10000f32.powf(2. * pair as f32 / head_size as f32)
    };
    let angles = (0..LENGTH * head_size / 2).map(angle);
    let weights = [
        spread("embedding", VOCABULARY * DIM, 0.1),
        vec![1.; LAYERS * DIM],
        matrix("wq", DIM, DIM),
        matrix("wk", DIM, DIM),
        matrix("wv", DIM, DIM),
        matrix("wo", DIM, DIM),
        vec![1.; LAYERS * DIM],
        matrix("w1", DIM, HIDDEN),
        matrix("w2", HIDDEN, DIM),
        matrix("w3", DIM, HIDDEN),
        vec![1.; DIM],
        angles.clone().map(f32::cos).collect(),
        angles.map(f32::sin).collect(),
    ];
    let head = sizes.iter().flat_map(|size| (*size as i32).to_le_bytes());
    let weights = weights.into_iter().flatten().flat_map(f32::to_le_bytes);
    let file = folder.join("model.bin");
    std::fs::write(&file, head.chain(weights).collect::<Vec<u8>>()).unwrap();
    file
}

#[test]
fn llama2_c_generates() {
    let data = Folder::new("llama2-c-data");

    let (on_cpu, on_rocm) = run_on_both(
        "llama2-c",
        "llama2-c",
        &[
            "--repeat-penalty=3",
            &format!("--tokenizer={}", write_tokenizer(&data).display()),
            "inference",
            &format!("--config={}", write_llama(&data).display()),
            &format!("--prompt={PROMPT}"),
        ],
    );

    assert!(generated(&on_cpu).ends_with(&format!("\n{LENGTH}")));
    assert_same_text(&on_cpu, &on_rocm, LENGTH / 2);
}

#[test]
fn llama2_c_evaluates() {
    let data = Folder::new("llama2-c-eval-data");
    let tokens = numbers("tokens", 4 * LENGTH + 1).into_iter();
    let tokens = tokens.map(|x| ((x + 1.) / 2. * VOCABULARY as f32) as u16);
    let bytes = tokens.flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    std::fs::write(data.join("data00.bin"), bytes).unwrap();

    let (on_cpu, on_rocm) = run_on_both(
        "llama2-c-eval",
        "llama2-c",
        &[
            &format!("--tokenizer={}", write_tokenizer(&data).display()),
            "eval",
            &format!("--config={}", write_llama(&data).display()),
            &format!("--pretokenized-dir={}", data.display()),
            "--batch-size=2",
        ],
    );

    let losses = |printed: &str| -> Vec<f32> {
        let lines = printed.lines();
        lines.filter_map(|line| line.parse().ok()).collect()
    };
    let (expected, found) = (losses(&on_cpu), losses(&on_rocm));
    println!("{expected:?} {found:?}");
    assert_eq!((expected.len(), found.len()), (2, 2), "{on_cpu}{on_rocm}");
    for (expected, found) in expected.iter().zip(found) {
        assert!(expected.is_finite() && *expected > 1., "{on_cpu}");
        // The longest sums have HIDDEN terms, and a loss is a mean over 2 LENGTH rows.
        let allowed = HIDDEN as f32 * f32::EPSILON * expected;
        assert!((expected - found).abs() <= allowed, "{expected} {found}");
    }
}

// --- mamba -----------------------------------------------------------------------------------------------------------

const MODEL: usize = 32;
const INNER: usize = 2 * MODEL;
const RANK: usize = MODEL / 16;
const STATE: usize = 16;
const KERNEL: usize = 4;

/// Writes a model of two layers; the decay of its state is that of newly made ones, -1 to -16.
fn write_mamba(file: &Path) -> Result<()> {
    let shapes: [(&str, &[usize]); 9] = [
        ("norm.weight", &[MODEL]),
        ("mixer.in_proj.weight", &[2 * INNER, MODEL]),
        ("mixer.x_proj.weight", &[RANK + 2 * STATE, INNER]),
        ("mixer.dt_proj.weight", &[INNER, RANK]),
        ("mixer.dt_proj.bias", &[INNER]),
        ("mixer.D", &[INNER]),
        ("mixer.out_proj.weight", &[MODEL, INNER]),
        ("mixer.conv1d.bias", &[INNER]),
        ("mixer.conv1d.weight", &[INNER, 1, KERNEL]),
    ];
    let mut tensors = HashMap::new();
    let mut add = |name: &str, shape: &[usize]| -> Result<()> {
        let inputs = shape.iter().skip(1).product::<usize>();
        let tensor = weight(name, shape, (3. / inputs as f64).sqrt())?;
        let is_norm = name.contains("norm");
        let tensor = if is_norm { tensor.ones_like()? } else { tensor };
        tensors.insert(format!("backbone.{name}"), tensor);
        Ok(())
    };
    add("embedding.weight", &[VOCABULARY, MODEL])?;
    add("norm_f.weight", &[MODEL])?;
    for layer in 0..LAYERS {
        for (name, shape) in shapes {
            add(&format!("layers.{layer}.{name}"), shape)?;
        }
    }
    let decay = Tensor::arange(1f32, STATE as f32 + 1., &Device::Cpu)?.log()?;
    let decay = decay.broadcast_as((INNER, STATE))?.contiguous()?;
    for layer in 0..LAYERS {
        let name = format!("backbone.layers.{layer}.mixer.A_log");
        tensors.insert(name, decay.clone());
    }
    candle::safetensors::save(&tensors, file)
}

#[test]
fn mamba() -> Result<()> {
    let data = Folder::new("mamba-data");
    let (config, model) = (data.join("config.json"), data.join("model.safetensors"));
    let sizes = json!({
        "d_model": MODEL,
        "n_layer": LAYERS,
        "vocab_size": VOCABULARY,
        "pad_vocab_size_multiple": 8,
    });
    std::fs::write(&config, sizes.to_string())?;
    write_mamba(&model)?;

    let (on_cpu, on_rocm) = run_on_both(
        "mamba",
        "mamba",
        &[
            &format!("--tokenizer-file={}", write_tokenizer(&data).display()),
            &format!("--config-file={}", config.display()),
            &format!("--weight-files={}", model.display()),
            &format!("--prompt={PROMPT}"),
            "--sample-len=20",
        ],
    );

    assert_same_text(&on_cpu, &on_rocm, 10);
    Ok(())
}
