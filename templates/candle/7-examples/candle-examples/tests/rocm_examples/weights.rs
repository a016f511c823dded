//! Weights that are the same in every run.

use candle::{Device, Result, Tensor};

/// Numbers that look random, evenly spread between -1 and 1: those of a linear congruential generator (Knuth's MMIX).
pub fn numbers(name: &str, count: usize) -> Vec<f32> {
    let mut state = name.bytes().fold(1469598103934665603u64, |state, byte| {
        (state ^ byte as u64).wrapping_mul(1099511628211)
    });
    let mut next = || {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (state >> 40) as f32 / (1 << 23) as f32 - 1.
    };
    (0..count).map(|_| next()).collect()
}

/// A tensor of such numbers, between `-scale` and `scale`.
pub fn weight(name: &str, shape: &[usize], scale: f64) -> Result<Tensor> {
    Tensor::from_vec(numbers(name, shape.iter().product()), shape, &Device::Cpu)? * scale
}
