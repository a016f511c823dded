//! Memory on a device.
use super::allocator::Block;
use super::event::RocmEvent;
use super::gpu::{lock, Gpu};
use super::hip::{check, HipResult};
use super::ipc::RocmIpcHandle;
use super::opened::{self, Opened};
use super::stream::RocmStream;
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
    owner: Option<Owner>,
    size: usize,
    device: RocmDevice,
    /// Copies to other streams that may not be done.
    readers: Mutex<Vec<RocmEvent>>,
}

/// Whose the memory is.
#[derive(Debug)]
enum Owner {
    Here(Block),
    OtherProcess(Opened),
}

impl Owner {
    /// Where the memory begins on the device.
    fn address(&self) -> usize {
        match self {
            Self::Here(block) => block.address(),
            Self::OtherProcess(opened) => opened.address(),
        }
    }
}

impl DeviceMemory {
    /// `size` bytes with unspecified contents.
    pub fn alloc(size: usize, device: &RocmDevice) -> HipResult<Self> {
        let block = match size {
            0 => None,
            size => Some(device.queue().allocate(size)?),
        };
        Ok(Self {
            owner: block.map(Owner::Here),
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
        // Results have none, and whoever has them alone takes no lock to see that.
        if !self.readers().is_empty() {
            self.wait_for_readers();
        }
        self.address()
    }

    /// Lets what is queued on the device's stream from now on wait for copies to other streams. A graph cannot wait for
    /// what was there before it: during a capture, the host does.
    pub(super) fn wait_for_readers(&self) {
        let stream = self.device.stream();
        for reader in std::mem::take(&mut *lock(&self.readers)) {
            if stream.is_capturing() || stream.wait(&reader).is_err() {
                // The host can wait. Should that fail too, the GPU has stopped working: all later calls say so.
                let _ = reader.synchronize();
            }
        }
    }

    /// Overwrites the whole block. `src` is free to change when this returns; the stream is not waited for.
    pub fn copy_from_host(&mut self, src: &[u8]) -> HipResult<()> {
        self.check_length("copy_from_host", src.len())?;
        // SAFETY: `src` has so many bytes.
        unsafe { self.write(0, src.as_ptr(), src.len()) }
    }

    /// Overwrites `len` bytes from `offset` on. `src` is free to change when this returns; the stream is not waited for.
    ///
    /// # Safety
    /// `src` has `len` bytes, which need not all be initialized.
    pub(super) unsafe fn write(
        &mut self,
        offset: usize,
        src: *const u8,
        len: usize,
    ) -> HipResult<()> {
        self.check_range("write", offset, len)?;
        self.as_mut_ptr();
        let mut rest = src;
        let fill = |piece: &mut [u8]| {
            // SAFETY: the pieces have `len` bytes together, as `src` has.
            unsafe {
                piece
                    .as_mut_ptr()
                    .copy_from_nonoverlapping(rest, piece.len());
                rest = rest.add(piece.len());
            }
            Ok(())
        };
        // SAFETY: `len` bytes lie there; should the block be given back, whoever gets it writes later.
        unsafe { self.device.queue().upload(self.at(offset), len, fill) }
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
        // SAFETY: `dst` has so many bytes, of which any bits are values.
        unsafe { self.read(offset, dst.as_mut_ptr(), dst.len()) }
    }

    /// As `copy_range_to_host`; all of `dst` is written.
    ///
    /// # Safety
    /// `dst` has `len` bytes, and what lies there can take any bits.
    pub(super) unsafe fn read(&self, offset: usize, dst: *mut u8, len: usize) -> HipResult<()> {
        self.check_range("copy_range_to_host", offset, len)?;
        if len == 0 {
            return Ok(());
        }
        let stream = self.device.stream();
        stream.refuse_capture("a copy to the host")?;
        stream.gpu().make_current()?;
        // SAFETY: both sides have `len` bytes, and `dst` is borrowed until the copy is done.
        let status = unsafe {
            api::hipMemcpyAsync(
                dst.cast(),
                self.at(offset),
                len,
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
    /// or GPU. That is no part of a capture.
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
        for stream in [stream, other] {
            stream.refuse_capture("a copy between streams")?;
        }
        stream.wait(&RocmEvent::record(other)?)?;
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

    /// What another process opens to use the memory, after the work queued so far, for which this waits.
    pub(super) fn ipc_handle(&self) -> HipResult<RocmIpcHandle> {
        let Some(Owner::Here(block)) = &self.owner else {
            let problem = match self.size {
                0 => "memory of no bytes has no handle",
                _ => "memory of another process has no handle of this one",
            };
            return Err(RocmError::Other(problem.to_string()));
        };
        self.wait_for_readers();
        let stream = self.device.stream();
        stream.refuse_capture("a handle for another process")?;
        stream.synchronize()?;
        let start = self.device.queue().segment_of(block);
        Ok(RocmIpcHandle {
            allocation: opened::handle_of(start, stream)?,
            offset: (block.address() - start) as u64,
            size: self.size as u64,
        })
    }

    /// Memory of another process.
    ///
    /// # Safety
    /// The other process keeps it until this is dropped.
    pub(super) unsafe fn open(handle: &RocmIpcHandle, device: &RocmDevice) -> HipResult<Self> {
        device.stream().refuse_capture("another process's memory")?;
        // SAFETY: the caller's promise.
        let opened = unsafe { Opened::open(handle, device.stream())? };
        Ok(Self {
            owner: Some(Owner::OtherProcess(opened)),
            size: handle.num_bytes(),
            device: device.clone(),
            readers: Mutex::default(),
        })
    }

    /// Notes that work which `device` has queued reads this memory: it is neither written nor given to anybody else
    /// before that is done. Only work on another stream than that of the memory's own device needs this.
    pub fn read_by(&self, device: &RocmDevice) -> HipResult<()> {
        // An event of a capture never comes, and asking for it ends the capture.
        device
            .stream()
            .refuse_capture("a read from another stream")?;
        let reader = RocmEvent::record(device.stream()).inspect_err(|_| {
            // Without an event, only this makes sure that nothing reads any more.
            let _ = device.stream().synchronize();
        })?;
        let mut readers = lock(&self.readers);
        readers.retain(|reader| !reader.has_come());
        readers.push(reader);
        Ok(())
    }

    fn readers(&mut self) -> &mut Vec<RocmEvent> {
        let readers = self.readers.get_mut();
        readers.unwrap_or_else(PoisonError::into_inner)
    }

    /// Where work on the device finds the memory. A graph that is captured keeps it.
    fn address(&self) -> *mut c_void {
        if let Some(Owner::Here(block)) = &self.owner {
            self.device.queue().note_use(block);
        }
        let address = self.owner.as_ref().map_or(0, Owner::address);
        address as *mut c_void
    }

    /// The address of a byte.
    pub(super) fn at(&self, offset: usize) -> *mut c_void {
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
        let readers = std::mem::take(self.readers());
        match self.owner.take() {
            Some(Owner::Here(block)) => self.device.queue().free(block, readers),
            Some(Owner::OtherProcess(opened)) => {
                for reader in readers {
                    let _ = reader.synchronize();
                }
                opened.close(self.device.stream());
            }
            None => {}
        }
    }
}

/// Queues a copy inside of a stream's GPU.
///
/// # Safety
/// `dst` and `src` are `len` bytes of that GPU each, apart from each other, until the copy is done.
unsafe fn copy_on(
    stream: &RocmStream,
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
    stream: &RocmStream,
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

#[cfg(test)]
mod tests {
    use super::super::testing::gpu;
    use super::*;
    use crate::rocm_backend::RocmStorage;
    use crate::DType;

    fn bytes(length: usize, seed: u8) -> Vec<u8> {
        (0..length).map(|i| (i % 251) as u8 ^ seed).collect()
    }

    fn uploaded(data: &[u8], device: &RocmDevice) -> HipResult<DeviceMemory> {
        let mut memory = DeviceMemory::alloc(data.len(), device)?;
        memory.copy_from_host(data)?;
        Ok(memory)
    }

    fn downloaded(memory: &DeviceMemory) -> HipResult<Vec<u8>> {
        let mut data = vec![0; memory.size()];
        memory.copy_to_host(&mut data)?;
        Ok(data)
    }

    #[test]
    fn a_reader_is_read_as_far_as_memory_goes() -> crate::Result<()> {
        let Some(device) = gpu("a_reader_is_read_as_far_as_memory_goes") else {
            return Ok(());
        };
        const MIB: usize = 1 << 20;
        let sizes = [0, 1, 63, 65, 2 * MIB - 1, 2 * MIB + 1, 11 * MIB + 5];
        for (size, seed) in sizes.into_iter().zip(0..) {
            let data = bytes(size + 3, seed);
            let mut reader = &data[..];
            let mut memory = DeviceMemory::alloc(size, &device)?;
            memory.copy_from_reader(&mut reader)?;
            assert_eq!(reader.len(), 3);
            assert!(downloaded(&memory)? == data[..size], "{size} bytes");
        }
        Ok(())
    }

    #[test]
    fn whole_copies_have_the_length_of_the_memory() -> HipResult<()> {
        let Some(device) = gpu("whole_copies_have_the_length_of_the_memory") else {
            return Ok(());
        };
        let mut memory = uploaded(&bytes(8, 0), &device)?;
        for got in [0, 7, 9] {
            let results = [
                memory.copy_from_host(&bytes(got, 1)),
                memory.copy_to_host(&mut bytes(got, 1)),
            ];
            for result in results {
                match result {
                    Err(RocmError::LengthMismatch {
                        expected: 8,
                        got: reported,
                        ..
                    }) => assert_eq!(reported, got),
                    other => panic!("{other:?}"),
                }
            }
        }
        assert_eq!(downloaded(&memory)?, bytes(8, 0));
        Ok(())
    }

    #[test]
    fn a_range_is_read_alone() -> HipResult<()> {
        let Some(device) = gpu("a_range_is_read_alone") else {
            return Ok(());
        };
        let memory = uploaded(&bytes(10_000, 0), &device)?;
        let mut part = vec![0; 100];
        memory.copy_range_to_host(9_900, &mut part)?;
        assert_eq!(part, bytes(10_000, 0)[9_900..]);
        memory.copy_range_to_host(10_000, &mut [])?;
        for (offset, len) in [(9_901, 100), (10_001, 0), (usize::MAX, 2), (0, 10_001)] {
            match memory.copy_range_to_host(offset, &mut vec![0; len]) {
                Err(error @ RocmError::OutOfRange { .. }) => {
                    let text = format!("{len} bytes from {offset} on");
                    assert!(error.to_string().contains(&text), "{error}");
                }
                other => panic!("{other:?}"),
            }
        }
        Ok(())
    }

    #[test]
    fn a_part_is_overwritten_alone() -> HipResult<()> {
        let Some(device) = gpu("a_part_is_overwritten_alone") else {
            return Ok(());
        };
        let source = uploaded(&bytes(1000, 9), &device)?;
        let mut memory = uploaded(&bytes(1000, 0), &device)?;
        memory.copy_from(10, &source, 500, 30)?;
        let mut expected = bytes(1000, 0);
        expected[10..40].copy_from_slice(&bytes(1000, 9)[500..530]);
        assert_eq!(downloaded(&memory)?, expected);
        for (offset, src_offset, len) in [(990, 0, 11), (0, 990, 11), (usize::MAX, 0, 1)] {
            let result = memory.copy_from(offset, &source, src_offset, len);
            assert!(
                matches!(result, Err(RocmError::OutOfRange { .. })),
                "{result:?}"
            );
        }
        assert_eq!(downloaded(&memory)?, expected);
        Ok(())
    }

    #[test]
    fn sizes_hold_whole_elements() {
        let Some(device) = gpu("sizes_hold_whole_elements") else {
            return;
        };
        let error = RocmStorage::new(7, DType::F32, &device).expect_err("7 is no multiple of 4");
        assert!(error.to_string().contains("7 bytes"), "{error}");
    }
}
