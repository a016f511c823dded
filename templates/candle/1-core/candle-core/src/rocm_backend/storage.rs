//! A tensor's data on a ROCm device. The dummy backend has the same type, with nothing in it.
use super::memory::DeviceMemory;
use super::slice::RocmSlice;
use super::storage_slice::{RocmDType, RocmStorageSlice};
use super::{RocmDevice, RocmError};
use crate::{DType, Result};

/// Elements on a device.
///
/// Not `Clone`: a copy can run out of memory, which `try_clone` reports.
#[derive(Debug)]
pub struct RocmStorage {
    pub slice: RocmStorageSlice,
    /// The slice's own device.
    pub device: RocmDevice,
}

impl RocmStorage {
    /// `size` bytes with unspecified contents, to hold elements of `dtype`.
    pub(crate) fn new(size: usize, dtype: DType, device: &RocmDevice) -> Result<Self> {
        // Types smaller than a byte have an element size of 0.
        if size.checked_rem(dtype.size_in_bytes()).unwrap_or(0) != 0 {
            let message = format!("{size} bytes are no whole number of {dtype:?} elements");
            return Err(RocmError::Other(message).into());
        }
        let memory = DeviceMemory::alloc(size, device)?;
        Ok(Self::of(memory, dtype))
    }

    /// The memory as elements of `dtype`.
    fn of(memory: DeviceMemory, dtype: DType) -> Self {
        let device = memory.device().clone();
        Self {
            slice: RocmStorageSlice::new(memory, dtype),
            device,
        }
    }

    /// The elements, if they have this type; `RocmError::UnexpectedDType` otherwise.
    pub fn as_rocm_slice<T: RocmDType>(&self) -> Result<&RocmSlice<T>> {
        T::as_rocm_slice(self)
    }

    /// As `as_rocm_slice`, for writing.
    pub fn as_rocm_slice_mut<T: RocmDType>(&mut self) -> Result<&mut RocmSlice<T>> {
        T::as_rocm_slice_mut(self)
    }

    /// The elements as a tensor's.
    pub fn wrap_rocm_slice<T: RocmDType>(slice: RocmSlice<T>, device: RocmDevice) -> RocmStorage {
        T::wrap_rocm_slice(slice, device)
    }

    /// Length in bytes.
    pub fn size(&self) -> usize {
        self.memory().size()
    }

    /// The type of the elements.
    pub(crate) fn dtype(&self) -> DType {
        self.slice.dtype()
    }

    /// The device that the data is on.
    pub(crate) fn device(&self) -> &RocmDevice {
        self.memory().device()
    }

    /// Overwrites all of the data; `src` has `size()` bytes.
    pub(crate) fn copy_from_host(&mut self, src: &[u8]) -> Result<()> {
        Ok(self.memory_mut().copy_from_host(src)?)
    }

    /// Reads all of the data; `dst` has `size()` bytes.
    pub(crate) fn copy_to_host(&self, dst: &mut [u8]) -> Result<()> {
        Ok(self.memory().copy_to_host(dst)?)
    }

    /// A copy on the same device, of all of the data whatever a layout would select.
    pub(crate) fn duplicate(&self) -> Result<Self> {
        Ok(Self::of(self.memory().try_clone()?, self.dtype()))
    }

    /// A copy on a ROCm device, of another stream or GPU too. The host does not wait.
    pub fn transfer_to_device(&self, dst: &RocmDevice) -> Result<Self> {
        Ok(Self::of(self.memory().transfer(dst)?, self.dtype()))
    }

    /// The memory, for work that reads it.
    pub(crate) fn memory(&self) -> &DeviceMemory {
        self.slice.memory()
    }

    /// The memory, for work that writes it.
    pub(crate) fn memory_mut(&mut self) -> &mut DeviceMemory {
        self.slice.memory_mut()
    }
}
