//! The memory of one queue: segments from HIP, cut into blocks by a `Pool`.
//!
//! A block that is given back can be used again at once, without a HIP call: what used it was queued on the stream
//! before, and what will use it is queued later. Only what other streams still read has to wait, in `deferred`.
//!
//! `CANDLE_ROCM_ALLOCATOR=direct` makes every block an allocation of its own, for tools that watch memory accesses.
mod captures;
mod pool;
#[cfg(test)]
mod tests;

use super::event::RocmEvent;
use super::gpu::{lock, Gpu};
use super::hip::{check, forget_last_error, HipResult};
use super::stream::RocmStream;
use super::{api, MemoryStats, RocmError};
use captures::Captures;
pub(super) use pool::Block;
use pool::{Policy, Pool, Segment};
use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, Weak};

const POLICY_VARIABLE: &str = "CANDLE_ROCM_ALLOCATOR";

/// Takes the stream of its queue with each call that may have to wait for it.
pub(super) struct Allocator {
    gpu: &'static Gpu,
    pool: Mutex<Pool>,
    deferred: Mutex<Vec<Deferred>>,
    /// Locked before `pool`.
    captures: Mutex<Captures>,
    /// How many there are, that which is captured included: without any, nobody asks `captures`.
    graphs: AtomicUsize,
    /// Of `pool`: a segment that was to be given back to the GPU has gone, or is in the pool again.
    released: Condvar,
}

/// A block that nobody has any more, and the work on other streams that still reads it.
struct Deferred {
    block: Block,
    readers: Vec<RocmEvent>,
}

impl Allocator {
    pub(super) fn new(gpu: &'static Gpu) -> HipResult<Self> {
        Ok(Self {
            gpu,
            pool: Mutex::new(Pool::new(policy()?)),
            deferred: Mutex::default(),
            captures: Mutex::default(),
            graphs: AtomicUsize::new(0),
            released: Condvar::new(),
        })
    }

    /// At least `size` bytes, which is more than 0. Where the GPU or the limit has no more, cached memory is given back
    /// first: that of the GPU's other queues too if it is the GPU, but for those on streams of the program's other code.
    pub(super) fn allocate(&self, size: usize, stream: &RocmStream) -> HipResult<Block> {
        if self.graphs.load(Ordering::Acquire) > 0 {
            let captures = lock(&self.captures);
            if captures.is_open() {
                return self.allocate_captured(captures, size);
            }
        }
        if let Some(block) = self.pool().take(size) {
            return Ok(block);
        }
        self.reclaim(stream)?;
        if let Some(block) = self.pool().take(size) {
            return Ok(block);
        }
        let surplus = self.pool().remove_surplus(size);
        self.release(surplus, stream)?;
        match self.grow(size) {
            Err(RocmError::OutOfMemory { .. }) => {
                self.trim(stream)?;
                self.trim_others()?;
            }
            Err(RocmError::MemoryLimit { .. }) => self.trim(stream)?,
            grown => return grown,
        }
        if let Some(block) = self.pool().take(size) {
            return Ok(block);
        }
        self.grow(size)
    }

    /// As `allocate` for work that is captured: nothing is waited for, and nothing given back to the GPU.
    fn allocate_captured(
        &self,
        mut captures: MutexGuard<'_, Captures>,
        size: usize,
    ) -> HipResult<Block> {
        if let Some(block) = captures.reuse(size, &self.pool()) {
            return Ok(block);
        }
        let taken = self.pool().take(size);
        let block = taken.map_or_else(|| self.grow(size), Ok)?;
        captures.allocated(&block);
        Ok(block)
    }

    /// From now on blocks are those of a graph, whose number this is. None if one is captured already.
    pub(super) fn begin_capture(&self) -> Option<usize> {
        let graph = lock(&self.captures).begin();
        self.graphs
            .fetch_add(graph.is_some().into(), Ordering::Release);
        graph
    }

    /// Work that is captured now uses a block, which is the graph's from now on.
    pub(super) fn note_use(&self, block: &Block) {
        lock(&self.captures).note(block);
    }

    pub(super) fn end_capture(&self) {
        lock(&self.captures).end();
    }

    /// Takes the blocks back that only this graph had, which was captured whole or in part.
    pub(super) fn forget_graph(&self, graph: usize, stream: &RocmStream) {
        let blocks = lock(&self.captures).forget(graph);
        self.graphs.fetch_sub(1, Ordering::Release);
        for Deferred { block, readers } in blocks {
            self.free(block, readers, stream);
        }
    }

    /// Takes a block back, to be used again by work that is queued from now on, or once `readers` have come.
    pub(super) fn free(&self, block: Block, readers: Vec<RocmEvent>, stream: &RocmStream) {
        let mut given = Some(Deferred { block, readers });
        if self.graphs.load(Ordering::Acquire) > 0 {
            given = given.and_then(|given| lock(&self.captures).keep(given));
        }
        let Some(Deferred { block, readers }) = given else {
            return;
        };
        if !readers.is_empty() {
            lock(&self.deferred).push(Deferred { block, readers });
            return;
        }
        let unwanted = self.pool().give(block);
        // Should this fail, the segments are in the pool again, for the next attempt.
        let _ = self.release(unwanted, stream);
    }

    /// Where the allocation of HIP begins that a block is part of.
    pub(super) fn segment_of(&self, block: &Block) -> usize {
        self.pool().segment_of(block)
    }

    /// Waits for the stream and for readers on other streams, and gives the memory that nobody uses back to the GPU.
    /// Memory that other threads are freeing is released, too, when this returns.
    pub(super) fn trim(&self, stream: &RocmStream) -> HipResult<()> {
        self.wait_for_readers(stream)?;
        let idle = self.pool().remove_idle();
        self.release(idle, stream)?;
        let busy = |pool: &mut Pool| pool.is_releasing();
        let others = self.released.wait_while(self.pool(), busy);
        drop(others.unwrap_or_else(PoisonError::into_inner));
        Ok(())
    }

    /// From now on `allocate` fails rather than hold more bytes.
    pub(super) fn set_limit(&self, limit: Option<usize>) {
        self.pool().set_limit(limit);
    }

    pub(super) fn stats(&self) -> MemoryStats {
        self.pool().stats()
    }

    fn pool(&self) -> MutexGuard<'_, Pool> {
        lock(&self.pool)
    }

    /// A block of a new segment.
    fn grow(&self, size: usize) -> HipResult<Block> {
        // Not under the lock: other threads go on while the runtime allocates.
        let bytes = self.pool().reserve(size)?;
        match self.malloc(bytes) {
            Ok(address) => Ok(self.pool().add(address, bytes, size)),
            Err(error) => {
                self.pool().cancel(bytes);
                Err(error)
            }
        }
    }

    fn malloc(&self, bytes: usize) -> HipResult<usize> {
        self.gpu.make_current()?;
        let mut ptr = std::ptr::null_mut();
        // SAFETY: `ptr` lives through the call.
        let status = unsafe { api::hipMalloc(&mut ptr, bytes) };
        if status == api::hipErrorOutOfMemory {
            forget_last_error();
            return Err(RocmError::OutOfMemory {
                requested: bytes,
                free: self.gpu.free_memory()?,
                total: self.gpu.properties().total_memory,
            });
        }
        check("hipMalloc", status)?;
        Ok(ptr as usize)
    }

    /// Gives segments back to the GPU. Those that could not be are in the pool again.
    fn release(&self, segments: Vec<Segment>, stream: &RocmStream) -> HipResult<()> {
        if segments.is_empty() {
            return Ok(());
        }
        let mut result = stream.synchronize();
        for segment in segments {
            if result.is_ok() {
                // SAFETY: nobody has a block of the segment, and what the stream did with it is done.
                result = unsafe { free_segment(&segment) };
            }
            let mut pool = self.pool();
            match result {
                Ok(()) => pool.forget(segment),
                Err(_) => pool.restore(segment),
            }
        }
        self.released.notify_all();
        result
    }

    /// Gives deferred blocks whose readers are done back to the pool. Other threads find them there or here.
    fn reclaim(&self, stream: &RocmStream) -> HipResult<()> {
        let mut deferred = lock(&self.deferred);
        if deferred.is_empty() {
            return Ok(());
        }
        let (done, waiting): (Vec<_>, Vec<_>) = std::mem::take(&mut *deferred)
            .into_iter()
            .partition(|block| block.readers.iter().all(RocmEvent::has_come));
        *deferred = waiting;
        let mut pool = self.pool();
        let unwanted = done.into_iter().flat_map(|done| pool.give(done.block));
        let unwanted = unwanted.collect();
        drop(pool);
        drop(deferred);
        self.release(unwanted, stream)
    }

    fn wait_for_readers(&self, stream: &RocmStream) -> HipResult<()> {
        let deferred = lock(&self.deferred);
        let mut readers = deferred.iter().flat_map(|block| &block.readers);
        readers.try_for_each(RocmEvent::synchronize)?;
        drop(deferred);
        self.reclaim(stream)
    }

    /// As `trim`, for the queues in the GPU's list.
    pub(super) fn trim_others(&self) -> HipResult<()> {
        let queues: Vec<_> = self.gpu.queues().iter().filter_map(Weak::upgrade).collect();
        let mut idle = queues.iter().filter(|queue| !queue.stream().is_capturing());
        idle.try_for_each(|queue| queue.trim())
    }
}

impl Drop for Allocator {
    fn drop(&mut self) {
        // The queue has waited for its stream. Whatever fails here means that the GPU has stopped working, or that the
        // runtime is gone, and the memory with it.
        let mut segments = Vec::new();
        for Deferred { block, readers } in std::mem::take(&mut *lock(&self.deferred)) {
            for reader in readers {
                let _ = reader.synchronize();
            }
            segments.append(&mut self.pool().give(block));
        }
        segments.append(&mut self.pool().remove_idle());
        for segment in segments {
            // SAFETY: every block is back, since each keeps the queue alive, and what used it is done.
            let _ = unsafe { free_segment(&segment) };
        }
    }
}

/// # Safety
/// The segment is from `malloc`, and nothing uses it any more.
unsafe fn free_segment(segment: &Segment) -> HipResult<()> {
    // SAFETY: the caller's promise.
    let status = unsafe { api::hipFree(segment.address as *mut c_void) };
    check("hipFree", status)
}

/// The policy that the environment sets.
fn policy() -> HipResult<Policy> {
    policy_of(std::env::var(POLICY_VARIABLE).ok().as_deref())
}

/// In the crate's own tests every block is an allocation of its own, so that a device that watches memory sees a byte too
/// many.
fn policy_of(value: Option<&str>) -> HipResult<Policy> {
    match value {
        None if cfg!(test) => Ok(Policy::Direct),
        None | Some("" | "caching") => Ok(Policy::Caching),
        Some("direct") => Ok(Policy::Direct),
        Some(other) => Err(RocmError::Other(format!(
            "{POLICY_VARIABLE} is `{other}`: expected `caching` or `direct`"
        ))),
    }
}
