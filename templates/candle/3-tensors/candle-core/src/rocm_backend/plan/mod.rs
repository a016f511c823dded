//! Plans the launches of an operation: kernels, grids, LDS and arguments, from views of memory, the numbers of the
//! kernel table and the GPU.
//!
//! Nothing here knows Candle's types or calls a library: candle-rocm tests its kernels through these very files.
mod argsort;
pub(crate) mod conv;
mod copy;
mod elementwise;
pub(crate) mod experts;
mod family;
mod fill;
mod gathering;
mod ids;
pub(crate) mod im2col;
pub(crate) mod index_add;
pub(crate) mod indexing;
mod launch;
mod launcher;
mod matmul;
mod number;
mod planes;
mod pool;
pub(crate) mod quantized;
pub(crate) mod random;
mod reduce;
pub(crate) mod scatter_add;
mod teams;
#[cfg(test)]
pub(crate) mod testing;
mod tiles;
#[allow(dead_code)] // releases before 0.9.2 do not interpolate
pub(crate) mod upsample;
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
pub(crate) use launch::{Argument, Launch, Pointer, PACK};
pub(crate) use launcher::{Card, Launcher, Limits, Refusal};
pub(crate) use matmul::matmul;
pub(crate) use number::{Number, Pattern};
pub(crate) use planes::Images;
pub(crate) use pool::{pool, Pooled, Window};
pub(crate) use random::{random, Counter, Distribution, Drawn};
pub(crate) use reduce::reduce;
pub(crate) use scatter_add::scatter_add;
pub(crate) use teams::Teams;
pub(crate) use upsample::nearest;
pub(crate) use views::{Contiguous, Divisor, Merged, Operand, View};
#[cfg(test)]
pub(crate) use widths::Widened;
