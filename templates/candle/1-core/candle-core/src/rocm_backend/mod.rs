//! Implementation of the ROCm backend: AMD GPUs through HIP.
//!
//! `api` holds all that is C. `gpu`, `stream`, `event`, `allocator`, `memory` and `staging` own what its functions hand
//! out, as types that are `Send` and `Sync`: `rocm_rs`'s own are neither, and its `Stream` is destroyed once per clone.
//! A `Queue` puts them together, and a `RocmDevice` is a queue and the state of its random numbers.
mod allocator;
mod api;
mod backend_device;
mod backend_storage;
pub mod device;
pub mod error;
mod event;
mod gpu;
mod hip;
mod installation;
mod loaded;
pub mod memory;
mod memory_stats;
mod parts;
mod queue;
mod rocm_error;
mod staging;
pub mod storage;
mod stream;
#[cfg(test)]
mod testing;

pub use device::{device_count, is_available, RocmDevice};
pub use error::{not_generated, RocmError};
pub use event::Event;
pub use memory::DeviceMemory;
pub use memory_stats::MemoryStats;
pub use storage::RocmStorage;
