//! Events.

use std::ffi::{c_float, c_uint};
use std::sync::{Arc, Mutex};

use api::amdhip64::{
    hipEvent_t, hipEventBlockingSync, hipEventDisableSystemFence, hipEventDisableTiming, hipEventInterprocess,
    hipEventReleaseToDevice, hipEventReleaseToSystem, hipStream_t,
};
use candle_rocm_emulator_runtime::error::{HipError, HipResult};
use candle_rocm_emulator_runtime::machine;
use candle_rocm_emulator_runtime::queue::{Signal, Work};
use record::Done;

use crate::call::{api, must_be_of, store};
use crate::handles::Handles;
use crate::stream;
use crate::unsupported::refuse;

/// What a `hipEvent_t` stands for.
struct Event {
    timed: bool,
    /// Of the last record; none before the first.
    signal: Mutex<Option<Arc<Signal>>>,
}

const KNOWN_FLAGS: [c_uint; 6] = [
    hipEventBlockingSync,
    hipEventDisableTiming,
    hipEventInterprocess,
    hipEventDisableSystemFence,
    hipEventReleaseToDevice,
    hipEventReleaseToSystem,
];

static EVENTS: Handles<Arc<Event>> = Handles::from(0x5800_0001);

/// The event of a handle.
fn event(handle: hipEvent_t) -> HipResult<Arc<Event>> {
    EVENTS.get(handle).ok_or(HipError::INVALID_HANDLE)
}

impl Event {
    fn signal(&self) -> Option<Arc<Signal>> {
        self.signal.lock().expect("no panic while held").clone()
    }
}

unsafe fn create(handle: *mut hipEvent_t, flags: c_uint) -> HipResult {
    must_be_of(&KNOWN_FLAGS, flags)?;
    if handle.is_null() {
        return Err(HipError::INVALID_VALUE);
    }
    let event = Event { timed: flags & hipEventDisableTiming == 0, signal: Mutex::new(None) };
    // SAFETY: the caller's pointer.
    unsafe { store(handle, EVENTS.insert(Arc::new(event))) }
}

fn wait(event: &Event) -> HipResult {
    if let Some(signal) = event.signal() {
        if signal.is_captured() {
            return Err(HipError::CAPTURED_EVENT);
        }
        machine::drive(|_| signal.is_set());
        if signal.time().is_none() {
            return machine::lock().faults.iter().flatten().next().map_or(Ok(()), |fault| Err(*fault));
        }
    }
    Ok(())
}

api! {
    /// Makes an event that takes times.
    fn hipEventCreate(handle: *mut hipEvent_t) {
        // SAFETY: the caller's pointer.
        unsafe { create(handle, 0) }
    }

    /// Makes an event.
    fn hipEventCreateWithFlags(handle: *mut hipEvent_t, flags: c_uint) {
        // SAFETY: the caller's pointer.
        unsafe { create(handle, flags) }
    }

    /// Ends an event. Streams that wait for its last record still do.
    fn hipEventDestroy(handle: hipEvent_t) {
        EVENTS.remove(handle).map(|_| ()).ok_or(HipError::INVALID_HANDLE)
    }

    /// Records what a stream has to do until now.
    fn hipEventRecord(handle: hipEvent_t, stream: hipStream_t) {
        let event = event(handle)?;
        let signal = Arc::new(Signal::default());
        machine::enqueue(stream::resolve(stream)?, Work::Record(Arc::clone(&signal)))?;
        *event.signal.lock().expect("no panic while held") = Some(signal);
        Ok(())
    }

    /// Lets a stream wait for the last record of an event; for nothing if there was none.
    fn hipStreamWaitEvent(stream: hipStream_t, handle: hipEvent_t, flags: c_uint) {
        let event = event(handle)?;
        let stream = stream::resolve(stream)?;
        if flags != 0 {
            return Err(HipError::INVALID_VALUE);
        }
        let Some(signal) = event.signal() else { return Ok(()) };
        if signal.is_captured() && !machine::lock().captures.holds(stream) {
            return refuse("a capture of several streams (hipStreamWaitEvent)");
        }
        machine::enqueue(stream, Work::Wait(signal))
    }

    /// Waits for the last record of an event.
    fn hipEventSynchronize(handle: hipEvent_t) {
        wait(event(handle)?.as_ref())?;
        record::count(Done::Synchronisation);
        Ok(())
    }

    /// Whether the last record of an event has been reached. Asking lets some work be done.
    fn hipEventQuery(handle: hipEvent_t) {
        let Some(signal) = event(handle)?.signal() else { return Ok(()) };
        if signal.is_captured() {
            return Err(HipError::CAPTURED_EVENT);
        }
        if !signal.is_set() {
            machine::step();
        }
        if signal.is_set() { Ok(()) } else { Err(HipError::NOT_READY) }
    }

    /// Milliseconds between the last records of two events. They measure the emulator, not a card.
    fn hipEventElapsedTime(milliseconds: *mut c_float, start: hipEvent_t, stop: hipEvent_t) {
        let (start, stop) = (event(start)?, event(stop)?);
        if !start.timed || !stop.timed {
            return Err(HipError::INVALID_HANDLE);
        }
        let (Some(start), Some(stop)) = (start.signal(), stop.signal()) else { return Err(HipError::INVALID_HANDLE) };
        let (Some(start), Some(stop)) = (start.time(), stop.time()) else { return Err(HipError::NOT_READY) };
        let elapsed = stop.saturating_duration_since(start).as_secs_f32() * 1e3;
        // SAFETY: the caller's pointer.
        unsafe { store(milliseconds, elapsed) }
    }
}
