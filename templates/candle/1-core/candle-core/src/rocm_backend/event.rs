//! Marks in the work of a stream.
use super::api;
use super::hip::{check, HipResult};
use super::stream::RocmStream;

/// The moment when everything that a stream had queued is done: `RocmStream::record_event` makes one, and other streams
/// wait for it with `RocmStream::wait`.
#[derive(Debug)]
pub struct RocmEvent {
    handle: api::hipEvent_t,
}

// SAFETY: HIP's event functions may be called from any thread, and the handle is destroyed once, in `drop`.
unsafe impl Send for RocmEvent {}
// SAFETY: as above.
unsafe impl Sync for RocmEvent {}

impl RocmEvent {
    /// The end of what is queued on a stream now.
    pub(super) fn record(stream: &RocmStream) -> HipResult<Self> {
        stream.gpu().make_current()?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: `handle` lives through the call. Events without times cost less.
        let status =
            unsafe { api::hipEventCreateWithFlags(&mut handle, api::hipEventDisableTiming) };
        check("hipEventCreateWithFlags", status)?;
        let event = Self { handle };
        // SAFETY: both handles are valid, and of the current GPU.
        let status = unsafe { api::hipEventRecord(event.handle, stream.handle()) };
        check("hipEventRecord", status)?;
        Ok(event)
    }

    pub(super) fn handle(&self) -> api::hipEvent_t {
        self.handle
    }

    /// Whether it has come, without waiting.
    pub fn is_done(&self) -> HipResult<bool> {
        // SAFETY: the handle is valid until `drop`.
        let status = unsafe { api::hipEventQuery(self.handle) };
        if status == api::hipErrorNotReady {
            return Ok(false);
        }
        check("hipEventQuery", status)?;
        Ok(true)
    }

    /// As `is_done`, where no answer means that it has not come.
    pub(super) fn has_come(&self) -> bool {
        self.is_done().unwrap_or(false)
    }

    /// Waits for it on the host.
    pub fn synchronize(&self) -> HipResult<()> {
        // SAFETY: the handle is valid until `drop`.
        let status = unsafe { api::hipEventSynchronize(self.handle) };
        check("hipEventSynchronize", status)
    }
}

impl Drop for RocmEvent {
    fn drop(&mut self) {
        // SAFETY: created by `record`, and nobody has it any more; streams that wait for it still do. A failure means
        // that the runtime is gone, and the event with it.
        let _ = unsafe { api::hipEventDestroy(self.handle) };
    }
}
