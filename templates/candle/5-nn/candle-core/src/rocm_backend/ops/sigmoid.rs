//! The logistic function.
use super::elementwise::elementwise;
use super::operand::{kernel, Operand};
use crate::rocm_backend::kernels::table::unary as table;
use crate::rocm_backend::RocmStorage;
use crate::{Layout, Result, Shape};

/// 1 / (1 + e^-x), contiguous, and its shape, which is that of `x`; for bf16, f16, f32 and f64.
pub fn sigmoid(x: &RocmStorage, layout: &Layout) -> Result<(RocmStorage, Shape)> {
    const OP: &str = "sigmoid";
    let x = Operand::new(x, layout);
    let kernel = kernel(&table::SIGMOID, &[x.element(OP)?], x.dtype(), OP)?;
    let block = table::BLOCK.on(x.device().tuning());
    let y = elementwise(kernel, block, [x], x.dtype(), &[])?;
    Ok((y, layout.shape().clone()))
}
