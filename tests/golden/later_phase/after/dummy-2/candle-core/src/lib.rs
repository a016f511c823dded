//! A cupboard whose packed drawers are of a later phase.

pub mod cuda;
pub mod metal;
pub mod packed;
pub mod rocm;

pub struct Cpu;

/// A drawer.
pub enum Device {
    Cpu,
    Cuda(cuda::CudaDevice),
    Metal(metal::MetalDevice),
    Rocm(rocm::RocmDevice),
}

pub type Result<T> = std::result::Result<T, String>;
