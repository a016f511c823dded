//! libamdhip64.so on NVIDIA: each function is one of the CUDA driver's. What runs here is "HIP on NVIDIA", not ROCm.
//!
//! The functions have the signatures of `specs/hip_api.yaml`; those that the backend and the benchmarks call are here,
//! and stand-ins for all others.

#![allow(non_snake_case, non_upper_case_globals, reason = "the names are HIP's")]

mod call;
mod context;
mod device;
mod error;
mod event;
mod graph;
mod memory;
mod module;
mod recorded;
mod stream;
mod unsupported;

/// Says that this library is HIP on NVIDIA.
#[unsafe(no_mangle)]
pub extern "C" fn candle_rocm_on_nvidia() {}
