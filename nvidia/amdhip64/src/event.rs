//! Events; HIP has the driver's flags.

use std::ffi::c_uint;

use api::amdhip64::*;
use record::Done;

use crate::call::{api, check};
use crate::context::enter;

/// The flags that the driver has too: to block, not to time, between processes.
const SHARED_FLAGS: c_uint = 7;

api! {
    /// Makes an event.
    fn hipEventCreate(event: *mut hipEvent_t) {
        // SAFETY: the caller's pointer.
        check(unsafe { enter()?.event_create(event.cast(), hipEventDefault) })
    }

    /// Makes an event.
    fn hipEventCreateWithFlags(event: *mut hipEvent_t, flags: c_uint) {
        // SAFETY: the caller's pointer.
        check(unsafe { enter()?.event_create(event.cast(), flags & SHARED_FLAGS) })
    }

    /// Ends an event.
    fn hipEventDestroy(event: hipEvent_t) {
        // SAFETY: the caller's handle.
        check(unsafe { enter()?.event_destroy(event.cast()) })
    }

    /// Records an event on a stream.
    fn hipEventRecord(event: hipEvent_t, stream: hipStream_t) {
        // SAFETY: the caller's handles.
        check(unsafe { enter()?.event_record(event.cast(), stream.cast()) })
    }

    /// Whether an event has come.
    fn hipEventQuery(event: hipEvent_t) {
        // SAFETY: the caller's handle.
        check(unsafe { enter()?.event_query(event.cast()) })
    }

    /// Waits for an event.
    fn hipEventSynchronize(event: hipEvent_t) {
        // SAFETY: the caller's handle.
        check(unsafe { enter()?.event_synchronize(event.cast()) })?;
        record::count(Done::Synchronisation);
        Ok(())
    }

    /// Milliseconds between two events.
    fn hipEventElapsedTime(ms: *mut f32, start: hipEvent_t, stop: hipEvent_t) {
        // SAFETY: the caller's pointer and handles.
        check(unsafe { enter()?.event_elapsed(ms, start.cast(), stop.cast()) })
    }
}
