//! The order in which a GPU does its work.
use super::api;
use super::event::RocmEvent;
use super::gpu::{lock, Gpu};
use super::hip::{check, HipResult};
use super::queue::Queue;
use std::ffi::c_void;
use std::hash::{Hash, Hasher};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

/// A stream of a GPU: its default one, one of our own, or one of the program's other code.
///
/// It is `Send` and `Sync`, since HIP takes calls for a stream from any thread.
pub struct RocmStream {
    /// What an `hipStream_t` points to; null for the default stream.
    handle: AtomicPtr<c_void>,
    /// Handles that it had before, which other threads may be using.
    spent: Mutex<Vec<Spent>>,
    gpu: &'static Gpu,
    /// Whether it ends with this value.
    own: bool,
    /// Whose it is, for as long as there is a device.
    queue: Weak<Queue>,
    /// The allocator's number of the graph for which it is captured, 0 for none.
    captured: AtomicUsize,
}

/// A stream of HIP's that HIP can use no more.
struct Spent(api::hipStream_t);

// SAFETY: HIP's stream functions may be called from any thread, and the handle is destroyed once, in `drop`.
unsafe impl Send for Spent {}

impl Drop for Spent {
    fn drop(&mut self) {
        // SAFETY: it was made by `created`, and nobody has it any more. HIP finishes what is queued. A failure means that
        // the runtime is gone, and the stream with it.
        let _ = unsafe { api::hipStreamDestroy(self.0) };
    }
}

/// A new stream that does not wait for the default one.
fn created(gpu: &'static Gpu) -> HipResult<api::hipStream_t> {
    gpu.make_current()?;
    let mut handle = null_mut();
    // SAFETY: `handle` lives through the call.
    let status = unsafe { api::hipStreamCreateWithFlags(&mut handle, api::hipStreamNonBlocking) };
    check("hipStreamCreateWithFlags", status)?;
    Ok(handle)
}

impl RocmStream {
    /// The stream that all users of the GPU share.
    pub(super) fn shared(gpu: &'static Gpu) -> Self {
        Self::of(gpu, null_mut(), false)
    }

    /// A new stream that does not wait for the default one.
    pub(super) fn new(gpu: &'static Gpu) -> HipResult<Self> {
        Ok(Self::of(gpu, created(gpu)?, true))
    }

    /// A stream that somebody else made.
    ///
    /// # Safety
    /// The handle is null, or a stream of `gpu` that outlives this value.
    pub(super) unsafe fn external(gpu: &'static Gpu, handle: api::hipStream_t) -> Self {
        Self::of(gpu, handle, false)
    }

    fn of(gpu: &'static Gpu, handle: api::hipStream_t, own: bool) -> Self {
        Self {
            handle: AtomicPtr::new(handle.cast()),
            spent: Mutex::default(),
            gpu,
            own,
            queue: Weak::new(),
            captured: AtomicUsize::new(0),
        }
    }

    /// The same stream as a part of a queue.
    pub(super) fn of_queue(mut self, queue: &Weak<Queue>) -> Self {
        self.queue = queue.clone();
        self
    }

    pub(super) fn queue(&self) -> HipResult<Arc<Queue>> {
        let queue = self.queue.upgrade();
        queue.ok_or_else(|| "the stream's device has ended".into())
    }

    /// The graph for which it is captured.
    pub(super) fn captured(&self) -> Option<usize> {
        Some(self.captured.load(Ordering::Acquire)).filter(|graph| *graph != 0)
    }

    pub(super) fn set_captured(&self, graph: Option<usize>) {
        self.captured.store(graph.unwrap_or(0), Ordering::Release);
    }

    pub(super) fn gpu(&self) -> &'static Gpu {
        self.gpu
    }

    /// For HIP calls, which must come while this value lives and its GPU is current.
    pub(super) fn handle(&self) -> api::hipStream_t {
        self.handle.load(Ordering::Acquire).cast()
    }

    pub(super) fn is_shared(&self) -> bool {
        self.handle().is_null()
    }

    /// Lets a new stream of HIP's take the place of its own one, after what was queued before `event`.
    pub(super) fn renew(&self, event: &RocmEvent) -> HipResult<()> {
        if !self.own {
            return Err(
                "HIP cannot use the stream any more, and it is not the device's own".into(),
            );
        }
        let old = self
            .handle
            .swap(created(self.gpu)?.cast(), Ordering::AcqRel);
        lock(&self.spent).push(Spent(old.cast()));
        self.wait(event)
    }

    /// Its `hipStream_t`, null for the default stream. It is valid as long as this value exists, and another after a
    /// capture that has failed.
    pub fn hip_stream(&self) -> *mut c_void {
        self.handle.load(Ordering::Acquire)
    }

    /// Its GPU's number among those that the runtime can see, from 0.
    pub fn ordinal(&self) -> usize {
        self.gpu.ordinal()
    }

    /// Waits on the host until everything queued so far is done.
    pub fn synchronize(&self) -> HipResult<()> {
        self.refuse_capture("a wait for the stream")?;
        self.gpu.make_current()?;
        // SAFETY: the handle is valid until `drop`, and null names the current GPU's default stream.
        let status = unsafe { api::hipStreamSynchronize(self.handle()) };
        check("hipStreamSynchronize", status)?;
        self.queue
            .upgrade()
            .map_or(Ok(()), |queue| queue.parts.check())
    }

    /// The end of what is queued on the stream now.
    pub fn record_event(&self) -> HipResult<RocmEvent> {
        RocmEvent::record(self)
    }

    /// Lets what is queued from now on wait for an event of any stream or GPU. The host goes on.
    ///
    /// During a capture, the event must be one of work that is captured, too: HIP 7.2 takes any other, and forgets it.
    pub fn wait(&self, event: &RocmEvent) -> HipResult<()> {
        self.gpu.make_current()?;
        // SAFETY: both handles are valid, and HIP keeps what it needs of the event should it be dropped.
        let status = unsafe { api::hipStreamWaitEvent(self.handle(), event.handle(), 0) };
        check("hipStreamWaitEvent", status)
    }

    /// Lets what is queued from now on wait for what another stream has queued. The host goes on.
    pub fn join(&self, other: &RocmStream) -> HipResult<()> {
        self.wait(&other.record_event()?)
    }
}

impl std::fmt::Debug for RocmStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RocmStream({:?} of {})", self.handle(), self.ordinal())
    }
}

impl Drop for RocmStream {
    fn drop(&mut self) {
        if self.own {
            drop(Spent(self.handle()));
        }
    }
}

impl PartialEq for RocmStream {
    fn eq(&self, other: &Self) -> bool {
        (self.gpu.ordinal(), self.handle()) == (other.gpu.ordinal(), other.handle())
    }
}

impl Eq for RocmStream {}

impl Hash for RocmStream {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.gpu.ordinal(), self.handle()).hash(state);
    }
}
