//! Arithmetic of two tensors.
use super::operand::{kernel, made, Operand};
use crate::op::BinaryOpT;
use crate::rocm_backend::plan::table::binary;
use crate::rocm_backend::plan::{self, Op};
use crate::rocm_backend::RocmStorage;
use crate::{Layout, Result};
use std::marker::PhantomData;

/// The kernels of an operation, found by its name when this is compiled.
struct Kernels<B>(PhantomData<B>);

impl<B: BinaryOpT> Kernels<B> {
    const OP: Option<Op> = Op::named(binary::OPS, B::NAME);
}

pub(in crate::rocm_backend) fn binary_impl<B: BinaryOpT>(
    lhs: &RocmStorage,
    rhs: &RocmStorage,
    lhs_layout: &Layout,
    rhs_layout: &Layout,
) -> Result<RocmStorage> {
    let Some(op) = Kernels::<B>::OP else {
        crate::bail!("no rocm implementation for {}", B::NAME)
    };
    let (lhs, rhs) = same_types(lhs, rhs, lhs_layout, rhs_layout, B::NAME)?;
    let kernel = kernel(&op, &[lhs.element(B::NAME)?], lhs.dtype(), B::NAME)?;
    let operands = [lhs.planned(), rhs.planned()];
    made(lhs, lhs.dtype(), |device, y| {
        plan::binary(device, kernel, operands, y)
    })
}

/// Both operands, if their elements are of one type.
pub(super) fn same_types<'a>(
    lhs: &'a RocmStorage,
    rhs: &'a RocmStorage,
    lhs_layout: &'a Layout,
    rhs_layout: &'a Layout,
    op: &'static str,
) -> Result<(Operand<'a>, Operand<'a>)> {
    let (lhs, rhs) = (Operand::new(lhs, lhs_layout), Operand::new(rhs, rhs_layout));
    if lhs.dtype() != rhs.dtype() {
        let (lhs, rhs) = (lhs.dtype(), rhs.dtype());
        return Err(crate::Error::DTypeMismatchBinaryOp { lhs, rhs, op }.bt());
    }
    Ok((lhs, rhs))
}
