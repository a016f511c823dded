//! Operations that users bring along.

#[cfg(feature = "rocm")]
use crate::RocmStorage;
use crate::{CpuStorage, CudaStorage, Error, MetalStorage, Result};

pub trait Op {
    fn name(&self) -> &'static str;

    /// The operation on the cpu.
    fn cpu_fwd(&self, storage: &CpuStorage) -> Result<CpuStorage>;

    /// The operation on a CUDA device.
    fn cuda_fwd(&self, _storage: &CudaStorage) -> Result<CudaStorage> {
        Err(Error::Cuda(format!("no cuda form of {}", self.name())))
    }

    /// The operation on a Metal device.
    fn metal_fwd(&self, _storage: &MetalStorage) -> Result<MetalStorage> {
        Err(Error::Metal(format!("no metal form of {}", self.name())))
    }

    /// The operation on a ROCm device.
    #[cfg(feature = "rocm")]
    fn rocm_fwd(&self, _storage: &RocmStorage) -> Result<RocmStorage> {
        Err(Error::Rocm(format!("no rocm form of {}", self.name())))
    }
}

macro_rules! forward {
    ($name:ident, $storage:ident) => {
        fn $name(&self, storage: &$storage) -> Result<$storage> {
            self.0.$name(storage)
        }
    };
}

/// An operation in a box of its own.
pub struct Boxed<C>(pub C);

impl<C: Op> Op for Boxed<C> {
    fn name(&self) -> &'static str {
        "boxed"
    }

    forward!(cpu_fwd, CpuStorage);
    forward!(cuda_fwd, CudaStorage);
    forward!(metal_fwd, MetalStorage);
    #[cfg(feature = "rocm")]
    forward!(rocm_fwd, RocmStorage);
}
