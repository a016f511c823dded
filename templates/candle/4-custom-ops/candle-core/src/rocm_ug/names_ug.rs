//! What is used of the crate ug.
pub(super) use ug::lang::ssa::{
    Const, DType, Instr, Kernel, ReduceOp, Special, Type, UnaryOp, VarId, A,
};
#[cfg(test)]
pub(super) use ug::{
    lang::ssa::{Arg, BinaryOp},
    lang::{op, LaunchConfig},
    lower_op::Opts,
    samples, Layout,
};
