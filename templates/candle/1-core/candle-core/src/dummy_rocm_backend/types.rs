//! A device that nobody can make, and what would be on it.
use super::{MemoryStats, RocmError};
use crate::{DType, Error, Layout, Result};
use std::ffi::c_void;

/// The answer of an operation that ROCm does not have yet.
pub fn not_generated<T>(_op: &'static str, _phase: u32) -> Result<T> {
    Err(Error::NotCompiledWithRocmSupport)
}

/// How many GPUs the runtime can see.
pub fn device_count() -> Result<usize> {
    Err(Error::NotCompiledWithRocmSupport)
}

/// Whether the runtime can see a GPU.
pub fn is_available() -> bool {
    false
}

#[derive(Debug)]
pub struct Event;

impl Event {
    pub fn is_done(&self) -> std::result::Result<bool, RocmError> {
        fail!()
    }

    pub fn synchronize(&self) -> std::result::Result<(), RocmError> {
        fail!()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RocmDevice;

impl RocmDevice {
    pub fn new(_: usize) -> Result<Self> {
        Err(Error::NotCompiledWithRocmSupport)
    }

    pub fn new_with_stream(_: usize) -> Result<Self> {
        Err(Error::NotCompiledWithRocmSupport)
    }

    /// # Safety
    /// The stream would have to be one of the device.
    pub unsafe fn from_raw_stream(_: usize, _: *mut c_void) -> Result<Self> {
        Err(Error::NotCompiledWithRocmSupport)
    }

    pub fn ordinal(&self) -> usize {
        fail!()
    }

    pub fn id(&self) -> usize {
        fail!()
    }

    pub fn name(&self) -> Result<String> {
        Err(Error::NotCompiledWithRocmSupport)
    }

    pub fn compute_capability(&self) -> Result<(i32, i32)> {
        Err(Error::NotCompiledWithRocmSupport)
    }

    pub fn gcn_arch_name(&self) -> Result<String> {
        Err(Error::NotCompiledWithRocmSupport)
    }

    pub fn wave_size(&self) -> usize {
        fail!()
    }

    pub fn multiprocessors(&self) -> usize {
        fail!()
    }

    pub fn lds_per_block(&self) -> usize {
        fail!()
    }

    pub fn total_memory(&self) -> Result<usize> {
        Err(Error::NotCompiledWithRocmSupport)
    }

    pub fn free_memory(&self) -> Result<usize> {
        Err(Error::NotCompiledWithRocmSupport)
    }

    pub fn memory_stats(&self) -> MemoryStats {
        fail!()
    }

    pub fn trim_memory(&self) -> Result<()> {
        Err(Error::NotCompiledWithRocmSupport)
    }

    pub fn set_memory_limit(&self, _: Option<usize>) {
        fail!()
    }

    pub fn synchronize(&self) -> Result<()> {
        Err(Error::NotCompiledWithRocmSupport)
    }

    pub fn record_event(&self) -> Result<Event> {
        Err(Error::NotCompiledWithRocmSupport)
    }

    pub fn wait_event(&self, _: &Event) -> Result<()> {
        Err(Error::NotCompiledWithRocmSupport)
    }

    pub fn raw_stream(&self) -> *mut c_void {
        fail!()
    }

    pub fn seed(&self) -> u64 {
        fail!()
    }

    pub fn random_offset(&self, _: u64) -> (u64, u64) {
        fail!()
    }
}

#[derive(Debug)]
pub struct RocmStorage;

impl RocmStorage {
    pub fn new(_: usize, _: DType, _: &RocmDevice) -> Result<Self> {
        Err(Error::NotCompiledWithRocmSupport)
    }

    pub fn size(&self) -> usize {
        fail!()
    }

    pub fn dtype(&self) -> DType {
        fail!()
    }

    pub fn device(&self) -> &RocmDevice {
        fail!()
    }

    pub fn copy_from_host(&mut self, _: &[u8]) -> Result<()> {
        Err(Error::NotCompiledWithRocmSupport)
    }

    pub fn copy_to_host(&self, _: &mut [u8]) -> Result<()> {
        Err(Error::NotCompiledWithRocmSupport)
    }

    pub fn duplicate(&self) -> Result<Self> {
        Err(Error::NotCompiledWithRocmSupport)
    }

    pub fn transfer_to_device(&self, _: &RocmDevice) -> Result<Self> {
        Err(Error::NotCompiledWithRocmSupport)
    }

    pub fn exceeds(&self, _: &Layout) -> bool {
        fail!()
    }

    pub fn packed(&self, _: &Layout) -> Result<Self> {
        Err(Error::NotCompiledWithRocmSupport)
    }

    pub fn read_view(&self, _: &Layout) -> Result<crate::Tensor> {
        Err(Error::NotCompiledWithRocmSupport)
    }
}
