//! The shelves, and what is done with what lies there.

use crate::op::Op;
#[cfg(feature = "rocm")]
use crate::RocmStorage;
use crate::{bail, CudaStorage, Device, Error, MetalStorage, Result};

#[derive(Debug, Clone)]
pub struct CpuStorage {
    pub values: Vec<f32>,
}

#[derive(Debug)]
pub enum Storage {
    Cpu(CpuStorage),
    Cuda(CudaStorage),
    Metal(MetalStorage),
    #[cfg(feature = "rocm")]
    Rocm(RocmStorage),
}

impl Storage {
    pub fn device(&self) -> Device {
        match self {
            Self::Cpu(_) => Device::Cpu,
            Self::Cuda(storage) => Device::Cuda(storage.device().clone()),
            Self::Metal(storage) => Device::Metal(storage.device().clone()),
            #[cfg(feature = "rocm")]
            Self::Rocm(storage) => Device::Rocm(storage.device().clone()),
        }
    }

    /// Whether both lie on one device; Metal compares the devices themselves.
    pub fn same_device(&self, rhs: &Self) -> bool {
        let (one, other) = (self.device(), rhs.device());
        if one.is_metal() || one.is_rocm() {
            one == other
        } else {
            one.location() == other.location()
        }
    }

    pub fn sum(&self) -> f32 {
        match self {
            Storage::Cpu(storage) => {
                // no kernel
                storage.values.iter().sum()
            }
            Storage::Cuda(storage) => {
                let sum = storage.sum(); // one CUDA kernel
                sum
            }
            Storage::Metal(storage) => storage.sum(),
            #[cfg(feature = "rocm")]
            Storage::Rocm(storage) => {
                let sum = storage.sum(); // one ROCm kernel
                sum
            }
        }
    }

    pub fn add(&self, rhs: &Self) -> Result<Self> {
        match (self, rhs) {
            (Storage::Cpu(a), Storage::Cpu(b)) => {
                let values = a.values.iter().zip(&b.values).map(|(a, b)| a + b);
                Ok(Self::Cpu(CpuStorage {
                    values: values.collect(),
                }))
            }
            (Self::Cuda(a), Self::Cuda(b)) => Ok(Self::Cuda(a.add(b)?)),
            (Self::Metal(a), Self::Metal(b)) => Ok(Self::Metal(a.add(b)?)),
            #[cfg(feature = "rocm")]
            (Self::Rocm(a), Self::Rocm(b)) => Ok(Self::Rocm(a.add(b)?)),
            (a, b) => bail!("{:?} and {:?} are apart", a.device(), b.device()),
        }
    }

    pub fn to_device(&self, device: &Device) -> Result<Self> {
        match (self, device) {
            (Storage::Cpu(a), Device::Cuda(d)) => Ok(Storage::Cuda(d.upload(a)?)),
            (Storage::Cpu(a), Device::Metal(d)) => Ok(Storage::Metal(d.upload(a)?)),
            #[cfg(feature = "rocm")]
            (Storage::Cpu(a), Device::Rocm(d)) => Ok(Storage::Rocm(d.upload(a)?)),
            (Storage::Cuda(a), Device::Cpu) => Ok(Storage::Cpu(a.download())),
            (Storage::Metal(a), Device::Cpu) => Ok(Storage::Cpu(a.download())),
            #[cfg(feature = "rocm")]
            (Storage::Rocm(a), Device::Cpu) => Ok(Storage::Cpu(a.download())),
            (Storage::Cuda(a), Device::Cuda(d)) => Ok(Storage::Cuda(d.upload(&a.download())?)),
            #[cfg(feature = "rocm")]
            (Storage::Rocm(a), Device::Rocm(d)) => Ok(Storage::Rocm(d.upload(&a.download())?)),
            (Storage::Cpu(a), Device::Cpu) => Ok(Storage::Cpu(a.clone())),
            _ => Err(Error::Message("no way there".into())),
        }
    }

    pub fn graph(&self) -> Result<u32> {
        match self {
            #[cfg(feature = "cuda")]
            Storage::Cuda(storage) => Ok(storage.device().ordinal() as u32),
            #[cfg(not(feature = "cuda"))]
            Storage::Cuda(_) => bail!("this build has no cuda"),
            #[cfg(feature = "rocm")]
            Storage::Rocm(storage) => Ok(storage.device().ordinal() as u32),
            Storage::Cpu(_) | Storage::Metal(_) => bail!("graphs are for cuda"),
        }
    }

    pub fn apply<C: Op>(&self, op: &C) -> Result<Self> {
        match self {
            Self::Cpu(storage) => Ok(Self::Cpu(op.cpu_fwd(storage)?)),
            Self::Cuda(storage) => Ok(Self::Cuda(op.cuda_fwd(storage)?)),
            Self::Metal(storage) => Ok(Self::Metal(op.metal_fwd(storage)?)),
            #[cfg(feature = "rocm")]
            Self::Rocm(storage) => Ok(Self::Rocm(op.rocm_fwd(storage)?)),
        }
    }
}
