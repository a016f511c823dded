//! Gated units.
use super::binary::same_types;
use super::operand::{kernel, made};
use crate::rocm_backend::plan::{self, table::binary as table};
use crate::rocm_backend::RocmStorage;
use crate::{Layout, Result, Shape};

/// silu(x) y, contiguous, and its shape, which is that of both; for bf16, f16, f32 and f64. As of Candle's two operations,
/// the result of silu is rounded before it is multiplied.
pub fn silu_mul(
    (x, x_layout): (&RocmStorage, &Layout),
    (y, y_layout): (&RocmStorage, &Layout),
) -> Result<(RocmStorage, Shape)> {
    const OP: &str = "silu_mul";
    let shape = x_layout.shape();
    if shape != y_layout.shape() {
        let (lhs, rhs) = (shape.clone(), y_layout.shape().clone());
        return Err(crate::Error::ShapeMismatchBinaryOp { lhs, rhs, op: OP }.bt());
    }
    let (x, y) = same_types(x, y, x_layout, y_layout, OP)?;
    let kernel = kernel(&table::SILU_MUL, &[x.element(OP)?], x.dtype(), OP)?;
    let operands = [x.planned(), y.planned()];
    let gated = made(x, x.dtype(), |device, result| {
        plan::binary(device, kernel, operands, result)
    })?;
    Ok((gated, shape.clone()))
}
