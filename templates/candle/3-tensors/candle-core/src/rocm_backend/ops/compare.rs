//! Comparison of two tensors.
use super::binary::same_types;
use super::operand::{kernel, made};
use crate::op::CmpOp;
use crate::rocm_backend::plan::{self, table::compare};
use crate::rocm_backend::RocmStorage;
use crate::{DType, Layout, Result};

/// 1 where the comparison holds, else 0, as u8.
pub(in crate::rocm_backend) fn cmp(
    lhs: &RocmStorage,
    op: CmpOp,
    rhs: &RocmStorage,
    lhs_layout: &Layout,
    rhs_layout: &Layout,
) -> Result<RocmStorage> {
    let op = match op {
        CmpOp::Eq => compare::EQ,
        CmpOp::Ne => compare::NE,
        CmpOp::Le => compare::LE,
        CmpOp::Ge => compare::GE,
        CmpOp::Lt => compare::LT,
        CmpOp::Gt => compare::GT,
    };
    let (lhs, rhs) = same_types(lhs, rhs, lhs_layout, rhs_layout, "cmp")?;
    let kernel = kernel(&op, &[lhs.element("cmp")?], lhs.dtype(), "cmp")?;
    let operands = [lhs.planned(), rhs.planned()];
    made(lhs, DType::U8, |device, y| {
        plan::compare(device, kernel, operands, y)
    })
}
