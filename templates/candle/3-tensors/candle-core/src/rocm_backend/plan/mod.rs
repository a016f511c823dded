//! What is launched for an operation: kernels, grids, LDS and arguments, from views of memory, the numbers of the kernel
//! table and the GPU.
//!
//! Nothing here knows Candle's types or calls a library: candle-rocm tests its kernels through these very files.
mod argsort;
mod copy;
mod elementwise;
mod family;
mod fill;
mod ids;
pub(crate) mod index_add;
pub(crate) mod indexing;
mod launch;
mod launcher;
mod number;
pub(crate) mod random;
pub(crate) mod scatter_add;
mod tiles;
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
pub(crate) use ids::{Indices, Space};
pub(crate) use index_add::index_add;
pub(crate) use indexing::{gather, index_select, scatter};
pub(crate) use launch::{Argument, Launch, Pointer};
pub(crate) use launcher::{Launcher, Limits, Refusal};
pub(crate) use number::{Number, Pattern};
pub(crate) use random::{random, Counter, Distribution, Drawn};
pub(crate) use scatter_add::scatter_add;
pub(crate) use views::{Contiguous, Divisor, KernelLayout, Merged, Operand, View};
#[cfg(test)]
pub(crate) use widths::Widened;
