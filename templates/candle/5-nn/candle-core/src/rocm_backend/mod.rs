//! Implementation of the ROCm backend: AMD GPUs through HIP.
//!
//! `api` holds all that is C. `gpu`, `stream`, `event`, `allocator`, `memory` and `staging` own what its functions hand
//! out, as types that are `Send` and `Sync`: `rocm_rs`'s own are neither, and its `Stream` is destroyed once per clone.
//! A `Queue` puts them together, and a `RocmDevice` is a queue and the state of its random numbers.
mod allocator;
mod api;
mod backend_device;
mod backend_storage;
mod blas;
mod blas_kernels;
mod builder_arg;
mod captured;
mod custom_kernel;
mod custom_module;
pub mod device;
pub mod driver;
mod element;
pub mod error;
mod event;
pub mod flash_attn;
mod gpu;
mod graph;
mod hip;
mod installation;
mod ipc;
// The table lists every kernel that the specs have; those of later phases wait for their callers.
#[allow(dead_code)]
pub(crate) mod kernel_table;
mod kernels;
mod launcher;
mod libraries;
mod loaded;
mod map;
mod memory;
mod memory_stats;
#[cfg(feature = "rocm-miopen")]
mod miopen;
mod nn_plan;
mod opened;
pub mod ops;
mod parts;
pub(crate) mod plan;
mod product_choice;
mod queue;
#[cfg(feature = "rocm-rccl")]
pub mod rccl;
mod readback;
mod rocm_error;
#[cfg(feature = "rocm-rocrand")]
mod rocrand;
mod room;
mod slice;
mod staging;
pub mod storage;
mod storage_slice;
mod stream;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

pub use blas::{
    gemm_reduced_precision_bf16, gemm_reduced_precision_f16, gemm_reduced_precision_f32,
    set_gemm_reduced_precision_bf16, set_gemm_reduced_precision_f16,
    set_gemm_reduced_precision_f32,
};
pub use captured::Captured;
pub use device::{device_count, is_available, DeviceId, RocmDevice};
pub use error::{not_generated, RocmError, WrapErr};
pub use map::{kernel_name, Map1, Map1Any, Map2, Map2Any, Map2InPlace, Map3};
pub use memory_stats::MemoryStats;
#[cfg(feature = "rocm-miopen")]
pub use miopen::{miopen_activations, set_miopen_activations};
pub use storage::RocmStorage;
pub use storage_slice::{RocmDType, RocmStorageSlice, S};
