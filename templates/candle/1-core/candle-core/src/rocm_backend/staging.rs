//! Pinned host memory that uploads go through.
//!
//! HIP copies from pinned memory while the host goes on; from a program's own memory it copies only after everything
//! that the stream has queued, and the host waits. So bytes are first written into pinned buffers, a piece at a time. A
//! buffer is filled by as many uploads as fit, then marked with an event, and filled again once that has come. What is
//! uploaded during a capture stays in buffers of its graph, which reads it with each launch.
use super::api;
use super::event::RocmEvent;
use super::gpu::lock;
use super::hip::{check, HipResult};
use super::stream::RocmStream;
use super::RocmError;
use std::collections::{BTreeMap, VecDeque};
use std::ffi::c_void;
use std::sync::Mutex;

/// Large enough to hide the cost of a copy, small enough for the first one to start soon.
const BUFFER_SIZE: usize = 2 << 20;
/// Enough for the host to fill one while the GPU reads another, and no wait when one of the two stutters.
const MAX_BUFFERS: usize = 4;
/// Where uploads begin in a buffer: a cache line.
const ALIGNMENT: usize = 64;

/// The buffers of one stream. Threads that upload at the same time fill one each, and do not wait for each other.
#[derive(Default)]
pub(super) struct Staging {
    buffers: Mutex<Buffers>,
}

/// Those that nobody fills now. There is one more than `MAX_BUFFERS` at most for each thread that did so meanwhile.
#[derive(Default)]
struct Buffers {
    /// Without an event: the next upload goes into the last one that has room.
    open: Vec<Buffer>,
    /// With the end of the last copy from each; the first one was full earliest.
    full: VecDeque<(Buffer, RocmEvent)>,
    /// Those of each graph.
    captured: BTreeMap<usize, Vec<Buffer>>,
}

/// `BUFFER_SIZE` bytes of pinned memory, which copies may read up to `used`.
struct Buffer {
    ptr: *mut u8,
    used: usize,
}

// SAFETY: the memory belongs to this value and has no ties to a thread.
unsafe impl Send for Buffer {}

/// A buffer with room that somebody fills. It goes back to the others whatever comes of that.
struct Filling<'a> {
    /// None only while it is dropped.
    buffer: Option<Buffer>,
    /// Whose it is, if a graph's.
    graph: Option<usize>,
    staging: &'a Staging,
}

impl Staging {
    /// Queues a copy of `size` bytes, which `fill` writes, a piece at a time and in their order. It may fail, and may
    /// take its time: nobody else is kept from uploading. Pieces before that which failed are copied nevertheless.
    ///
    /// # Safety
    /// `dst` is memory of the stream's GPU, `size` bytes at least, until the copy is done.
    pub(super) unsafe fn upload<E: From<RocmError>>(
        &self,
        dst: *mut c_void,
        size: usize,
        mut fill: impl FnMut(&mut [u8]) -> Result<(), E>,
        stream: &RocmStream,
    ) -> Result<(), E> {
        let mut done = 0;
        while done < size {
            let graph = stream.captured();
            let mut buffers = lock(&self.buffers);
            let buffer = match graph {
                Some(graph) => buffers.take_captured(graph, stream)?,
                None => buffers.take(stream)?,
            };
            drop(buffers);
            let mut filling = Filling {
                buffer: Some(buffer),
                graph,
                staging: self,
            };
            let buffer = filling.buffer.as_mut().expect("none is dropped yet");
            let room = buffer.room();
            let length = room.len().min(size - done);
            fill(&mut room[..length])?;
            let dst = dst.cast::<u8>().wrapping_add(done);
            // SAFETY: `dst` has `length` bytes by the caller's promise.
            unsafe { buffer.copy(dst.cast(), length, stream) }?;
            done += length;
        }
        Ok(())
    }
}

impl Staging {
    /// Makes room for what a capture uploads: HIP may not give pinned memory while it goes on.
    pub(super) fn begin_capture(&self, graph: usize, stream: &RocmStream) -> HipResult<()> {
        let buffer = Buffer::new(stream)?;
        lock(&self.buffers).captured.insert(graph, vec![buffer]);
        Ok(())
    }

    /// A graph has ended, and its stream has been waited for.
    pub(super) fn forget_graph(&self, graph: usize) {
        let buffers = lock(&self.buffers).captured.remove(&graph);
        drop(buffers);
    }
}

impl Buffers {
    /// One of a graph with room.
    fn take_captured(&mut self, graph: usize, stream: &RocmStream) -> HipResult<Buffer> {
        let kept = self.captured.entry(graph).or_default();
        match kept.last() {
            Some(last) if last.used < BUFFER_SIZE => Ok(kept.pop().expect("it is the last")),
            _ => Buffer::new(stream),
        }
    }

    /// One with room: that which was filled last, a new one, or the one that was full earliest.
    fn take(&mut self, stream: &RocmStream) -> HipResult<Buffer> {
        while let Some(buffer) = self.open.pop() {
            if buffer.used < BUFFER_SIZE {
                return Ok(buffer);
            }
            match RocmEvent::record(stream) {
                Ok(read) => self.full.push_back((buffer, read)),
                Err(error) => {
                    self.open.push(buffer);
                    return Err(error);
                }
            }
        }
        if self.full.len() < MAX_BUFFERS {
            return Buffer::new(stream);
        }
        self.full[0].1.synchronize()?;
        let (mut buffer, _) = self.full.pop_front().expect("`MAX_BUFFERS` at least");
        buffer.used = 0;
        Ok(buffer)
    }
}

impl Drop for Filling<'_> {
    fn drop(&mut self) {
        let mut buffers = lock(&self.staging.buffers);
        let buffer = self.buffer.take();
        match self.graph {
            Some(graph) => buffers.captured.entry(graph).or_default().extend(buffer),
            None => buffers.open.extend(buffer),
        }
    }
}

impl Buffer {
    fn new(stream: &RocmStream) -> HipResult<Self> {
        stream.gpu().make_current()?;
        let mut ptr = std::ptr::null_mut();
        // SAFETY: `ptr` lives through the call.
        let status =
            unsafe { api::hipHostMalloc(&mut ptr, BUFFER_SIZE, api::hipHostMallocDefault) };
        check("hipHostMalloc", status)?;
        let ptr = ptr.cast::<u8>();
        // SAFETY: HIP gave us that many bytes.
        unsafe { ptr.write_bytes(0, BUFFER_SIZE) };
        Ok(Self { ptr, used: 0 })
    }

    /// The part that no copy reads.
    fn room(&mut self) -> &mut [u8] {
        // SAFETY: the buffer has `BUFFER_SIZE` bytes, which are initialized. From `used` on, nothing reads it: what did
        // before `used` was 0 has been waited for.
        unsafe {
            let start = self.ptr.add(self.used);
            std::slice::from_raw_parts_mut(start, BUFFER_SIZE - self.used)
        }
    }

    /// Queues a copy of the room's first `length` bytes, which are no room from now on.
    ///
    /// # Safety
    /// `dst` is memory of the stream's GPU, `length` bytes at least, until the copy is done.
    unsafe fn copy(
        &mut self,
        dst: *mut c_void,
        length: usize,
        stream: &RocmStream,
    ) -> HipResult<()> {
        let src = self.room()[..length].as_ptr().cast();
        self.used += length.next_multiple_of(ALIGNMENT);
        stream.gpu().make_current()?;
        let (kind, handle) = (api::hipMemcpyHostToDevice, stream.handle());
        // SAFETY: `dst` by the caller's promise. Bytes before `used` do not change before an event has come that is
        // recorded after this copy, see `take`.
        let status = unsafe { api::hipMemcpyAsync(dst, src, length, kind, handle) };
        check("hipMemcpyAsync", status)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: from `new`; the queue has waited for its stream. A failure means that the runtime is gone.
        let _ = unsafe { api::hipHostFree(self.ptr.cast()) };
    }
}
