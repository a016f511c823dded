//! Pinned host memory that uploads go through.
//!
//! HIP copies from pinned memory while the host goes on; from a program's own memory it copies only after everything
//! that the stream has queued, and the host waits. So bytes are first copied into a ring of pinned buffers. A buffer is
//! filled by as many uploads as fit, then marked with an event, and filled again once that has come.
use super::api;
use super::event::Event;
use super::hip::{check, HipResult};
use super::stream::Stream;
use std::collections::VecDeque;
use std::ffi::c_void;

/// Large enough to hide the cost of a copy, small enough for the first one to start soon.
const BUFFER_SIZE: usize = 2 << 20;
/// Enough for the host to fill one while the GPU reads another, and no wait when one of the two stutters.
const MAX_BUFFERS: usize = 4;
/// Where uploads begin in a buffer: a cache line.
const ALIGNMENT: usize = 64;

/// The ring of one stream.
#[derive(Default)]
pub(super) struct Staging {
    /// The last one is being filled, up to `used`; the first one was full earliest.
    buffers: VecDeque<Buffer>,
    used: usize,
}

/// `BUFFER_SIZE` bytes of pinned memory.
struct Buffer {
    ptr: *mut u8,
    /// The end of the last copy from it; none while it is being filled.
    read: Option<Event>,
}

// SAFETY: the memory belongs to this value and has no ties to a thread.
unsafe impl Send for Buffer {}

impl Staging {
    /// Queues a copy of `src`, which is free to change when this returns.
    ///
    /// # Safety
    /// `dst` is memory of the stream's GPU, `src.len()` bytes at least, until the copy is done.
    pub(super) unsafe fn upload(
        &mut self,
        dst: *mut c_void,
        src: &[u8],
        stream: &Stream,
    ) -> HipResult<()> {
        let mut dst = dst.cast::<u8>();
        let mut rest = src;
        while !rest.is_empty() {
            let room = self.room(stream)?;
            let (piece, later) = rest.split_at(rest.len().min(room.len()));
            let staged = &mut room[..piece.len()];
            staged.copy_from_slice(piece);
            let from = staged.as_ptr().cast();
            self.used += piece.len().next_multiple_of(ALIGNMENT);
            stream.gpu().make_current()?;
            // SAFETY: `dst` has `rest.len()` bytes by the caller's promise. The staged bytes do not change before an
            // event that is recorded after this copy, see `room`.
            let status = unsafe {
                api::hipMemcpyAsync(
                    dst.cast(),
                    from,
                    piece.len(),
                    api::hipMemcpyHostToDevice,
                    stream.handle(),
                )
            };
            check("hipMemcpyAsync", status)?;
            dst = dst.wrapping_add(piece.len());
            rest = later;
        }
        Ok(())
    }

    /// The unused end of the buffer that is being filled, never empty.
    fn room(&mut self, stream: &Stream) -> HipResult<&mut [u8]> {
        if self.buffers.is_empty() || self.used >= BUFFER_SIZE {
            self.turn(stream)?;
        }
        let buffer = self.buffers.back_mut().expect("`turn` leaves one");
        // SAFETY: the buffer has `BUFFER_SIZE` bytes, which are initialized. From `used` on, nothing reads it: `turn`
        // waited for the copies of its last use.
        Ok(unsafe {
            let start = buffer.ptr.add(self.used);
            std::slice::from_raw_parts_mut(start, BUFFER_SIZE - self.used)
        })
    }

    /// Starts to fill another buffer: a new one, or the one that was full earliest.
    fn turn(&mut self, stream: &Stream) -> HipResult<()> {
        if let Some(full) = self.buffers.back_mut() {
            full.read = Some(Event::record(stream)?);
        }
        if self.buffers.len() < MAX_BUFFERS {
            self.buffers.push_back(Buffer::new(stream)?);
        } else {
            let oldest = &mut self.buffers[0];
            if let Some(read) = &oldest.read {
                read.synchronize()?;
            }
            oldest.read = None;
            self.buffers.rotate_left(1);
        }
        self.used = 0;
        Ok(())
    }
}

impl Buffer {
    fn new(stream: &Stream) -> HipResult<Self> {
        stream.gpu().make_current()?;
        let mut ptr = std::ptr::null_mut();
        // SAFETY: `ptr` lives through the call.
        let status =
            unsafe { api::hipHostMalloc(&mut ptr, BUFFER_SIZE, api::hipHostMallocDefault) };
        check("hipHostMalloc", status)?;
        let ptr = ptr.cast::<u8>();
        // SAFETY: HIP gave us that many bytes.
        unsafe { ptr.write_bytes(0, BUFFER_SIZE) };
        Ok(Self { ptr, read: None })
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: from `new`; the queue has waited for its stream. A failure means that the runtime is gone.
        let _ = unsafe { api::hipHostFree(self.ptr.cast()) };
    }
}
