//! Streams; null, legacy and per-thread streams are the same values for the driver.

use std::ffi::c_uint;

use api::amdhip64::*;
use record::Done;

use crate::call::{api, check};
use crate::context::enter;

api! {
    /// Makes a stream.
    fn hipStreamCreate(stream: *mut hipStream_t) {
        // SAFETY: the caller's pointer.
        check(unsafe { enter()?.stream_create(stream.cast(), hipStreamDefault) })
    }

    /// Makes a stream; the flags are the driver's.
    fn hipStreamCreateWithFlags(stream: *mut hipStream_t, flags: c_uint) {
        // SAFETY: the caller's pointer.
        check(unsafe { enter()?.stream_create(stream.cast(), flags) })
    }

    /// Ends a stream once its work is done.
    fn hipStreamDestroy(stream: hipStream_t) {
        // SAFETY: the caller's handle.
        check(unsafe { enter()?.stream_destroy(stream.cast()) })
    }

    /// Whether a stream's work is done.
    fn hipStreamQuery(stream: hipStream_t) {
        // SAFETY: the caller's handle.
        check(unsafe { enter()?.stream_query(stream.cast()) })
    }

    /// Waits for a stream's work.
    fn hipStreamSynchronize(stream: hipStream_t) {
        // SAFETY: the caller's handle.
        check(unsafe { enter()?.stream_synchronize(stream.cast()) })?;
        record::count(Done::Synchronisation);
        Ok(())
    }

    /// Makes a stream wait for an event.
    fn hipStreamWaitEvent(stream: hipStream_t, event: hipEvent_t, flags: c_uint) {
        // SAFETY: the caller's handles.
        check(unsafe { enter()?.stream_wait_event(stream.cast(), event.cast(), flags) })
    }
}
