//! Error codes.

use std::ffi::c_char;

use api::amdhip64::{STATUS_NAMES, hipError_t};

use crate::call::take_last_error;

/// The enumerator's name.
#[unsafe(no_mangle)]
pub extern "C" fn hipGetErrorName(error: hipError_t) -> *const c_char {
    let name = STATUS_NAMES.iter().find(|(status, _)| *status == error).map(|(_, name)| *name);
    name.unwrap_or(c"hipErrorUnknown").as_ptr()
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
