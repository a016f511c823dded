//! What a stream says about itself.

use std::ffi::{c_int, c_uint};

use api::amdhip64::{hipDevice_t, hipStream_t, hipStreamDefault, hipStreamNonBlocking};
use candle_rocm_emulator_runtime::error::{HipError, HipResult};
use candle_rocm_emulator_runtime::machine;
use candle_rocm_emulator_runtime::queue::StreamId;

use crate::call::{api, store};
use crate::stream;

/// From the least to the greatest, which are small numbers.
const PRIORITIES: (c_int, c_int) = (1, -1);

fn properties(stream: hipStream_t) -> HipResult<(bool, c_int)> {
    let id = stream::resolve(stream)?;
    machine::lock().queues.properties(id).ok_or(HipError::INVALID_HANDLE)
}

api! {
    /// The least and the greatest priority; a null pointer is left out.
    fn hipDeviceGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) {
        for (pointer, priority) in [(least, PRIORITIES.0), (greatest, PRIORITIES.1)] {
            if !pointer.is_null() {
                // SAFETY: the caller's pointer.
                unsafe { pointer.write(priority) };
            }
        }
        Ok(())
    }

    /// Makes a stream with a priority, the nearest that there is. It does not change when its work is done.
    fn hipStreamCreateWithPriority(stream: *mut hipStream_t, flags: c_uint, priority: c_int) {
        // SAFETY: the caller's pointer.
        let id = unsafe { stream::create(stream, flags) }?;
        machine::lock().queues.set_priority(id, priority.clamp(PRIORITIES.1, PRIORITIES.0));
        Ok(())
    }

    /// The priority of a stream.
    fn hipStreamGetPriority(stream: hipStream_t, priority: *mut c_int) {
        // SAFETY: the caller's pointer.
        unsafe { store(priority, properties(stream)?.1) }
    }

    /// Whether a stream keeps order with the null stream.
    fn hipStreamGetFlags(stream: hipStream_t, flags: *mut c_uint) {
        let keeps_order = properties(stream)?.0 || matches!(stream::resolve(stream)?, StreamId::Null(_));
        // SAFETY: the caller's pointer.
        unsafe { store(flags, if keeps_order { hipStreamDefault } else { hipStreamNonBlocking }) }
    }

    /// The device of a stream.
    fn hipStreamGetDevice(stream: hipStream_t, device: *mut hipDevice_t) {
        let id = stream::resolve(stream)?;
        let index = machine::lock().queues.device_of(id).ok_or(HipError::INVALID_HANDLE)?;
        // SAFETY: the caller's pointer.
        unsafe { store(device, index as hipDevice_t) }
    }
}
