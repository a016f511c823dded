//! Functions of the program that a stream calls.

use std::ffi::{c_uint, c_void};

use api::amdhip64::{hipHostFn_t, hipStream_t, hipStreamCallback_t, hipSuccess};
use candle_rocm_emulator_runtime::error::{HipError, HipResult};
use candle_rocm_emulator_runtime::machine;
use candle_rocm_emulator_runtime::memory::guard;
use candle_rocm_emulator_runtime::queue::{Action, Work};

use crate::call::api;
use crate::stream;

/// A pointer that is the program's affair.
struct UserData(*mut c_void);

// SAFETY: the program is told that the function may run on any thread.
unsafe impl Send for UserData {}
// SAFETY: as above.
unsafe impl Sync for UserData {}

fn enqueue(
    stream: hipStream_t,
    data: *mut c_void,
    function: impl Fn(*mut c_void) + Send + Sync + 'static,
) -> HipResult {
    let data = UserData(data);
    let action = move || {
        // All of it, so that what is sent is the wrapper.
        let UserData(data) = &data;
        guard::outside(|| function(*data));
        Ok(())
    };
    machine::enqueue(stream::resolve(stream)?, Work::Run(Action::new(action)))
}

api! {
    /// Calls a function when the stream gets there; not at all after a fault.
    fn hipLaunchHostFunc(stream: hipStream_t, function: hipHostFn_t, user_data: *mut c_void) {
        let function = function.ok_or(HipError::INVALID_VALUE)?;
        // SAFETY: the program's function with the data that it is for.
        enqueue(stream, user_data, move |data| unsafe { function(data) })
    }

    /// Calls a function with the stream and its status when the stream gets there; not at all after a fault.
    fn hipStreamAddCallback(
        stream: hipStream_t,
        callback: hipStreamCallback_t,
        user_data: *mut c_void,
        flags: c_uint,
    ) {
        let callback = callback.filter(|_| flags == 0).ok_or(HipError::INVALID_VALUE)?;
        let handle = stream.addr();
        enqueue(stream, user_data, move |data| {
            // SAFETY: the program's function with the data that it is for.
            unsafe { callback(std::ptr::without_provenance_mut(handle), hipSuccess, data) }
        })
    }
}
