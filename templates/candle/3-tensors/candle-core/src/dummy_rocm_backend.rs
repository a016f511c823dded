//! Implementation of the ROCm backend when ROCm support has not been compiled in.
//!
//! No device can be made here, so what needs one cannot be reached. Files of the real backend that are about typed memory
//! are modules here, too, where the memory below them has no values.
#![allow(clippy::duplicate_mod, dead_code, unreachable_code)]

macro_rules! fail {
    () => {
        unimplemented!("ROCm support has not been enabled, add `rocm` feature to enable.")
    };
}

#[cfg(not(feature = "rocm"))]
#[path = "rocm_backend/captured.rs"]
mod captured;
#[path = "rocm_backend/driver.rs"]
pub mod driver;
mod event;
mod graph;
#[path = "rocm_backend/ipc.rs"]
mod ipc;
#[path = "rocm_backend/map.rs"]
mod map;
mod memory;
#[cfg(not(feature = "rocm"))]
#[path = "rocm_backend/memory_stats.rs"]
mod memory_stats;
mod products;
#[cfg(not(feature = "rocm"))]
#[path = "rocm_backend/rocm_error.rs"]
mod rocm_error;
#[path = "rocm_backend/slice.rs"]
mod slice;
#[path = "rocm_backend/storage.rs"]
mod storage;
#[path = "rocm_backend/storage_slice.rs"]
mod storage_slice;
mod stream;
mod traits;
mod types;

#[cfg(feature = "rocm")]
pub use crate::rocm_backend::{Captured, MemoryStats, RocmError, WrapErr};
#[cfg(not(feature = "rocm"))]
pub use captured::Captured;
pub use map::{kernel_name, Map1, Map1Any, Map2, Map2Any, Map2InPlace, Map3};
#[cfg(not(feature = "rocm"))]
pub use memory_stats::MemoryStats;
pub use products::{
    gemm_reduced_precision_bf16, gemm_reduced_precision_f16, gemm_reduced_precision_f32,
    set_gemm_reduced_precision_bf16, set_gemm_reduced_precision_f16,
    set_gemm_reduced_precision_f32,
};
#[cfg(not(feature = "rocm"))]
pub use rocm_error::{RocmError, WrapErr};
pub use storage::RocmStorage;
pub use storage_slice::{RocmDType, RocmStorageSlice, S};
pub use types::{device_count, is_available, not_generated, DeviceId, RocmDevice};

#[cfg(not(feature = "rocm"))]
impl From<RocmError> for crate::Error {
    fn from(error: RocmError) -> Self {
        Self::Rocm(error).bt()
    }
}
