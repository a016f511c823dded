//! Streams.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::c_uint;

use api::amdhip64::{hipStream_t, hipStreamLegacy, hipStreamNonBlocking, hipStreamPerThread};
use candle_rocm_emulator_runtime::error::{HipError, HipResult};
use candle_rocm_emulator_runtime::machine::{self, current_device};
use candle_rocm_emulator_runtime::queue::StreamId;
use record::Done;

use crate::call::{api, store};

/// Handles are odd numbers from this on, which no object has as its address.
const FIRST_HANDLE: usize = 0x5000_0001;

thread_local! {
    /// The calling thread's own stream on each device.
    static PER_THREAD_STREAMS: RefCell<HashMap<usize, StreamId>> = RefCell::default();
}

fn handle(id: StreamId) -> hipStream_t {
    match id {
        StreamId::Null(_) => std::ptr::null_mut(),
        StreamId::Created(number) => (FIRST_HANDLE + 2 * number as usize) as hipStream_t,
    }
}

/// The stream of a handle.
///
/// # Errors
/// `hipErrorInvalidHandle` if there is none.
pub fn resolve(stream: hipStream_t) -> HipResult<StreamId> {
    let id = match stream {
        _ if stream.is_null() || stream == hipStreamLegacy => StreamId::Null(current_device()),
        _ if stream == hipStreamPerThread => per_thread(current_device()),
        _ => {
            let number = (stream as usize)
                .checked_sub(FIRST_HANDLE)
                .filter(|offset| offset % 2 == 0)
                .map(|offset| offset as u64 / 2);
            StreamId::Created(number.ok_or(HipError::INVALID_HANDLE)?)
        }
    };
    machine::lock().queues.device_of(id).map(|_| id).ok_or(HipError::INVALID_HANDLE)
}

fn per_thread(device: usize) -> StreamId {
    let create = || machine::lock().queues.create(device, true);
    PER_THREAD_STREAMS.with_borrow_mut(|streams| *streams.entry(device).or_insert_with(create))
}

/// Makes a stream and writes its handle.
///
/// # Errors
/// `hipErrorInvalidValue` for flags that there are none of or a null pointer.
///
/// # Safety
/// The pointer is null or valid for a write.
pub unsafe fn create(stream: *mut hipStream_t, flags: c_uint) -> HipResult<StreamId> {
    if flags & !hipStreamNonBlocking != 0 || stream.is_null() {
        return Err(HipError::INVALID_VALUE);
    }
    let id = machine::lock().queues.create(current_device(), flags & hipStreamNonBlocking == 0);
    // SAFETY: by contract.
    unsafe { store(stream, handle(id)) }?;
    Ok(id)
}

api! {
    /// Makes a stream that keeps order with the legacy default stream.
    fn hipStreamCreate(stream: *mut hipStream_t) {
        // SAFETY: the caller's pointer.
        unsafe { create(stream, 0) }.map(|_| ())
    }

    /// Makes a stream.
    fn hipStreamCreateWithFlags(stream: *mut hipStream_t, flags: c_uint) {
        // SAFETY: the caller's pointer.
        unsafe { create(stream, flags) }.map(|_| ())
    }

    /// Ends a stream once its work is done.
    fn hipStreamDestroy(stream: hipStream_t) {
        let id = resolve(stream)?;
        let (StreamId::Created(_), false) = (id, stream == hipStreamPerThread) else {
            return Err(HipError::INVALID_HANDLE);
        };
        machine::lock().captures.abandon(id);
        // A fault belongs to the work, not to this call.
        let _ = machine::synchronize_stream(id);
        machine::lock().queues.destroy(id);
        Ok(())
    }

    /// Waits for a stream.
    fn hipStreamSynchronize(stream: hipStream_t) {
        machine::synchronize_stream(resolve(stream)?)?;
        record::count(Done::Synchronisation);
        Ok(())
    }

    /// Whether a stream is done. Asking lets some work be done, so that asking again and again ends.
    fn hipStreamQuery(stream: hipStream_t) {
        let id = resolve(stream)?;
        machine::lock().captures.ask(|captured, _| captured == id)?;
        machine::step();
        let machine = machine::lock();
        machine.healthy(machine.queues.device_of(id).ok_or(HipError::INVALID_HANDLE)?)?;
        let done = machine.queues.is_past(id, machine.queues.last_place());
        if done { Ok(()) } else { Err(HipError::NOT_READY) }
    }

    /// Waits for all streams of the current device.
    fn hipDeviceSynchronize() {
        machine::synchronize_device(current_device())?;
        record::count(Done::Synchronisation);
        Ok(())
    }
}
