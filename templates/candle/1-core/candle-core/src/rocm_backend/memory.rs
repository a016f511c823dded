//! Memory on a device.
use super::allocator::Block;
use super::event::Event;
use super::gpu::{lock, Gpu};
use super::hip::{check, HipResult};
use super::stream::Stream;
use super::{api, RocmDevice, RocmError};
use std::ffi::{c_int, c_void};
use std::io::Read;
use std::sync::{Mutex, PoisonError};

/// A block of device memory, given back to its device's cache when it is dropped.
///
/// What is done to it is queued on the device's stream. Only copies to the host wait for that.
#[derive(Debug)]
pub struct DeviceMemory {
    /// None if and only if `size` is 0.
    block: Option<Block>,
    size: usize,
    device: RocmDevice,
    /// Copies to other streams that may not be done.
    readers: Mutex<Vec<Event>>,
}

impl DeviceMemory {
    /// `size` bytes with unspecified contents.
    pub fn alloc(size: usize, device: &RocmDevice) -> HipResult<Self> {
        let block = match size {
            0 => None,
            size => Some(device.queue().allocate(size)?),
        };
        Ok(Self {
            block,
            size,
            device: device.clone(),
            readers: Mutex::default(),
        })
    }

    /// Length in bytes.
    pub fn size(&self) -> usize {
        self.size
    }

    /// The device that the memory is on.
    pub fn device(&self) -> &RocmDevice {
        &self.device
    }

    /// The address on the device, null when the size is 0; not for use by the host.
    pub fn as_ptr(&self) -> *const c_void {
        self.address()
    }

    /// As `as_ptr`, for work on the device's stream that writes: it waits for copies to other streams.
    pub fn as_mut_ptr(&mut self) -> *mut c_void {
        for reader in std::mem::take(self.readers()) {
            if self.device.stream().wait(&reader).is_err() {
                // The host can wait instead. Should that fail too, the GPU has stopped working: all later calls say so.
                let _ = reader.synchronize();
            }
        }
        self.address()
    }

    /// Overwrites the whole block. `src` is free to change when this returns; the stream is not waited for.
    pub fn copy_from_host(&mut self, src: &[u8]) -> HipResult<()> {
        self.check_length("copy_from_host", src.len())?;
        let dst = self.as_mut_ptr();
        let mut rest = src;
        let fill = |piece: &mut [u8]| {
            let (first, later) = rest.split_at(piece.len());
            piece.copy_from_slice(first);
            rest = later;
            Ok(())
        };
        // SAFETY: `dst` has `src.len()` bytes; should the block be given back, whoever gets it writes later.
        unsafe { self.device.queue().upload(dst, src.len(), fill) }
    }

    /// Overwrites the whole block with the bytes that a reader has next. The stream is not waited for.
    ///
    /// They go straight into pinned memory, a piece at a time. An error of the reader is returned as it is; after an
    /// error, the contents are unspecified.
    pub fn copy_from_reader(&mut self, src: &mut impl Read) -> crate::Result<()> {
        let (dst, size) = (self.as_mut_ptr(), self.size);
        let fill = |piece: &mut [u8]| Ok(src.read_exact(piece)?);
        // SAFETY: as above, for `size` bytes.
        unsafe { self.device.queue().upload(dst, size, fill) }
    }

    /// Reads the whole block, after the work queued so far is done.
    pub fn copy_to_host(&self, dst: &mut [u8]) -> HipResult<()> {
        self.check_length("copy_to_host", dst.len())?;
        self.copy_range_to_host(0, dst)
    }

    /// Reads `dst.len()` bytes from `offset` on, after the work queued so far is done.
    pub fn copy_range_to_host(&self, offset: usize, dst: &mut [u8]) -> HipResult<()> {
        self.check_range("copy_range_to_host", offset, dst.len())?;
        if dst.is_empty() {
            return Ok(());
        }
        let stream = self.device.stream();
        stream.gpu().make_current()?;
        // SAFETY: both sides have `dst.len()` bytes, and `dst` is borrowed until the copy is done.
        let status = unsafe {
            api::hipMemcpyAsync(
                dst.as_mut_ptr().cast(),
                self.at(offset),
                dst.len(),
                api::hipMemcpyDeviceToHost,
                stream.handle(),
            )
        };
        check("hipMemcpyAsync", status)?;
        stream.synchronize().inspect_err(|_| {
            // `dst` is borrowed no longer than this. If the GPU still works, the copy has to be over.
            let _ = stream.synchronize();
        })
    }

    /// Overwrites `len` bytes from `offset` on with those of `src` from `src_offset` on, which may be on another stream
    /// or GPU.
    pub fn copy_from(
        &mut self,
        offset: usize,
        src: &Self,
        src_offset: usize,
        len: usize,
    ) -> HipResult<()> {
        self.check_range("copy_from", offset, len)?;
        src.check_range("copy_from", src_offset, len)?;
        if len == 0 {
            return Ok(());
        }
        self.as_mut_ptr();
        let (dst, from) = (self.at(offset), src.at(src_offset));
        let (stream, other) = (self.device.stream(), src.device.stream());
        if stream == other {
            // SAFETY: both sides have `len` bytes, and are different blocks; what comes later on the stream waits.
            return unsafe { copy_on(stream, dst, from, len) };
        }
        stream.wait(&Event::record(other)?)?;
        if stream.gpu().ordinal() == other.gpu().ordinal() {
            // SAFETY: as above. `read_by` keeps `src` from being written before the copy is done.
            unsafe { copy_on(stream, dst, from, len) }?;
        } else {
            stream.gpu().reach(other.gpu())?;
            // SAFETY: as above, on the GPUs that are named.
            unsafe { copy_from_peer(stream, dst, other.gpu(), from, len) }?;
        }
        src.read_by(&self.device)
    }

    /// Makes all bytes 0.
    pub fn fill_zero(&mut self) -> HipResult<()> {
        if self.size == 0 {
            return Ok(());
        }
        let dst = self.as_mut_ptr();
        let stream = self.device.stream();
        stream.gpu().make_current()?;
        // SAFETY: the block has `size` bytes.
        let status = unsafe { api::hipMemsetAsync(dst, 0, self.size, stream.handle()) };
        check("hipMemsetAsync", status)
    }

    /// A copy on the same device.
    pub fn try_clone(&self) -> HipResult<Self> {
        self.transfer(&self.device)
    }

    /// A copy on a device, which may be of another stream or GPU. The host does not wait.
    pub fn transfer(&self, dst: &RocmDevice) -> HipResult<Self> {
        let mut copy = Self::alloc(self.size, dst)?;
        copy.copy_from(0, self, 0, self.size)?;
        Ok(copy)
    }

    /// Notes that work which `device` has queued reads this memory: it is neither written nor given to anybody else
    /// before that is done. Only work on another stream than that of the memory's own device needs this.
    pub fn read_by(&self, device: &RocmDevice) -> HipResult<()> {
        let reader = Event::record(device.stream()).inspect_err(|_| {
            // Without an event, only this makes sure that nothing reads any more.
            let _ = device.stream().synchronize();
        })?;
        let mut readers = lock(&self.readers);
        readers.retain(|reader| !reader.has_come());
        readers.push(reader);
        Ok(())
    }

    fn readers(&mut self) -> &mut Vec<Event> {
        let readers = self.readers.get_mut();
        readers.unwrap_or_else(PoisonError::into_inner)
    }

    fn address(&self) -> *mut c_void {
        let address = self.block.as_ref().map_or(0, Block::address);
        address as *mut c_void
    }

    fn at(&self, offset: usize) -> *mut c_void {
        self.address().cast::<u8>().wrapping_add(offset).cast()
    }

    fn check_length(&self, call: &'static str, got: usize) -> HipResult<()> {
        if got != self.size {
            return Err(RocmError::LengthMismatch {
                call,
                expected: self.size,
                got,
            });
        }
        Ok(())
    }

    fn check_range(&self, call: &'static str, offset: usize, len: usize) -> HipResult<()> {
        if len > self.size || offset > self.size - len {
            return Err(RocmError::OutOfRange {
                call,
                offset,
                len,
                size: self.size,
            });
        }
        Ok(())
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        if let Some(block) = self.block.take() {
            let readers = std::mem::take(self.readers());
            self.device.queue().free(block, readers);
        }
    }
}

/// Queues a copy inside of a stream's GPU.
///
/// # Safety
/// `dst` and `src` are `len` bytes of that GPU each, apart from each other, until the copy is done.
unsafe fn copy_on(
    stream: &Stream,
    dst: *mut c_void,
    src: *const c_void,
    len: usize,
) -> HipResult<()> {
    stream.gpu().make_current()?;
    let (kind, handle) = (api::hipMemcpyDeviceToDevice, stream.handle());
    // SAFETY: the caller's promise.
    let status = unsafe { api::hipMemcpyAsync(dst, src, len, kind, handle) };
    check("hipMemcpyAsync", status)
}

/// Queues a copy from another GPU to a stream's own.
///
/// # Safety
/// `dst` is `len` bytes of the stream's GPU, `src` of `peer`, until the copy is done.
unsafe fn copy_from_peer(
    stream: &Stream,
    dst: *mut c_void,
    peer: &Gpu,
    src: *const c_void,
    len: usize,
) -> HipResult<()> {
    stream.gpu().make_current()?;
    let (to, from) = (stream.gpu().ordinal() as c_int, peer.ordinal() as c_int);
    // SAFETY: the caller's promise.
    let status = unsafe { api::hipMemcpyPeerAsync(dst, to, src, from, len, stream.handle()) };
    check("hipMemcpyPeerAsync", status)
}
