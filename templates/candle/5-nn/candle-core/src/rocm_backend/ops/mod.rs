//! The operations of `BackendStorage` and `BackendDevice`: which kernels compute them, and how these are launched.
mod argsort;
mod binary;
#[cfg(feature = "rocm-miopen")]
mod by_miopen;
#[cfg(feature = "rocm-rocrand")]
mod by_rocrand;
mod cast;
mod compare;
mod conv;
mod conv_product;
mod copy;
mod experts;
mod fill;
mod flash;
mod fused;
mod gated;
mod host;
mod ids;
#[cfg(test)]
mod im2col;
mod index_add;
mod indexing;
mod matmul;
mod nearest;
mod norm;
mod number;
mod operand;
#[cfg(test)]
mod own_matmul;
mod parametric;
mod planes;
mod pool;
mod quantized;
mod random;
mod reduce;
mod rope;
mod scatter_add;
mod sdpa;
mod sigmoid;
mod softmax;
mod unary;
mod unused_index;
mod upsample;
mod where_cond;

pub use argsort::argsort;
pub(super) use binary::binary_impl;
pub(crate) use cast::to_dtype;
pub(super) use compare::cmp;
pub(super) use conv::{conv1d, conv2d, conv_transpose1d, conv_transpose2d};
pub(crate) use conv::{conv1d_in_groups, conv2d_in_groups};
pub(super) use copy::{copy2d, copy_strided_src, try_clone};
pub use experts::{moe_gemm, moe_gemm_gguf, Pairs};
pub(super) use fill::{const_set, zeros_impl};
pub(crate) use flash::flash_attn;
pub use fused::{attention, gate_times_up, is_fused, rope_with_caches, sum_and_rms_norm, swiglu};
pub use gated::silu_mul;
pub(super) use host::{
    alloc_uninit, storage_from_cpu_storage, storage_from_cpu_storage_owned, storage_from_slice,
    to_cpu_storage,
};
pub(super) use index_add::index_add;
pub(crate) use indexing::index_select;
pub(super) use indexing::{gather, scatter_set};
pub(crate) use matmul::matmul;
pub use norm::{add_rms_norm, layer_norm, rms_norm};
pub(super) use parametric::{affine, elu, powf};
pub(super) use pool::{avg_pool2d, max_pool2d};
pub(crate) use quantized::{
    dequantize, dequantize_rows, multiply_blocks, multiply_experts, Blocks,
};
pub(super) use random::{rand_normal, rand_uniform};
pub(super) use reduce::reduce_op;
pub use rope::{rope, rope_append, rope_i, rope_thd};
pub(super) use scatter_add::scatter_add_set;
pub use sdpa::{sdpa, Scores};
pub use sigmoid::sigmoid;
pub use softmax::softmax_last_dim;
pub(super) use unary::unary_impl;
pub(super) use upsample::*;
pub(super) use where_cond::where_cond;
