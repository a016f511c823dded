//! What is launched for an operation: kernels, grids, LDS and arguments, from views of memory, the numbers of the kernel
//! table and the GPU.
//!
//! Nothing here knows Candle's types or calls a library: candle-rocm tests its kernels through these very files.
mod argsort;
mod copy;
mod elementwise;
mod family;
mod fill;
pub(crate) mod im2col;
mod launch;
mod launcher;
mod number;
mod planes;
mod pool;
mod reduce;
mod teams;
#[cfg(test)]
pub(crate) mod testing;
mod tiles;
mod upsample;
mod views;
mod widths;

pub(crate) use super::kernel_table as table;
pub(crate) use argsort::argsort;
#[cfg(test)]
pub(crate) use copy::view_to_contiguous;
pub(crate) use copy::{contiguous, copy2d};
pub(crate) use elementwise::{binary, cast, compare, parametric, select, unary, Output};
pub(crate) use family::{Family, Kernel, Op, Tuned, Tuning, TypeSet};
pub(crate) use fill::fill;
pub(crate) use launch::{Argument, Launch, Pointer};
pub(crate) use launcher::{Card, Launcher, Limits, Refusal};
pub(crate) use number::{Number, Pattern};
pub(crate) use planes::Images;
pub(crate) use pool::{pool, Pooled, Window};
pub(crate) use reduce::reduce;
pub(crate) use teams::{Teams, PACK};
pub(crate) use upsample::{bilinear, nearest, Aligned};
pub(crate) use views::{Contiguous, Divisor, KernelLayout, Merged, Operand, View};
#[cfg(test)]
pub(crate) use widths::Widened;
