//! Elementwise functions of one tensor.
#[cfg(feature = "rocm-miopen")]
use super::by_miopen;
use super::operand::{kernel, made, Operand};
use crate::op::UnaryOpT;
use crate::rocm_backend::plan::table::unary;
use crate::rocm_backend::plan::{self, Op};
use crate::rocm_backend::RocmStorage;
use crate::{Layout, Result};
use std::marker::PhantomData;

/// The kernels of an operation, found by its name when this is compiled.
struct Kernels<B>(PhantomData<B>);

impl<B: UnaryOpT> Kernels<B> {
    const OP: Option<Op> = Op::named(unary::OPS, B::NAME);
}

pub(in crate::rocm_backend) fn unary_impl<B: UnaryOpT>(
    x: &RocmStorage,
    layout: &Layout,
) -> Result<RocmStorage> {
    let Some(op) = Kernels::<B>::OP else {
        crate::bail!("no rocm implementation for {}", B::NAME)
    };
    let x = Operand::new(x, layout);
    #[cfg(feature = "rocm-miopen")]
    if let Some(y) = by_miopen::activation(x, B::NAME)? {
        return Ok(y);
    }
    let kernel = kernel(&op, &[x.element(B::NAME)?], x.dtype(), B::NAME)?;
    made(x, x.dtype(), |device, y| {
        plan::unary(device, kernel, x.planned(), y)
    })
}
