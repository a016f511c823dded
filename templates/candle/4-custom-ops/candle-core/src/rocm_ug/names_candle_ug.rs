//! What is used of the crate ug, as candle-ug has it.
pub(super) use candle_ug::lang::ssa::{
    Const, DType, Instr, Kernel, ReduceOp, Special, Type, UnaryOp, VarId, A,
};
#[cfg(test)]
pub(super) use candle_ug::{
    lang::ssa::{Arg, BinaryOp},
    lang::{op, LaunchConfig},
    lower_op::Opts,
    samples, Layout,
};
