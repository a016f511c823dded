//! The workspace of a handle: the emulator needs none, but programs may manage it.

use std::ffi::c_void;

use api::rocblas::*;

use crate::exports;
use crate::handle::{store, with};

exports! {
    /// Bytes of workspace.
    fn rocblas_get_device_memory_size(handle: rocblas_handle, size: *mut usize) {
        // SAFETY: the caller's pointer.
        unsafe { store(size, with(handle, |handle| handle.device_memory)?) }
    }

    /// Chooses how much workspace; the library manages it again for none.
    fn rocblas_set_device_memory_size(handle: rocblas_handle, size: usize) {
        with(handle, |handle| {
            handle.user_manages_memory = size > 0;
            handle.device_memory = size;
        })
    }

    /// Chooses memory of the program as workspace; the library manages it again for a null pointer.
    fn rocblas_set_workspace(handle: rocblas_handle, addr: *mut c_void, size: usize) {
        with(handle, |handle| {
            handle.user_manages_memory = !addr.is_null();
            handle.device_memory = if addr.is_null() { 0 } else { size };
        })
    }

    /// From now on functions only say how much workspace they need.
    fn rocblas_start_device_memory_size_query(handle: rocblas_handle) {
        with(handle, |handle| if handle.is_size_query {
            Err(rocblas_status_size_query_mismatch)
        } else {
            handle.is_size_query = true;
            Ok(())
        })?
    }

    /// Ends that and says how much they need together: nothing.
    fn rocblas_stop_device_memory_size_query(handle: rocblas_handle, size: *mut usize) {
        let asked = with(handle, |handle| std::mem::take(&mut handle.is_size_query))?;
        if !asked {
            return Err(rocblas_status_size_query_mismatch);
        }
        // SAFETY: the caller's pointer.
        unsafe { store(size, 0) }
    }
}

/// Whether the library manages its workspace.
///
/// # Safety
/// As the function of the same name in rocBLAS.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocblas_is_managing_device_memory(handle: rocblas_handle) -> bool {
    with(handle, |handle| !handle.user_manages_memory).unwrap_or(false)
}

/// Whether the program manages the workspace.
///
/// # Safety
/// As the function of the same name in rocBLAS.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocblas_is_user_managing_device_memory(handle: rocblas_handle) -> bool {
    with(handle, |handle| handle.user_manages_memory).unwrap_or(false)
}

api::implements!(rocblas: rocblas_is_managing_device_memory, rocblas_is_user_managing_device_memory);
