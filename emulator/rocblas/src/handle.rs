//! Handles and what they remember; versions and names.

use std::ffi::{CStr, c_char};

use api::amdhip64::hipStream_t;
use api::rocblas::*;
use candle_rocm_emulator_link::Handles;

use crate::{Status, exports};

/// rocBLAS of ROCm 7.2.
const VERSION: &CStr = c"5.2.0-emulator";

/// What a `rocblas_handle` stands for.
#[derive(Clone, Copy, Debug)]
pub struct Handle {
    /// Where it puts its work.
    pub stream: hipStream_t,
    /// Where alpha and beta are.
    pub pointer_mode: rocblas_pointer_mode,
    /// Workspace of its own; none is used.
    pub device_memory: usize,
    /// Whether the program has chosen the workspace.
    pub user_manages_memory: bool,
    /// Whether functions only say how much workspace they need.
    pub is_size_query: bool,
    atomics_mode: rocblas_atomics_mode,
    /// Whether f32 may be rounded before it is multiplied.
    pub math_mode: rocblas_math_mode,
}

// SAFETY: a stream's handle is a number to us.
unsafe impl Send for Handle {}

static HANDLES: Handles<Handle> = Handles::new();

/// Does something with a handle.
///
/// # Errors
/// `rocblas_status_invalid_handle` if it is none.
pub fn with<T>(handle: rocblas_handle, body: impl FnOnce(&mut Handle) -> T) -> Status<T> {
    HANDLES.with(handle, body).ok_or(rocblas_status_invalid_handle)
}

/// Writes a result through a pointer that the caller gave.
///
/// # Errors
/// `rocblas_status_invalid_pointer` for a null pointer.
///
/// # Safety
/// The pointer is null or valid for a write.
pub unsafe fn store<T>(pointer: *mut T, value: T) -> Status {
    if pointer.is_null() {
        return Err(rocblas_status_invalid_pointer);
    }
    // SAFETY: by contract.
    unsafe { pointer.write(value) };
    Ok(())
}

exports! {
    /// Makes a handle.
    fn rocblas_create_handle(handle: *mut rocblas_handle) {
        if handle.is_null() {
            return Err(rocblas_status_invalid_handle);
        }
        let new = Handle {
            stream: std::ptr::null_mut(),
            pointer_mode: rocblas_pointer_mode_host,
            device_memory: 32 << 20,
            user_manages_memory: false,
            is_size_query: false,
            atomics_mode: rocblas_atomics_not_allowed,
            math_mode: rocblas_default_math,
        };
        // SAFETY: the caller's pointer.
        unsafe { store(handle, HANDLES.insert(new)) }
    }

    /// Ends a handle; its work that is enqueued is still done.
    fn rocblas_destroy_handle(handle: rocblas_handle) {
        HANDLES.remove(handle).map(|_| ()).ok_or(rocblas_status_invalid_handle)
    }

    /// Chooses the stream.
    fn rocblas_set_stream(handle: rocblas_handle, stream: hipStream_t) {
        with(handle, |handle| handle.stream = stream)
    }

    /// The stream.
    fn rocblas_get_stream(handle: rocblas_handle, stream: *mut hipStream_t) {
        // SAFETY: the caller's pointer.
        unsafe { store(stream, with(handle, |handle| handle.stream)?) }
    }

    /// Chooses whether alpha and beta are on the host or on the device.
    fn rocblas_set_pointer_mode(handle: rocblas_handle, pointer_mode: rocblas_pointer_mode) {
        with(handle, |handle| match pointer_mode {
            rocblas_pointer_mode_host | rocblas_pointer_mode_device => {
                handle.pointer_mode = pointer_mode;
                Ok(())
            }
            _ => Err(rocblas_status_invalid_value),
        })?
    }

    /// Where alpha and beta are.
    fn rocblas_get_pointer_mode(handle: rocblas_handle, pointer_mode: *mut rocblas_pointer_mode) {
        // SAFETY: the caller's pointer.
        unsafe { store(pointer_mode, with(handle, |handle| handle.pointer_mode)?) }
    }

    /// Remembers whether results may differ from run to run; they never do.
    fn rocblas_set_atomics_mode(handle: rocblas_handle, atomics_mode: rocblas_atomics_mode) {
        with(handle, |handle| match atomics_mode {
            rocblas_atomics_allowed | rocblas_atomics_not_allowed => {
                handle.atomics_mode = atomics_mode;
                Ok(())
            }
            _ => Err(rocblas_status_invalid_value),
        })?
    }

    /// What was remembered.
    fn rocblas_get_atomics_mode(handle: rocblas_handle, atomics_mode: *mut rocblas_atomics_mode) {
        // SAFETY: the caller's pointer.
        unsafe { store(atomics_mode, with(handle, |handle| handle.atomics_mode)?) }
    }

    /// Chooses whether f32 may be rounded before it is multiplied, which devices with xf32 do then.
    fn rocblas_set_math_mode(handle: rocblas_handle, math_mode: rocblas_math_mode) {
        with(handle, |handle| match math_mode {
            rocblas_default_math | rocblas_xf32_xdl_math_op => {
                handle.math_mode = math_mode;
                Ok(())
            }
            _ => Err(rocblas_status_invalid_value),
        })?
    }

    /// What was remembered.
    fn rocblas_get_math_mode(handle: rocblas_handle, math_mode: *mut rocblas_math_mode) {
        // SAFETY: the caller's pointer.
        unsafe { store(math_mode, with(handle, |handle| handle.math_mode)?) }
    }

    /// The version as a text.
    fn rocblas_get_version_string(buf: *mut c_char, len: usize) {
        let version = VERSION.to_bytes_with_nul();
        if buf.is_null() {
            return Err(rocblas_status_invalid_pointer);
        }
        if len < version.len() {
            return Err(rocblas_status_invalid_size);
        }
        // SAFETY: the caller's buffer of that length.
        unsafe { version.as_ptr().copy_to_nonoverlapping(buf.cast(), version.len()) };
        Ok(())
    }

    /// Bytes of that text, its zero included.
    fn rocblas_get_version_string_size(len: *mut usize) {
        // SAFETY: the caller's pointer.
        unsafe { store(len, VERSION.count_bytes() + 1) }
    }
}

/// Makes ready; there is nothing to do.
#[unsafe(no_mangle)]
pub extern "C" fn rocblas_initialize() {}

/// The enumerator's name.
#[unsafe(no_mangle)]
pub extern "C" fn rocblas_status_to_string(status: rocblas_status) -> *const c_char {
    api::names::rocblas_status(status).as_ptr()
}

api::implements!(rocblas: rocblas_initialize, rocblas_status_to_string);
