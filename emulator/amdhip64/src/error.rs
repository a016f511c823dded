//! Error codes in words, and the last error.

use std::ffi::c_char;

use api::amdhip64::hipError_t;
use api::names;
use candle_rocm_emulator_runtime::error::HipError;

use crate::call::last_error;

/// The enumerator's name.
#[unsafe(no_mangle)]
pub extern "C" fn hipGetErrorName(error: hipError_t) -> *const c_char {
    names::hip_error(error).as_ptr()
}

/// What the error means.
#[unsafe(no_mangle)]
pub extern "C" fn hipGetErrorString(error: hipError_t) -> *const c_char {
    HipError::description(error).as_ptr().cast()
}

/// The calling thread's last error, which is forgotten.
#[unsafe(no_mangle)]
pub extern "C" fn hipGetLastError() -> hipError_t {
    last_error(true)
}

/// The calling thread's last error.
#[unsafe(no_mangle)]
pub extern "C" fn hipPeekAtLastError() -> hipError_t {
    last_error(false)
}

api::implements!(amdhip64: hipGetErrorName, hipGetErrorString, hipGetLastError, hipPeekAtLastError);
