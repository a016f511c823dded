//! Launch and memory code as programs have it that use Candle's CUDA backend by name, after nothing but a rename
//! (docs/port-from-cuda.md).
//!
//! It compiles without the feature, too, where no device can be made to run it.
#![cfg_attr(not(feature = "rocm"), allow(dead_code))]
#[path = "rocm_ports/programs.rs"]
mod programs;

/// A program may keep its kernels in a static, as it does with CUDA's.
const _: () = {
    use candle_core::rocm::driver::{RocmFunc, RocmFunction, RocmModule};

    const fn crosses_threads<T: Send + Sync>() {}
    crosses_threads::<RocmModule>();
    crosses_threads::<RocmFunction>();
    crosses_threads::<RocmFunc>();
};
