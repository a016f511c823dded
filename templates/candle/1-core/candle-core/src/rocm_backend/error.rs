//! Errors of the ROCm backend.
pub use super::rocm_error::{RocmError, WrapErr};
use crate::Result;

impl From<RocmError> for crate::Error {
    fn from(error: RocmError) -> Self {
        Self::Rocm(error).bt()
    }
}

/// The answer of an operation that a later phase generates.
pub fn not_generated<T>(op: &'static str, phase: u32) -> Result<T> {
    Err(RocmError::NotGenerated { op, phase }.into())
}
