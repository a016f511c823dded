//! Launch and memory code as programs have it that use Candle's CUDA backend by name, after nothing but a rename
//! (docs/port-from-cuda.md).
#![cfg(feature = "rocm")]
#[path = "rocm_ports/programs.rs"]
mod programs;
