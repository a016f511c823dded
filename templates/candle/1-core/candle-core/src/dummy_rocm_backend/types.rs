//! A device that nobody can make, and what would be on it.
use super::stream::RocmStream;
use super::{MemoryStats, RocmStorage};
use crate::{Error, Layout, Result};
use std::ffi::c_void;
use std::sync::Arc;

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

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DeviceId(usize);

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

    pub fn id(&self) -> DeviceId {
        fail!()
    }

    /// # Safety
    /// There would have to be a device.
    pub unsafe fn disable_event_tracking(&self) {
        fail!()
    }

    pub fn is_event_tracking(&self) -> bool {
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

    pub fn rocm_stream(&self) -> Arc<RocmStream> {
        fail!()
    }

    pub(super) fn stream(&self) -> &Arc<RocmStream> {
        fail!()
    }

    pub fn seed(&self) -> u64 {
        fail!()
    }

    pub fn random_offset(&self, _: u64) -> (u64, u64) {
        fail!()
    }
}

impl RocmStorage {
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
