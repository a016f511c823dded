//! Launch and memory code as programs have it that use Candle's CUDA backend by name, after nothing but a rename
//! (docs/port-from-cuda.md).
//!
//! It compiles without the feature, too, where no device can be made to run it.
#![cfg_attr(not(feature = "rocm"), allow(dead_code))]
#[path = "rocm_ports/programs.rs"]
mod programs;
