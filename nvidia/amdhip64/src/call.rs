//! What every exported function does around its own work.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use api::amdhip64::{STATUS_NAMES, hipError_t, hipErrorUnknown, hipSuccess};
use api::names;
use cuda::DriverResult;

use crate::recorded;

thread_local! {
    static LAST_ERROR: Cell<hipError_t> = const { Cell::new(hipSuccess) };
}

/// What a function answers: nothing more to say, or a status other than success.
pub type Status<T = ()> = Result<T, hipError_t>;

/// The driver's answer as HIP's: HIP has taken over the driver's numbers.
///
/// # Errors
/// Any other than success.
pub fn check(result: DriverResult) -> Status {
    match result {
        0 => Ok(()),
        code if names::find(STATUS_NAMES, code).is_some() => Err(code),
        _ => Err(hipErrorUnknown),
    }
}

/// The error code of this thread's last call that failed, which is forgotten.
pub fn take_last_error() -> hipError_t {
    LAST_ERROR.replace(hipSuccess)
}

/// Runs the body of an exported function; no panic leaves it.
pub fn call(body: impl FnOnce() -> Status) -> hipError_t {
    let recorded = AssertUnwindSafe(|| {
        recorded::start();
        body()
    });
    match catch_unwind(recorded).unwrap_or(Err(hipErrorUnknown)) {
        Ok(()) => hipSuccess,
        // That work is not ready is an answer, not an error to remember.
        Err(api::amdhip64::hipErrorNotReady) => api::amdhip64::hipErrorNotReady,
        Err(code) => {
            LAST_ERROR.set(code);
            code
        }
    }
}

/// Writes to a caller's pointer.
///
/// # Errors
/// `hipErrorInvalidValue` for a null pointer.
///
/// # Safety
/// The pointer is null or valid for a write.
pub unsafe fn store<T>(pointer: *mut T, value: T) -> Status {
    if pointer.is_null() {
        return Err(api::amdhip64::hipErrorInvalidValue);
    }
    // SAFETY: by contract.
    unsafe { pointer.write(value) };
    Ok(())
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
            $crate::call::call(|| $body)
        }
    )*
    api::implements!(amdhip64: $($name),*);
    };
}
pub(crate) use api;
