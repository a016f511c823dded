//! The ROCm drawers.

use crate::Result;

pub struct RocmDevice;

/// The error of an operation that a later phase brings.
pub fn not_generated<T>(operation: &str, phase: u8) -> Result<T> {
    Err(format!("{operation} comes with phase {phase}"))
}

pub struct QRocmStorage(pub usize);

impl RocmDevice {
    pub fn pack(&self, size: usize) -> Result<QRocmStorage> {
        Ok(QRocmStorage(size))
    }
}
