//! Memory that processes share. The dummy backend has the same types.
use super::memory::DeviceMemory;
use super::slice::{DeviceRepr, RocmSlice};
use super::{RocmDevice, RocmError};
use crate::Result;

/// What another process needs to work with a [`RocmSlice`] of this one in place: bytes, to be sent in any way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RocmIpcHandle {
    /// HIP's, of the allocation that the memory is part of.
    pub(super) allocation: [u8; 64],
    /// Where in the allocation it begins, and how long it is, in bytes.
    pub(super) offset: u64,
    pub(super) size: u64,
}

impl RocmIpcHandle {
    /// How many bytes `to_bytes` returns.
    pub const SIZE: usize = 80;

    /// The handle, to be sent to another process on the same machine.
    pub fn to_bytes(&self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        bytes[..64].copy_from_slice(&self.allocation);
        bytes[64..72].copy_from_slice(&self.offset.to_le_bytes());
        bytes[72..].copy_from_slice(&self.size.to_le_bytes());
        bytes
    }

    /// The handle that `to_bytes` made these of.
    pub fn from_bytes(bytes: &[u8; Self::SIZE]) -> Self {
        let (mut allocation, mut offset, mut size) = ([0; 64], [0; 8], [0; 8]);
        allocation.copy_from_slice(&bytes[..64]);
        offset.copy_from_slice(&bytes[64..72]);
        size.copy_from_slice(&bytes[72..]);
        Self {
            allocation,
            offset: u64::from_le_bytes(offset),
            size: u64::from_le_bytes(size),
        }
    }

    /// Bytes of the memory.
    pub fn num_bytes(&self) -> usize {
        self.size as usize
    }
}

impl<T> RocmSlice<T> {
    /// A handle of the memory for another process, after the work queued so far, for which this waits.
    ///
    /// The other process opens it with [`RocmDevice::open_ipc_handle`]. This slice has to live for as long as it is open
    /// there: memory that is dropped here becomes that of other tensors.
    pub fn ipc_handle(&self) -> Result<RocmIpcHandle> {
        Ok(self.memory().ipc_handle()?)
    }
}

impl RocmDevice {
    /// The memory of another process, to be read and written in place. It is that process's again when the slice is
    /// dropped. A process cannot open a handle of its own.
    ///
    /// # Safety
    /// The handle is of a slice whose elements are valid values of `T`, and which the other process keeps for as long.
    /// Neither process writes what the other one uses at the time: a stream is not in order with those of other processes,
    /// so each waits for its own (`synchronize`) before it says that the other may go on.
    pub unsafe fn open_ipc_handle<T: DeviceRepr>(
        &self,
        handle: &RocmIpcHandle,
    ) -> Result<RocmSlice<T>> {
        let (bytes, size) = (handle.num_bytes(), size_of::<T>());
        if bytes % size != 0 {
            let problem = format!("{bytes} bytes of another process are no elements of {size}");
            return Err(RocmError::Other(problem))?;
        }
        // SAFETY: the caller's promise.
        let memory = unsafe { DeviceMemory::open(handle, self)? };
        Ok(RocmSlice::new(memory))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_its_bytes() {
        let mut bytes = [0; RocmIpcHandle::SIZE];
        for (byte, place) in bytes.iter_mut().zip(1..) {
            *byte = place;
        }
        let handle = RocmIpcHandle::from_bytes(&bytes);
        assert_eq!(handle.to_bytes(), bytes);
        assert_eq!(
            handle.offset,
            u64::from_le_bytes([65, 66, 67, 68, 69, 70, 71, 72])
        );
        assert_eq!(
            handle.size,
            u64::from_le_bytes([73, 74, 75, 76, 77, 78, 79, 80])
        );
        assert_eq!(handle.allocation[63], 64);
    }
}
