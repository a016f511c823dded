//! What every exported function does before and after its own work.

use std::cell::Cell;
use std::ffi::c_uint;
use std::panic::{AssertUnwindSafe, catch_unwind};

use api::amdhip64::{hipError_t, hipSuccess};
use candle_rocm_emulator_runtime::calls;
use candle_rocm_emulator_runtime::error::{HipError, HipResult};
use candle_rocm_emulator_runtime::settings::settings;

use crate::recorded;

thread_local! {
    static LAST_ERROR: Cell<hipError_t> = const { Cell::new(hipSuccess) };
}

/// The error code of this thread's last call that failed; zero if none did since it was asked for with `forget`.
pub fn last_error(forget: bool) -> hipError_t {
    if forget { LAST_ERROR.replace(hipSuccess) } else { LAST_ERROR.get() }
}

/// What needs no device to be there.
const WITHOUT_DEVICE: [&str; 4] = ["hipDriverGetVersion", "hipGetDeviceCount", "hipInit", "hipRuntimeGetVersion"];

/// Checks that a function has what it needs.
///
/// # Errors
/// `hipErrorNotInitialized` if the environment is wrong, `hipErrorNoDevice` if it shows no device.
fn has_device(function: &str) -> HipResult {
    match settings() {
        settings if settings.wrong => Err(HipError::NOT_INITIALIZED),
        settings if settings.devices.is_empty() && !WITHOUT_DEVICE.contains(&function) => Err(HipError::NO_DEVICE),
        _ => Ok(()),
    }
}

/// Runs the body of an exported function: traced, made to fail if a test wants it, and with no panic leaving it.
pub fn call(function: &str, arguments: impl FnOnce() -> String, body: impl FnOnce() -> HipResult) -> hipError_t {
    let guarded = AssertUnwindSafe(|| {
        recorded::start();
        match calls::begin(function, arguments) {
            Some(0) | None => has_device(function).and_then(|()| body()),
            Some(code) => Err(HipError(code as u32)),
        }
    });
    // The panic's own message is on standard error by now.
    let result = catch_unwind(guarded).unwrap_or(Err(HipError::UNKNOWN));
    match result {
        Ok(()) => hipSuccess,
        // That work is not ready is an answer, not an error to remember.
        Err(HipError::NOT_READY) => HipError::NOT_READY.0,
        Err(HipError(code)) => {
            LAST_ERROR.set(code);
            code
        }
    }
}

/// Defines exported functions that return a `hipError_t`, with the signatures that the real library gives them.
macro_rules! api {
    ($($(#[$attribute:meta])* fn $name:ident($($argument:ident: $type:ty),* $(,)?) $body:block)*) => {$(
        $(#[$attribute])*
        ///
        /// # Safety
        /// As the function of the same name in HIP.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> api::amdhip64::hipError_t {
            crate::call::call(
                stringify!($name),
                || {
                    let arguments: &[String] = &[$(format!(concat!(stringify!($argument), "={:?}"), $argument)),*];
                    arguments.join(", ")
                },
                || $body,
            )
        }
    )*
    api::implements!(amdhip64: $($name),*);
    };
}
pub(crate) use api;

/// Checks that flags have no bit but those of the known ones.
///
/// # Errors
/// `hipErrorInvalidValue`.
pub fn must_be_of(known: &[c_uint], flags: c_uint) -> HipResult {
    match known.iter().fold(flags, |left, flag| left & !flag) {
        0 => Ok(()),
        _ => Err(HipError::INVALID_VALUE),
    }
}

/// Writes a result through a pointer that the caller gave.
///
/// # Errors
/// `hipErrorInvalidValue` for a null pointer.
///
/// # Safety
/// The pointer is null or valid for a write.
pub unsafe fn store<T>(pointer: *mut T, value: T) -> HipResult {
    if pointer.is_null() {
        return Err(HipError::INVALID_VALUE);
    }
    // SAFETY: by contract.
    unsafe { pointer.write(value) };
    Ok(())
}
