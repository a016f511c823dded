//! A stream together with the memory that is used in its order.
use super::allocator::{Allocator, Block};
use super::event::RocmEvent;
use super::gpu::{lock, Gpu};
use super::graph;
use super::hip::HipResult;
use super::parts::QueueParts;
use super::staging::Staging;
use super::stream::RocmStream;
use super::{MemoryStats, RocmError};
use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

/// How many queues there have been.
static QUEUES: AtomicUsize = AtomicUsize::new(0);

/// The stream and memory that equal devices share.
pub(super) struct Queue {
    // Dropped in this order: users of the stream before the stream.
    pub(super) parts: QueueParts,
    staging: Staging,
    pub(super) allocator: Allocator,
    stream: Arc<RocmStream>,
    /// During a capture, the end of what was queued before it.
    before_capture: Mutex<Option<RocmEvent>>,
    /// No other queue has it.
    number: usize,
}

impl Queue {
    /// The GPU's default stream: one queue for as long as somebody has it.
    pub(super) fn shared(gpu: &'static Gpu) -> HipResult<Arc<Self>> {
        let mut queues = gpu.queues();
        let shared = queues
            .iter()
            .filter_map(Weak::upgrade)
            .find(|queue| queue.stream.is_shared());
        if let Some(queue) = shared {
            return Ok(queue);
        }
        register(&mut queues, RocmStream::shared(gpu))
    }

    /// A new stream.
    pub(super) fn own(gpu: &'static Gpu) -> HipResult<Arc<Self>> {
        register(&mut gpu.queues(), RocmStream::new(gpu)?)
    }

    /// A stream of somebody else's. It is not in the GPU's list: who finds a queue there may be the last to have it, and
    /// this stream may end as soon as those for whom it was made have none.
    ///
    /// # Safety
    /// `handle` is a stream of `gpu` and outlives the queue.
    pub(super) unsafe fn external(gpu: &'static Gpu, handle: *mut c_void) -> HipResult<Arc<Self>> {
        // SAFETY: the caller's promise.
        Self::new(unsafe { RocmStream::external(gpu, handle.cast()) })
    }

    fn new(stream: RocmStream) -> HipResult<Arc<Self>> {
        let allocator = Allocator::new(stream.gpu())?;
        Ok(Arc::new_cyclic(|queue| Self {
            parts: QueueParts::default(),
            staging: Staging::default(),
            allocator,
            stream: Arc::new(stream.of_queue(queue)),
            before_capture: Mutex::default(),
            number: QUEUES.fetch_add(1, Ordering::Relaxed),
        }))
    }

    /// Tells the queue from all others of the program.
    pub(super) fn number(&self) -> usize {
        self.number
    }

    pub(super) fn stream(&self) -> &Arc<RocmStream> {
        &self.stream
    }

    /// At least `size` bytes, which is more than 0, for work that is queued on the stream from now on.
    pub(super) fn allocate(&self, size: usize) -> HipResult<Block> {
        self.allocator.allocate(size, &self.stream)
    }

    /// Takes a block back once the stream's work so far and `readers` are done.
    pub(super) fn free(&self, block: Block, readers: Vec<RocmEvent>) {
        self.allocator.free(block, readers, &self.stream);
    }

    /// Work that is queued now uses a block. A graph keeps it, as a later launch does the same.
    pub(super) fn note_use(&self, block: &Block) {
        if self.stream.is_capturing() {
            self.allocator.note_use(block);
        }
    }

    /// Where the allocation of HIP begins that a block is part of.
    pub(super) fn segment_of(&self, block: &Block) -> usize {
        self.allocator.segment_of(block)
    }

    /// From now on memory is that of a graph, whose number this is.
    pub(super) fn begin_capture(&self) -> HipResult<usize> {
        let graph = self.allocator.begin_capture();
        let graph = graph.ok_or("the stream is captured already")?;
        let begun = self.staging.begin_capture(graph, &self.stream);
        begun.inspect_err(|_| self.forget_graph(graph))?;
        Ok(graph)
    }

    /// Notes the end of what was queued before a capture, and returns what was noted.
    pub(super) fn set_before_capture(&self, event: Option<RocmEvent>) -> Option<RocmEvent> {
        std::mem::replace(&mut *lock(&self.before_capture), event)
    }

    /// Lets a new stream of HIP's take the place of one that HIP cannot use any more, after what was queued before `event`.
    pub(super) fn renew_stream(&self, event: &RocmEvent) -> HipResult<()> {
        self.stream.renew(event)?;
        // They have the old one.
        if let Some(workspace) = self.parts.end() {
            self.free(workspace, Vec::new());
        }
        Ok(())
    }

    /// Takes the memory back that only this graph had, which was captured whole or in part.
    pub(super) fn forget_graph(&self, graph: usize) {
        self.staging.forget_graph(graph);
        self.allocator.forget_graph(graph, &self.stream);
    }

    /// Waits for the stream and gives the memory that nobody uses back to the GPU.
    pub(super) fn trim(&self) -> HipResult<()> {
        self.allocator.trim(&self.stream)
    }

    pub(super) fn set_memory_limit(&self, limit: Option<usize>) {
        self.allocator.set_limit(limit);
    }

    pub(super) fn memory_stats(&self) -> MemoryStats {
        self.allocator.stats()
    }

    /// Queues an upload of `size` bytes, which `fill` writes, a piece at a time. The stream is not waited for.
    ///
    /// # Safety
    /// `dst` is memory of the GPU, `size` bytes at least, for as long as the stream's work so far needs it.
    pub(super) unsafe fn upload<E: From<RocmError>>(
        &self,
        dst: *mut c_void,
        size: usize,
        fill: impl FnMut(&mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        // SAFETY: the caller's promise.
        unsafe { self.staging.upload(dst, size, fill, &self.stream) }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        graph::abandon(self);
        // Queued work may still use staging buffers and memory. A failure means that the GPU has stopped working.
        let _ = self.stream.synchronize();
        if let Some(workspace) = self.parts.end() {
            self.free(workspace, Vec::new());
        }
    }
}

/// A queue for a stream, noted in its GPU's list.
fn register(queues: &mut Vec<Weak<Queue>>, stream: RocmStream) -> HipResult<Arc<Queue>> {
    let queue = Queue::new(stream)?;
    queues.retain(|queue| queue.strong_count() > 0);
    queues.push(Arc::downgrade(&queue));
    Ok(queue)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rocm_backend::testing::gpu;

    #[test]
    fn queues_that_have_ended_leave_the_list() -> HipResult<()> {
        if gpu("queues_that_have_ended_leave_the_list").is_none() {
            return Ok(());
        }
        let gpu = Gpu::get(0)?;
        let mut queues = vec![Weak::new()];
        let first = register(&mut queues, RocmStream::new(gpu)?)?;
        assert_eq!(queues.len(), 1);
        let second = register(&mut queues, RocmStream::new(gpu)?)?;
        let both = [&first, &second];
        assert_eq!(queues.len(), 2);
        for (listed, queue) in queues.iter().zip(both) {
            let listed = listed.upgrade().expect("somebody has it");
            assert!(Arc::ptr_eq(&listed, queue));
        }
        drop(first);
        let third = register(&mut queues, RocmStream::new(gpu)?)?;
        assert_eq!(queues.len(), 2);
        for (listed, queue) in queues.iter().zip([&second, &third]) {
            let listed = listed.upgrade().expect("somebody has it");
            assert!(Arc::ptr_eq(&listed, queue));
        }
        Ok(())
    }
}
