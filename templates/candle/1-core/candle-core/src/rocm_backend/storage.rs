//! A tensor's data on a ROCm device.
use super::{DeviceMemory, RocmDevice, RocmError};
use crate::{DType, Result};

/// Device memory and the type of its elements.
///
/// Not `Clone`: a copy can run out of memory, which `try_clone` reports.
#[derive(Debug)]
pub struct RocmStorage {
    memory: DeviceMemory,
    dtype: DType,
}

impl RocmStorage {
    /// `size` bytes with unspecified contents, to hold elements of `dtype`.
    pub fn new(size: usize, dtype: DType, device: &RocmDevice) -> Result<Self> {
        // Types smaller than a byte have an element size of 0.
        if size.checked_rem(dtype.size_in_bytes()).unwrap_or(0) != 0 {
            let message = format!("{size} bytes are no whole number of {dtype:?} elements");
            return Err(RocmError::Other(message).into());
        }
        let memory = DeviceMemory::alloc(size, device)?;
        Ok(Self { memory, dtype })
    }

    /// Length in bytes.
    pub fn size(&self) -> usize {
        self.memory.size()
    }

    /// The type of the elements.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The device that the data is on.
    pub fn device(&self) -> &RocmDevice {
        self.memory.device()
    }

    /// Overwrites all of the data; `src` has `size()` bytes.
    pub fn copy_from_host(&mut self, src: &[u8]) -> Result<()> {
        Ok(self.memory.copy_from_host(src)?)
    }

    /// Reads all of the data; `dst` has `size()` bytes.
    pub fn copy_to_host(&self, dst: &mut [u8]) -> Result<()> {
        Ok(self.memory.copy_to_host(dst)?)
    }

    /// A copy on the same device, of all of the data whatever a layout would select.
    pub fn duplicate(&self) -> Result<Self> {
        Ok(Self {
            memory: self.memory.try_clone()?,
            dtype: self.dtype,
        })
    }

    /// A copy on a ROCm device, of another stream or GPU too. The host does not wait.
    pub fn transfer_to_device(&self, dst: &RocmDevice) -> Result<Self> {
        Ok(Self {
            memory: self.memory.transfer(dst)?,
            dtype: self.dtype,
        })
    }

    /// The memory, for kernels that read it.
    pub fn hip_memory(&self) -> &DeviceMemory {
        &self.memory
    }

    /// The memory, for kernels that write it.
    pub fn hip_memory_mut(&mut self) -> &mut DeviceMemory {
        &mut self.memory
    }
}
