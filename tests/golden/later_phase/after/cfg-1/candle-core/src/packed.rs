//! Packed drawers.

use crate::cuda::QCudaStorage;
use crate::metal::QMetalStorage;
use crate::{Device, Result};

pub enum QStorage {
    Cpu(usize),
    Cuda(QCudaStorage),
    Metal(QMetalStorage),
}

/// What a drawer is packed for.
pub struct QShape(pub usize);

impl Device {
    /// A packed drawer: what the match gives is what the function gives.
    pub fn pack(&self, shape: &QShape) -> Result<QStorage> {
        match self {
            Device::Cpu => Ok(QStorage::Cpu(shape.0)),
            Device::Cuda(cuda) => Ok(QStorage::Cuda(cuda.pack(shape.0)?)),
            Device::Metal(metal) => Ok(QStorage::Metal(metal.pack(shape.0)?)),
            #[cfg(feature = "rocm")]
            Device::Rocm(_) => crate::rocm::not_generated("Device::pack", 2),
        }
    }

    /// Two packed drawers: the match gives a value that is used.
    pub fn pack_twice(&self, shape: &QShape) -> Result<(QStorage, usize)> {
        let packed = match self {
            Device::Cpu => QStorage::Cpu(shape.0),
            Device::Cuda(cuda) => QStorage::Cuda(cuda.pack(shape.0)?),
            Device::Metal(metal) => QStorage::Metal(metal.pack(shape.0)?),
            #[cfg(feature = "rocm")]
            Device::Rocm(_) => crate::rocm::not_generated("Device::pack_twice", 2)?,
        };
        Ok((packed, 2))
    }

    /// CUDA's own: every other device answers as Metal does.
    #[cfg(feature = "cuda")]
    pub fn warps(&self) -> Result<usize> {
        match self {
            Device::Cuda(_) => Ok(32),
            Device::Cpu | Device::Metal(_) => Err("no warps without cuda".into()),
            #[cfg(feature = "rocm")]
            Device::Rocm(_) => Err("no warps without cuda".into()),
        }
    }

    /// Complete without ROCm, so it waits for its phase.
    pub fn is_fast(&self) -> bool {
        match self {
            Device::Cuda(_) => true,
            _ => false,
        }
    }
}

impl QStorage {
    pub fn size(&self) -> usize {
        match self {
            QStorage::Cpu(size) => *size,
            QStorage::Cuda(storage) => storage.0,
            QStorage::Metal(storage) => storage.0,
        }
    }
}
