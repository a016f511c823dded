//! HIP's handles of memory that processes share.
use super::hip::{check, HipResult};
use super::ipc::RocmIpcHandle;
use super::stream::RocmStream;
use super::{api, RocmError};
use std::ffi::{c_char, c_uint, c_void};

/// The one value of the flags that HIP takes since ROCm 6.0.
const LAZY_PEER_ACCESS: c_uint = 1;

/// An allocation of another process.
#[derive(Debug)]
pub(super) struct Opened {
    /// Where it begins on the device.
    start: usize,
    /// Where the part of it begins that was handed over.
    offset: usize,
}

/// HIP's handle of the allocation that begins at an address of the stream's GPU.
pub(super) fn handle_of(start: usize, stream: &RocmStream) -> HipResult<[u8; 64]> {
    stream.gpu().make_current()?;
    let mut handle = api::hipIpcMemHandle_t { reserved: [0; 64] };
    // SAFETY: `handle` lives through the call, and HIP checks the address.
    let status = unsafe { api::hipIpcGetMemHandle(&mut handle, start as *mut c_void) };
    check("hipIpcGetMemHandle", status)?;
    Ok(handle.reserved.map(|byte| byte as u8))
}

impl Opened {
    /// The memory of a handle, for the stream's GPU.
    ///
    /// # Safety
    /// The other process keeps it until `close`.
    pub(super) unsafe fn open(handle: &RocmIpcHandle, stream: &RocmStream) -> HipResult<Self> {
        let offset = usize::try_from(handle.offset).ok();
        let Some(offset) = offset.filter(|_| handle.size > 0) else {
            return Err(RocmError::Other(
                "this is no handle of another process's memory".to_string(),
            ));
        };
        stream.gpu().make_current()?;
        let reserved = handle.allocation.map(|byte| byte as c_char);
        let mut start = std::ptr::null_mut();
        // SAFETY: `start` lives through the call, and HIP checks the handle.
        let status = unsafe {
            let handle = api::hipIpcMemHandle_t { reserved };
            api::hipIpcOpenMemHandle(&mut start, handle, LAZY_PEER_ACCESS)
        };
        check("hipIpcOpenMemHandle", status)?;
        Ok(Self {
            start: start as usize,
            offset,
        })
    }

    /// Where the memory begins on the device.
    pub(super) fn address(&self) -> usize {
        self.start + self.offset
    }

    /// Gives the memory back, once what is queued on the stream is done.
    pub(super) fn close(self, stream: &RocmStream) {
        // Whatever fails here means that the GPU has stopped working: all later calls say so.
        let _ = stream.synchronize();
        let _ = stream.gpu().make_current();
        // SAFETY: `open` made it, and nothing uses it any more.
        let status = unsafe { api::hipIpcCloseMemHandle(self.start as *mut c_void) };
        let _ = check("hipIpcCloseMemHandle", status);
    }
}
