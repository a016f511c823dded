//! Products of matrices: their settings, without effect, and rocBLAS, which nobody gets.
use super::RocmDevice;
use crate::{Error, Result};
use std::ffi::c_void;

impl RocmDevice {
    pub fn with_rocblas<T>(&self, _: impl FnOnce(*mut c_void) -> T) -> Result<T> {
        Err(Error::NotCompiledWithRocmSupport)
    }
}

/// Whether products of f16 matrices may be less precise than their type: there are none.
pub fn gemm_reduced_precision_f16() -> bool {
    false
}

/// Without effect: there are no products of matrices.
pub fn set_gemm_reduced_precision_f16(_: bool) {}

/// Whether products of bf16 matrices may be less precise than their type: there are none.
pub fn gemm_reduced_precision_bf16() -> bool {
    false
}

/// Without effect: there are no products of matrices.
pub fn set_gemm_reduced_precision_bf16(_: bool) {}

/// Whether products of f32 matrices may be less precise than their type: there are none.
pub fn gemm_reduced_precision_f32() -> bool {
    false
}

/// Without effect: there are no products of matrices.
pub fn set_gemm_reduced_precision_f32(_: bool) {}
