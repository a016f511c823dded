//! What models compute by several operations, as one on ROCm.
//!
//! Statements in candle-transformers ask here first. `None` leaves the work to the operations that the model is written in.
use crate::{ops, Activation};
pub use candle::rocm_backend::ops::{attention, rope_with_caches, swiglu};
use candle::rocm_backend::ops::{gate_times_up, is_fused, sum_and_rms_norm};
use candle::{Result, Tensor};

/// activation(gate) up, of the products of `xs` that these make. None where `attention` says so, but for f64, and for other
/// activations than silu: then nothing is made.
pub fn gated(
    xs: &Tensor,
    activation: Activation,
    gate: impl FnOnce() -> Result<Tensor>,
    up: impl FnOnce() -> Result<Tensor>,
) -> Result<Option<Tensor>> {
    if activation != Activation::Silu || !is_fused(&[xs]) {
        return Ok(None);
    }
    let (gate, up) = (gate()?, up()?);
    match gate_times_up(&gate, &up)? {
        Some(inner) => Ok(Some(inner)),
        // Gradients of weights are asked for.
        None => (gate.silu()? * up).map(Some),
    }
}

/// xs + residual, and `ops::rms_norm` of the sum: (sum, normed). The three tensors are of one type, and `alpha` is as long as
/// a row. One launch where `attention` says so and rows are whole multiples of 16 bytes, with the same results bit for bit.
pub fn rms_norm_residual(
    xs: &Tensor,
    residual: &Tensor,
    alpha: &Tensor,
    eps: f32,
) -> Result<(Tensor, Tensor)> {
    if let Some(made) = sum_and_rms_norm(xs, residual, alpha, eps)? {
        return Ok(made);
    }
    let sum = (xs + residual)?;
    let normed = ops::rms_norm(&sum, alpha, eps)?;
    Ok((sum, normed))
}
