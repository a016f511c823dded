//! Training of small networks on made-up digits, and their accuracy.

use crate::program::{compiled_kernels, run, Folder};
use crate::weights::weight;
use candle::{DType, Device, Result, Tensor, D};
use candle_nn::{loss, ops, Linear, Module, Optimizer, VarBuilder, VarMap, SGD};
use std::collections::{HashMap, HashSet};
use std::path::Path;

const IMAGE: usize = 28 * 28;
const HIDDEN: usize = 100;
const LABELS: usize = 10;
const RATE: f64 = 0.05;

/// Digits that anybody can read: a bar whose place says which, with some noise.
fn digits(count: usize) -> (Vec<u8>, Vec<u8>) {
    let labels = (0..count)
        .map(|i| (i * 7 % LABELS) as u8)
        .collect::<Vec<_>>();
    let pixel = |i: usize, at: usize| {
        let noise = (i * 131 + at * 29 + at / 7) % 50;
        let bar = at / 28 / 2 == labels[i] as usize + 2;
        (noise + if bar { 200 } else { 0 }) as u8
    };
    let images = (0..count * IMAGE)
        .map(|at| pixel(at / IMAGE, at % IMAGE))
        .collect();
    (images, labels)
}

/// Images as the examples see them: one row each, of numbers from 0 to 1.
fn to_rows(images: &[u8]) -> Result<Tensor> {
    let rows = (images.len() / IMAGE, IMAGE);
    Tensor::from_slice(images, rows, &Device::Cpu)?.to_dtype(DType::F32)? / 255.
}

/// Writes digits in the format of the real ones.
fn write_digits(folder: &Path, name: &str, images: &[u8], labels: &[u8]) {
    let file = |kind: &str, sizes: &[usize], data: &[u8]| {
        let head = sizes.iter().flat_map(|size| (*size as u32).to_be_bytes());
        let bytes = head.chain(data.iter().copied()).collect::<Vec<u8>>();
        std::fs::write(folder.join(format!("{name}-{kind}-ubyte")), bytes).unwrap();
    };
    file("images-idx3", &[2051, labels.len(), 28, 28], images);
    file("labels-idx1", &[2049, labels.len()], labels);
}

/// Writes digits, and returns them as tensors.
fn made_digits(folder: &Path, name: &str, count: usize) -> Result<(Tensor, Tensor)> {
    let (images, labels) = digits(count);
    write_digits(folder, name, &images, &labels);
    let numbers = Tensor::from_slice(&labels, count, &Device::Cpu)?.to_dtype(DType::U32)?;
    Ok((to_rows(&images)?, numbers))
}

/// What the example trains, on the CPU: the weights behind some steps, and the accuracy.
fn train_on_cpu(
    start: &HashMap<String, Tensor>,
    (images, labels): &(Tensor, Tensor),
    test: &(Tensor, Tensor),
    steps: usize,
) -> Result<(VarMap, f32)> {
    let variables = VarMap::new();
    let vb = VarBuilder::from_varmap(&variables, DType::F32, &Device::Cpu);
    let first = candle_nn::linear(IMAGE, HIDDEN, vb.pp("ln1"))?;
    let second = candle_nn::linear(HIDDEN, LABELS, vb.pp("ln2"))?;
    for (name, var) in variables.data().lock().unwrap().iter() {
        var.set(&start[name])?;
    }
    let forward = |images: &Tensor, first: &Linear, second: &Linear| {
        second.forward(&first.forward(images)?.relu()?)
    };
    let mut optimizer = SGD::new(variables.all_vars(), RATE)?;
    for _ in 0..steps {
        let logits = forward(images, &first, &second)?;
        let loss = loss::nll(&ops::log_softmax(&logits, D::Minus1)?, labels)?;
        optimizer.backward_step(&loss)?;
    }
    let chosen = forward(&test.0, &first, &second)?.argmax(D::Minus1)?;
    let right = chosen.eq(&test.1)?.to_dtype(DType::F32)?.mean_all()?;
    Ok((variables, right.to_scalar::<f32>()?))
}

#[test]
fn mnist_training_mlp() -> Result<()> {
    let (kernels, data) = (Folder::new("mnist-kernels"), Folder::new("mnist-data"));
    let train = made_digits(&data, "train", 60)?;
    let test = made_digits(&data, "t10k", 20)?;
    let shapes: [(&str, &[usize]); 4] = [
        ("ln1.weight", &[HIDDEN, IMAGE]),
        ("ln1.bias", &[HIDDEN]),
        ("ln2.weight", &[LABELS, HIDDEN]),
        ("ln2.bias", &[LABELS]),
    ];
    let start = shapes
        .into_iter()
        .map(|(name, shape)| Ok((name.to_string(), weight(name, shape, 0.05)?)))
        .collect::<Result<HashMap<_, _>>>()?;
    let (load, save) = (data.join("start"), data.join("trained"));
    candle::safetensors::save(&start, &load)?;

    let printed = run(
        "mnist-training",
        &kernels,
        &[
            "mlp",
            "--epochs=4",
            &format!("--learning-rate={RATE}"),
            &format!("--local-mnist={}", data.display()),
            &format!("--load={}", load.display()),
            &format!("--save={}", save.display()),
        ],
    );
    assert!(compiled_kernels(&kernels), "it ran on the CPU: {printed}");

    // Candle 0.9.1 and 0.9.2-alpha.1 train one step less than they are told.
    let steps = printed.matches("train loss").count();
    assert!((3..=4).contains(&steps), "{printed}");
    let (expected, accuracy) = train_on_cpu(&start, &train, &test, steps)?;
    let accuracy = format!("test acc: {:5.2}%", 100. * accuracy);
    let last = printed.lines().rfind(|line| line.contains("test acc"));
    assert!(
        last.is_some_and(|line| line.ends_with(&accuracy)),
        "{printed}: {accuracy}"
    );
    let trained = candle::safetensors::load(&save, &Device::Cpu)?;
    for (name, expected) in expected.data().lock().unwrap().iter() {
        let change = (expected.as_tensor() - &start[name])?
            .abs()?
            .flatten_all()?;
        let change = change.max(0)?.to_scalar::<f32>()?;
        let off = (&trained[name] - expected.as_tensor())?
            .abs()?
            .flatten_all()?;
        let off = off.max(0)?.to_scalar::<f32>()?;
        println!("{name} changed by {change:e}, off by {off:e}");
        // Sums over 784 numbers, and roundings of the weights themselves.
        let allowed = IMAGE as f32 * f32::EPSILON * change + 8. * f32::EPSILON;
        assert!(change > 1e-4, "{name} was not trained: {change:e}");
        assert!(
            off <= allowed,
            "{name} is off by {off:e}, {allowed:e} allowed"
        );
    }
    Ok(())
}

// --- the convolutional network ---------------------------------------------------------------------------------------

/// What the example's network answers, on the CPU: a score for each image and label.
fn scores_on_cpu(weights: &HashMap<String, Tensor>, images: &Tensor) -> Result<Tensor> {
    let parameters = |name: &str| {
        let named = |kind: &str| &weights[&format!("{name}.{kind}")];
        (named("weight"), named("bias"))
    };
    let convolved = |xs: &Tensor, name: &str| -> Result<Tensor> {
        let (weight, bias) = parameters(name);
        let ys = xs.conv2d(weight, 0, 1, 1, 1)?;
        ys.broadcast_add(&bias.reshape((1, (), 1, 1))?)?
            .max_pool2d(2)
    };
    let connected = |xs: &Tensor, name: &str| -> Result<Tensor> {
        let (weight, bias) = parameters(name);
        xs.matmul(&weight.t()?)?.broadcast_add(bias)
    };
    let xs = convolved(&images.reshape(((), 1, 28, 28))?, "c1")?;
    let xs = convolved(&xs, "c2")?.flatten_from(1)?;
    connected(&connected(&xs, "fc1")?.relu()?, "fc2")
}

/// The network in use. Its training drops out numbers at random, so there are fewer images than it trains with.
#[test]
fn mnist_training_cnn() -> Result<()> {
    const TEST: usize = 20;
    const WRONG: usize = 5;
    let (kernels, data) = (
        Folder::new("mnist-cnn-kernels"),
        Folder::new("mnist-cnn-data"),
    );
    let shapes: [(&str, &[usize]); 8] = [
        ("c1.weight", &[32, 1, 5, 5]),
        ("c1.bias", &[32]),
        ("c2.weight", &[64, 32, 5, 5]),
        ("c2.bias", &[64]),
        ("fc1.weight", &[1024, 1024]),
        ("fc1.bias", &[1024]),
        ("fc2.weight", &[LABELS, 1024]),
        ("fc2.bias", &[LABELS]),
    ];
    let weights = shapes
        .into_iter()
        .map(|(name, shape)| {
            let inputs = shape.iter().skip(1).product::<usize>();
            let scale = (3. / inputs as f64).sqrt() * if shape.len() == 1 { 0.1 } else { 1. };
            Ok((name.to_string(), weight(name, shape, scale)?))
        })
        .collect::<Result<HashMap<_, _>>>()?;
    let load = data.join("weights");
    candle::safetensors::save(&weights, &load)?;

    // A label is what the CPU sees in the image, or for some images what it does not.
    let (images, _) = digits(TEST);
    let scores = scores_on_cpu(&weights, &to_rows(&images)?)?.to_vec2::<f32>()?;
    let seen = scores.iter().map(|row| {
        let mut order = (0..LABELS).collect::<Vec<_>>();
        order.sort_by(|&a, &b| row[b].total_cmp(&row[a]));
        let lead = row[order[0]] - row[order[1]];
        assert!(lead > 1e-4, "a close call: {row:?}");
        order[0] as u8
    });
    let seen = seen.collect::<Vec<_>>();
    println!("{seen:?}");
    assert!(seen.iter().collect::<HashSet<_>>().len() > 2, "{seen:?}");
    let label = |(i, seen): (usize, &u8)| (seen + (i < WRONG) as u8) % LABELS as u8;
    let labels = seen.iter().enumerate().map(label).collect::<Vec<_>>();
    write_digits(&data, "t10k", &images, &labels);
    let (train_images, train_labels) = digits(10);
    write_digits(&data, "train", &train_images, &train_labels);

    let printed = run(
        "mnist-training",
        &kernels,
        &[
            "cnn",
            "--epochs=2",
            &format!("--local-mnist={}", data.display()),
            &format!("--load={}", load.display()),
        ],
    );

    assert!(compiled_kernels(&kernels), "it ran on the CPU: {printed}");
    let right = (TEST - WRONG) as f32 / TEST as f32;
    let accuracy = format!("test acc: {:5.2}%", 100. * right);
    let last = printed.lines().rfind(|line| line.contains("test acc"));
    assert!(
        last.is_some_and(|line| line.ends_with(&accuracy)),
        "{printed}: {accuracy}"
    );
    Ok(())
}
