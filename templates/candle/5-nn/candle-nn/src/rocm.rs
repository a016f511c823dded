//! What models compute by several operations, as one on ROCm.
//!
//! Statements in candle-transformers ask here first. `None` leaves the work to the operations that the model is written in.
use crate::Activation;
pub use candle::rocm_backend::ops::{attention, swiglu};
use candle::rocm_backend::ops::{gate_times_up, is_fused};
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
