//! Error codes.

use std::ffi::c_char;

use api::amdhip64::hipError_t;
use api::names;

use crate::call::take_last_error;

/// The enumerator's name.
#[unsafe(no_mangle)]
pub extern "C" fn hipGetErrorName(error: hipError_t) -> *const c_char {
    names::hip_error(error).as_ptr()
}

/// As [`hipGetErrorName`].
#[unsafe(no_mangle)]
pub extern "C" fn hipGetErrorString(error: hipError_t) -> *const c_char {
    hipGetErrorName(error)
}

/// The thread's last error, which is forgotten.
#[unsafe(no_mangle)]
pub extern "C" fn hipGetLastError() -> hipError_t {
    take_last_error()
}

api::implements!(amdhip64: hipGetErrorName, hipGetErrorString, hipGetLastError);
