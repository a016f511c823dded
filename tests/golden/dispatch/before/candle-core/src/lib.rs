//! A workbench in which numbers lie on a shelf of one device or another.

#[cfg(feature = "cuda")]
pub mod cuda_backend;
pub mod device;
pub mod dummy_cuda_backend;
pub mod dummy_metal_backend;
pub mod error;
#[cfg(feature = "metal")]
pub mod metal_backend;
pub mod op;
pub mod storage;
pub mod utils;

pub use cuda::{CudaDevice, CudaStorage};
#[cfg(feature = "cuda")]
pub use cuda_backend as cuda;
#[cfg(not(feature = "cuda"))]
pub use dummy_cuda_backend as cuda;

#[cfg(not(feature = "metal"))]
pub use dummy_metal_backend as metal;
pub use metal::{MetalDevice, MetalStorage};
#[cfg(feature = "metal")]
pub use metal_backend as metal;

pub use device::{Device, DeviceLocation};
pub use error::{Error, Result};
pub use storage::{CpuStorage, Storage};
