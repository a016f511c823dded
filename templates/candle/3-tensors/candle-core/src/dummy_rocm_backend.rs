//! Implementation of the ROCm backend when ROCm support has not been compiled in.
//!
//! No device can be made here, so what needs one cannot be reached.
#![allow(dead_code)]

macro_rules! fail {
    () => {
        unimplemented!("ROCm support has not been enabled, add `rocm` feature to enable.")
    };
}

#[cfg(not(feature = "rocm"))]
#[path = "rocm_backend/memory_stats.rs"]
mod memory_stats;
mod products;
#[cfg(not(feature = "rocm"))]
#[path = "rocm_backend/rocm_error.rs"]
mod rocm_error;
mod traits;
mod types;

#[cfg(feature = "rocm")]
pub use crate::rocm_backend::{MemoryStats, RocmError};
#[cfg(not(feature = "rocm"))]
pub use memory_stats::MemoryStats;
pub use products::{
    gemm_reduced_precision_bf16, gemm_reduced_precision_f16, gemm_reduced_precision_f32,
    set_gemm_reduced_precision_bf16, set_gemm_reduced_precision_f16,
    set_gemm_reduced_precision_f32,
};
#[cfg(not(feature = "rocm"))]
pub use rocm_error::RocmError;
pub use types::{device_count, is_available, not_generated, Event, RocmDevice, RocmStorage};

#[cfg(not(feature = "rocm"))]
impl From<RocmError> for crate::Error {
    fn from(error: RocmError) -> Self {
        Self::Rocm(error).bt()
    }
}
