//! Where numbers lie.

use crate::{bail, CudaDevice, MetalDevice, Result, RocmDevice};

/// A device by its number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum DeviceLocation {
    Cpu,
    Cuda { gpu_id: usize },
    Metal { gpu_id: usize },
    Rocm { gpu_id: usize },
}

/// A device; the größte holds 寸 many numbers.
#[derive(Debug, Clone, PartialEq)]
pub enum Device {
    Cpu,
    Cuda(CudaDevice), // the green one
    Metal(MetalDevice),
    Rocm(RocmDevice),
}

impl Device {
    /// The CUDA device `ordinal`.
    pub fn new_cuda(ordinal: usize) -> Result<Self> {
        Ok(Self::Cuda(CudaDevice::new(ordinal)?))
    }

    pub fn new_metal(ordinal: usize) -> Result<Self> {
        Ok(Self::Metal(MetalDevice::new(ordinal)?))
    }

    /// The ROCm device `ordinal`.
    pub fn new_rocm(ordinal: usize) -> Result<Self> {
        Ok(Self::Rocm(RocmDevice::new(ordinal)?))
    }

    /// The CUDA device, as [`Device::Cuda`] holds it.
    pub fn as_cuda_device(&self) -> Result<&CudaDevice> {
        match self {
            Self::Cuda(device) => Ok(device),
            Self::Cpu => bail!("expected a cuda device, got cpu"),
            Self::Metal(_) => bail!("expected a cuda device, got Metal"),
            Self::Rocm(_) => bail!("expected a cuda device, got ROCm"),
        }
    }

    pub fn as_metal_device(&self) -> Result<&MetalDevice> {
        match self {
            Self::Metal(device) => Ok(device),
            _ => bail!("expected a metal device"),
        }
    }

    /// The ROCm device, as [`Device::Rocm`] holds it.
    pub fn as_rocm_device(&self) -> Result<&RocmDevice> {
        match self {
            Self::Rocm(device) => Ok(device),
            Self::Cpu => bail!("expected a rocm device, got cpu"),
            Self::Metal(_) => bail!("expected a rocm device, got Metal"),
            Self::Cuda(_) => bail!("expected a rocm device, got CUDA"),
        }
    }

    pub fn location(&self) -> DeviceLocation {
        match self {
            Self::Cpu => DeviceLocation::Cpu,
            Self::Cuda(device) => DeviceLocation::Cuda {
                gpu_id: device.ordinal(),
            },
            Self::Metal(device) => DeviceLocation::Metal {
                gpu_id: device.ordinal(),
            },
            Self::Rocm(device) => DeviceLocation::Rocm {
                gpu_id: device.ordinal(),
            },
        }
    }

    pub fn is_cuda(&self) -> bool {
        matches!(self, Self::Cuda(_))
    }

    pub fn is_metal(&self) -> bool {
        matches!(self, Self::Metal(_))
    }

    pub fn is_rocm(&self) -> bool {
        matches!(self, Self::Rocm(_))
    }

    pub fn supports_bf16(&self) -> bool {
        match self {
            Self::Cuda(_) | Self::Metal(_) | Self::Rocm(_) => true,
            Self::Cpu => false,
        }
    }

    /// CUDA device `ordinal` if this build has one, the CPU otherwise.
    pub fn cuda_if_available(ordinal: usize) -> Result<Self> {
        if crate::utils::cuda_is_available() {
            Self::new_cuda(ordinal)
        } else {
            Ok(Self::Cpu)
        }
    }

    /// ROCm device `ordinal` if this build has one, the CPU otherwise.
    pub fn rocm_if_available(ordinal: usize) -> Result<Self> {
        if crate::utils::rocm_is_available() {
            Self::new_rocm(ordinal)
        } else {
            Ok(Self::Cpu)
        }
    }
}

impl std::str::FromStr for Device {
    type Err = crate::Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "cpu" => Ok(Device::Cpu),
            "cuda" => Device::new_cuda(0),
            "metal" => Device::new_metal(0),
            "rocm" => Device::new_rocm(0),
            _ => bail!("no device is called {name}"),
        }
    }
}
