//! Memory of the device and of the host, and copies between them. The driver knows of each address where it lies.

use std::ffi::{c_int, c_uint, c_void};

use api::amdhip64::*;
use cuda::{Address, Copy2D, IpcHandle, MEMORY_UNIFIED};
use record::Done;

use crate::call::{api, check, store};
use crate::context::{enter, of};
use crate::recorded;

/// The flags of pinned memory that the driver has too: portable, mapped, write-combined.
const SHARED_FLAGS: c_uint = 7;

/// An address as the driver takes it.
fn address<T>(pointer: *const T) -> Address {
    pointer.expose_provenance() as Address
}

api! {
    /// Memory of the device; none for no bytes.
    fn hipMalloc(ptr: *mut *mut c_void, size: usize) {
        let mut found: Address = 0;
        if size > 0 {
            // SAFETY: a valid pointer.
            check(unsafe { enter()?.allocate(&raw mut found, size) })?;
            record::count(Done::Allocation);
        }
        // SAFETY: the caller's pointer.
        unsafe { store(ptr, std::ptr::with_exposed_provenance_mut(found as usize)) }
    }

    /// Gives memory of the device back.
    fn hipFree(ptr: *mut c_void) {
        if ptr.is_null() {
            return Ok(());
        }
        // SAFETY: the caller's memory.
        check(unsafe { enter()?.free(address(ptr)) })
    }

    /// What another process opens to use memory of the device.
    fn hipIpcGetMemHandle(handle: *mut hipIpcMemHandle_t, dev_ptr: *mut c_void) {
        let mut found = IpcHandle([0; 64]);
        // SAFETY: a valid pointer.
        check(unsafe { enter()?.ipc_handle(&raw mut found, address(dev_ptr)) })?;
        // SAFETY: the caller's pointer.
        unsafe { store(handle, hipIpcMemHandle_t { reserved: found.0 }) }
    }

    /// The address here of another process's memory.
    fn hipIpcOpenMemHandle(dev_ptr: *mut *mut c_void, handle: hipIpcMemHandle_t, flags: c_uint) {
        let mut found: Address = 0;
        // SAFETY: a valid pointer.
        check(unsafe { enter()?.ipc_open(&raw mut found, IpcHandle(handle.reserved), flags) })?;
        // SAFETY: the caller's pointer.
        unsafe { store(dev_ptr, std::ptr::with_exposed_provenance_mut(found as usize)) }
    }

    /// Ends the use of another process's memory.
    fn hipIpcCloseMemHandle(dev_ptr: *mut c_void) {
        // SAFETY: what `hipIpcOpenMemHandle` answered.
        check(unsafe { enter()?.ipc_close(address(dev_ptr)) })
    }

    /// Free and total bytes of the device.
    fn hipMemGetInfo(free: *mut usize, total: *mut usize) {
        // SAFETY: the caller's pointers.
        check(unsafe { enter()?.memory_info(free, total) })
    }

    /// Pinned memory of the host.
    fn hipHostMalloc(ptr: *mut *mut c_void, size: usize, flags: c_uint) {
        // SAFETY: the caller's pointer.
        check(unsafe { enter()?.allocate_host(ptr, size, flags & SHARED_FLAGS) })
    }

    /// Gives pinned memory back.
    fn hipHostFree(ptr: *mut c_void) {
        if ptr.is_null() {
            return Ok(());
        }
        // SAFETY: the caller's memory.
        check(unsafe { enter()?.free_host(ptr) })
    }

    /// Copies, and waits for it.
    fn hipMemcpy(dst: *mut c_void, src: *const c_void, size: usize, _kind: hipMemcpyKind) {
        // SAFETY: the caller's memory.
        check(unsafe { enter()?.copy(address(dst), address(src), size) })?;
        recorded::copy(size, std::ptr::null_mut());
        Ok(())
    }

    /// Copies on a stream.
    fn hipMemcpyAsync(dst: *mut c_void, src: *const c_void, size: usize, _kind: hipMemcpyKind, stream: hipStream_t) {
        // SAFETY: the caller's memory and handle.
        check(unsafe { enter()?.copy_async(address(dst), address(src), size, stream.cast()) })?;
        recorded::copy(size, stream);
        Ok(())
    }

    /// Copies rows on a stream.
    fn hipMemcpy2DAsync(
        dst: *mut c_void,
        dpitch: usize,
        src: *const c_void,
        spitch: usize,
        width: usize,
        height: usize,
        _kind: hipMemcpyKind,
        stream: hipStream_t,
    ) {
        let copy = Copy2D {
            src_x: 0,
            src_y: 0,
            src_memory_type: MEMORY_UNIFIED,
            src_host: std::ptr::null(),
            src_device: address(src),
            src_array: std::ptr::null_mut(),
            src_pitch: spitch,
            dst_x: 0,
            dst_y: 0,
            dst_memory_type: MEMORY_UNIFIED,
            dst_host: std::ptr::null_mut(),
            dst_device: address(dst),
            dst_array: std::ptr::null_mut(),
            dst_pitch: dpitch,
            width,
            height,
        };
        // SAFETY: the caller's memory and handle.
        check(unsafe { enter()?.copy_2d_async(&raw const copy, stream.cast()) })?;
        recorded::copy(width * height, stream);
        Ok(())
    }

    /// Copies between devices on a stream.
    fn hipMemcpyPeerAsync(
        dst: *mut c_void,
        dst_device_id: c_int,
        src: *const c_void,
        src_device: c_int,
        size: usize,
        stream: hipStream_t,
    ) {
        let (to, from) = (of(dst_device_id)?, of(src_device)?);
        // SAFETY: the caller's memory and handle, and contexts of ours.
        check(unsafe { enter()?.copy_peer_async(address(dst), to, address(src), from, size, stream.cast()) })?;
        recorded::copy(size, stream);
        Ok(())
    }

    /// Fills memory with a byte.
    fn hipMemset(dst: *mut c_void, value: c_int, size: usize) {
        // SAFETY: the caller's memory.
        check(unsafe { enter()?.fill(address(dst), value as u8, size) })
    }

    /// Fills memory with a byte, on a stream.
    fn hipMemsetAsync(dst: *mut c_void, value: c_int, size: usize, stream: hipStream_t) {
        // SAFETY: the caller's memory and handle.
        check(unsafe { enter()?.fill_async(address(dst), value as u8, size, stream.cast()) })
    }
}
