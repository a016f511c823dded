//! The Metal drawers.

use crate::Result;

pub struct MetalDevice;

pub struct QMetalStorage(pub usize);

impl MetalDevice {
    pub fn pack(&self, size: usize) -> Result<QMetalStorage> {
        Ok(QMetalStorage(size))
    }
}
