#[cfg(feature = "rocm")]
mod rocm;
#[cfg(all(feature = "rocm", not(feature = "cuda")))]
pub use rocm::{moe_gemm, moe_gemm_gguf};
