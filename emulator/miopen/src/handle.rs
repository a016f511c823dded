//! Handles, streams, versions and names.

use std::collections::BTreeSet;
use std::ffi::{c_char, c_void};

use api::amdhip64::hipStream_t;
use api::miopen::*;
use candle_rocm_emulator_link::{Handles, note};

use crate::{Status, exports};

/// MIOpen of ROCm 7.2.
const VERSION: [usize; 3] = [3, 5, 1];

/// What a `miopenHandle_t` stands for.
#[derive(Clone, Debug)]
pub struct Handle {
    /// Where it puts its work.
    pub stream: hipStream_t,
    /// The problems for which an algorithm was looked for.
    pub found: BTreeSet<String>,
}

// SAFETY: a stream's handle is a number to us.
unsafe impl Send for Handle {}

static HANDLES: Handles<Handle> = Handles::new();

/// Does something with a handle.
///
/// # Errors
/// `miopenStatusBadParm` if it is none.
pub fn with<T>(handle: miopenHandle_t, body: impl FnOnce(&mut Handle) -> T) -> Status<T> {
    HANDLES.with(handle, body).ok_or(miopenStatusBadParm)
}

/// Writes a result through a pointer that the caller gave.
///
/// # Errors
/// `miopenStatusBadParm` for a null pointer.
///
/// # Safety
/// The pointer is null or valid for a write.
pub unsafe fn store<T>(pointer: *mut T, value: T) -> Status {
    if pointer.is_null() {
        return Err(miopenStatusBadParm);
    }
    // SAFETY: by contract.
    unsafe { pointer.write(value) };
    Ok(())
}

/// A factor behind a pointer: f32 whatever the tensors are.
///
/// # Errors
/// `miopenStatusBadParm` for a null pointer.
///
/// # Safety
/// The pointer is null or leads to an f32.
pub unsafe fn factor(pointer: *const c_void) -> Status<f64> {
    if pointer.is_null() {
        return Err(miopenStatusBadParm);
    }
    // SAFETY: by contract.
    Ok(unsafe { pointer.cast::<f32>().read() }.into())
}

/// Refuses all factors but those that MIOpen of every release knows: alpha one, beta zero.
///
/// # Errors
/// `miopenStatusNotImplemented` for others, and as [`factor`].
///
/// # Safety
/// As [`factor`].
pub unsafe fn must_be_plain(function: &str, alpha: *const c_void, beta: *const c_void) -> Status {
    // SAFETY: by contract.
    let factors = unsafe { (factor(alpha)?, factor(beta)?) };
    if factors == (1.0, 0.0) {
        return Ok(());
    }
    note(&format!("{function}: factors other than alpha = 1 and beta = 0 are not supported by the emulated device"));
    Err(miopenStatusNotImplemented)
}

unsafe fn create(handle: *mut miopenHandle_t, stream: hipStream_t) -> Status {
    if handle.is_null() {
        return Err(miopenStatusBadParm);
    }
    // SAFETY: the caller's pointer.
    unsafe { store(handle, HANDLES.insert(Handle { stream, found: BTreeSet::new() })) }
}

exports! {
    /// Makes a handle on the default stream.
    fn miopenCreate(handle: *mut miopenHandle_t) {
        // SAFETY: the caller's pointer.
        unsafe { create(handle, std::ptr::null_mut()) }
    }

    /// Makes a handle on a stream.
    fn miopenCreateWithStream(handle: *mut miopenHandle_t, stream: miopenAcceleratorQueue_t) {
        // SAFETY: the caller's pointer.
        unsafe { create(handle, stream) }
    }

    /// Ends a handle; its work that is enqueued is still done.
    fn miopenDestroy(handle: miopenHandle_t) {
        HANDLES.remove(handle).map(|_| ()).ok_or(miopenStatusBadParm)
    }

    /// Chooses the stream.
    fn miopenSetStream(handle: miopenHandle_t, stream: miopenAcceleratorQueue_t) {
        with(handle, |handle| handle.stream = stream)
    }

    /// The stream.
    fn miopenGetStream(handle: miopenHandle_t, stream: *mut miopenAcceleratorQueue_t) {
        // SAFETY: the caller's pointer.
        unsafe { store(stream, with(handle, |handle| handle.stream)?) }
    }

    /// Takes the program's allocator, which the emulator never needs.
    fn miopenSetAllocator(
        handle: miopenHandle_t,
        _allocator: miopenAllocatorFunction,
        _deallocator: miopenDeallocatorFunction,
        _context: *mut c_void,
    ) {
        with(handle, |_| ())
    }

    /// The version of MIOpen.
    fn miopenGetVersion(major: *mut usize, minor: *mut usize, patch: *mut usize) {
        for (pointer, number) in [major, minor, patch].into_iter().zip(VERSION) {
            if !pointer.is_null() {
                // SAFETY: the caller's pointer.
                unsafe { pointer.write(number) };
            }
        }
        Ok(())
    }
}

/// The enumerator's name.
#[unsafe(no_mangle)]
pub extern "C" fn miopenGetErrorString(error: miopenStatus_t) -> *const c_char {
    api::names::miopen_status(error).as_ptr()
}

api::implements!(miopen: miopenGetErrorString);
