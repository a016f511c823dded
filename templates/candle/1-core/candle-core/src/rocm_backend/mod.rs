//! Implementation of the ROCm backend: AMD GPUs through HIP.
//!
//! `api` holds all that is C. `gpu`, `stream`, `event`, `allocator`, `memory` and `staging` own what its functions hand
//! out, as types that are `Send` and `Sync`: `rocm_rs`'s own are neither, and its `Stream` is destroyed once per clone.
//! A `Queue` puts them together, and a `RocmDevice` is a queue and the state of its random numbers.
mod allocator;
mod api;
mod backend_device;
mod backend_storage;
mod captured;
pub mod device;
pub mod driver;
pub mod error;
mod event;
mod gpu;
mod graph;
mod hip;
mod installation;
mod ipc;
mod loaded;
mod map;
#[allow(dead_code)] // Later phases call the rest.
mod memory;
mod memory_stats;
mod opened;
mod parts;
mod queue;
mod rocm_error;
#[allow(dead_code)] // Later phases call the rest.
mod slice;
mod staging;
#[allow(dead_code)] // Later phases call the rest.
pub mod storage;
#[allow(dead_code)] // Later phases call the rest.
mod storage_slice;
mod stream;
#[cfg(test)]
pub(crate) mod testing;

pub use captured::Captured;
pub use device::{device_count, is_available, DeviceId, RocmDevice};
pub use error::{not_generated, RocmError, WrapErr};
pub use map::{kernel_name, Map1, Map1Any, Map2, Map2Any, Map2InPlace, Map3};
pub use memory_stats::MemoryStats;
pub use storage::RocmStorage;
pub use storage_slice::{RocmDType, RocmStorageSlice, S};
