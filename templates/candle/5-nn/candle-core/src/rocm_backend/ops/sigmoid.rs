//! The logistic function.
use super::operand::{kernel, made, Operand};
use crate::rocm_backend::plan::{self, table::unary as table};
use crate::rocm_backend::RocmStorage;
use crate::{Layout, Result, Shape};

/// 1 / (1 + e^-x), contiguous, and its shape, which is that of `x`; for bf16, f16, f32 and f64.
pub fn sigmoid(x: &RocmStorage, layout: &Layout) -> Result<(RocmStorage, Shape)> {
    const OP: &str = "sigmoid";
    let x = Operand::new(x, layout);
    let kernel = kernel(&table::SIGMOID, &[x.element(OP)?], x.dtype(), OP)?;
    let y = made(x, x.dtype(), |device, y| {
        plan::unary(device, kernel, x.planned(), y)
    })?;
    Ok((y, layout.shape().clone()))
}
