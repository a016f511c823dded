//! Whether a model computes on ROCm what it computes on the CPU.
use crate::gguf::{Gguf, VOCABULARY};
use candle::{Device, Result, Tensor};
use std::path::Path;

/// Longer than the eight rows that a kernel multiplies at once.
const PROMPT: &[u32] = &[1, 40, 7, 23, 7, 59, 31, 2, 17, 48, 5];
const STEPS: [&[u32]; 4] = [PROMPT, &[11], &[60], &[0]];

/// A loaded model: the logits behind the last of tokens (1, count), the first of which stands at that position.
pub type Model = Box<dyn FnMut(&Tensor, usize) -> Result<Tensor>>;

/// The prompt at once, then token by token.
fn logits(mut model: Model, device: &Device) -> Result<Vec<Vec<f32>>> {
    let mut position = 0;
    let steps = STEPS.into_iter().map(|tokens| {
        let input = Tensor::new(tokens, device)?.unsqueeze(0)?;
        let logits = model(&input, position)?;
        position += tokens.len();
        assert!(logits.device().same_device(device));
        let logits = logits.flatten_all()?.to_vec1::<f32>()?;
        assert_eq!(logits.len(), VOCABULARY);
        assert!(logits.iter().all(|logit| logit.is_finite()));
        Ok(logits)
    });
    steps.collect()
}

/// The logits of the model in a file, on ROCm and on the CPU.
pub fn on_both(
    gguf: &Gguf,
    load: impl Fn(&Path, &Device) -> Result<Model>,
) -> Result<[Vec<Vec<f32>>; 2]> {
    let device = Device::new_rocm(0)?;
    let file = gguf.write()?;
    Ok([
        logits(load(file.path(), &device)?, &device)?,
        logits(load(file.path(), &Device::Cpu)?, &Device::Cpu)?,
    ])
}

/// The square root of the mean square.
fn size(numbers: impl Iterator<Item = f32>) -> f32 {
    let (count, sum) = numbers.fold((0, 0.), |(count, sum), x| (count + 1, sum + x * x));
    (sum / count as f32).sqrt()
}

/// How far logits are from others, relative to the size of these.
pub fn off(found: &[f32], wanted: &[f32]) -> f32 {
    let differences = found.iter().zip(wanted).map(|(x, y)| x - y);
    size(differences) / size(wanted.iter().copied())
}

/// The likeliest token, and by how much its logit is ahead of the next one.
fn likeliest(logits: &[f32]) -> (usize, f32) {
    let mut order: Vec<usize> = (0..logits.len()).collect();
    order.sort_by(|&i, &j| logits[j].total_cmp(&logits[i]));
    (order[0], logits[order[0]] - logits[order[1]])
}

/// Compares the logits of the model on ROCm with those that the CPU computes of the same weights in f32, and the
/// likeliest tokens also with those that the CPU computes of the blocks.
///
/// A product rounds its rows to 8 bits, in parts of 32 numbers: by at most 1/254 of the part's largest, so by
/// 1/(254 √3) of that in the mean, which is the root of the mean square here. The largest of 32 random numbers is about
/// 2.2 times their mean, and hardly ever more than 3 times. What one product rounds has nothing to do with what another
/// does, so the squares of errors add up over `products`, those that a logit depends on.
///
/// The CPU rounds rows too, but in other parts and with other scales: its logits are as far from exact.
pub fn assert_agrees(
    gguf: &Gguf,
    products: usize,
    load: impl Fn(&Path, &Device) -> Result<Model>,
) -> Result<()> {
    let [on_rocm, on_cpu] = on_both(gguf, &load)?;
    let file = gguf.exact()?.write()?;
    let exact = logits(load(file.path(), &Device::Cpu)?, &Device::Cpu)?;

    let allowed = (products as f32).sqrt() * 3. / (254. * 3f32.sqrt());
    for (step, exact) in exact.iter().enumerate() {
        let length = size(exact.iter().copied());
        let (off_rocm, off_cpu) = (off(&on_rocm[step], exact), off(&on_cpu[step], exact));
        let (token, lead) = likeliest(exact);
        let lead = lead / length;
        println!("step {step}: off by {off_rocm:e}, the CPU by {off_cpu:e}, {lead} ahead");
        assert!(
            off_rocm <= allowed,
            "step {step}: off by {off_rocm:e}, {allowed:e} allowed"
        );
        // Errors of that size in any two logits do not change their order.
        assert!(lead > (2. * VOCABULARY as f32).sqrt() * allowed, "{lead}");
        let found = [&on_rocm, &on_cpu].map(|logits| likeliest(&logits[step]).0);
        assert_eq!(found, [token; 2], "step {step}");
    }
    Ok(())
}
