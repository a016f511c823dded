//! What is known about an address.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr;

use api::amdhip64::*;
use candle_rocm_emulator_runtime::error::{HipError, HipResult};
use candle_rocm_emulator_runtime::machine;
use candle_rocm_emulator_runtime::memory::Place;

use crate::call::{api, store};
use crate::host_memory::flags_of;

/// The device of memory that is on none.
const NO_DEVICE: c_int = -2;

/// The memory that holds an address.
struct Found {
    start: usize,
    size: usize,
    /// None for pinned host memory.
    device: Option<usize>,
    number: u64,
}

fn find(address: usize) -> Option<Found> {
    let machine = machine::lock();
    let Some(&allocation) = machine.memory.find(address) else {
        let (start, size) = machine.pinned_around(address)?;
        return Some(Found { start, size, device: None, number: 0 });
    };
    let device = match allocation.place {
        Place::Device(device) => Some(device),
        Place::Host => None,
    };
    Some(Found { start: allocation.start, size: allocation.size, device, number: allocation.number })
}

impl Found {
    fn memory_type(&self) -> hipMemoryType {
        if self.device.is_some() { hipMemoryTypeDevice } else { hipMemoryTypeHost }
    }

    /// What HIP reports for pinned memory, which belongs to no device, is the first one.
    fn ordinal(&self) -> c_int {
        self.device.unwrap_or(0) as c_int
    }
}

fn attributes(pointer: *mut c_void) -> hipPointerAttribute_t {
    let Some(found) = find(pointer as usize) else {
        return hipPointerAttribute_t {
            r#type: hipMemoryTypeUnregistered,
            device: NO_DEVICE,
            devicePointer: ptr::null_mut(),
            hostPointer: ptr::null_mut(),
            isManaged: 0,
            allocationFlags: 0,
        };
    };
    hipPointerAttribute_t {
        r#type: found.memory_type(),
        device: found.ordinal(),
        devicePointer: pointer,
        hostPointer: if found.device.is_some() { ptr::null_mut() } else { pointer },
        isManaged: 0,
        allocationFlags: flags_of(pointer as usize).unwrap_or_default(),
    }
}

/// Writes one attribute with the width that it has.
unsafe fn write_attribute(to: *mut c_void, attribute: hipPointer_attribute, pointer: *mut c_void) -> HipResult {
    let found = find(pointer as usize).ok_or(HipError::INVALID_VALUE)?;
    // SAFETY: the caller's pointer to a value of that type.
    unsafe {
        match attribute {
            HIP_POINTER_ATTRIBUTE_MEMORY_TYPE => store(to.cast::<c_uint>(), found.memory_type()),
            HIP_POINTER_ATTRIBUTE_DEVICE_POINTER => store(to.cast(), pointer),
            HIP_POINTER_ATTRIBUTE_HOST_POINTER if found.device.is_none() => store(to.cast(), pointer),
            HIP_POINTER_ATTRIBUTE_BUFFER_ID => store(to.cast::<u64>(), found.number),
            HIP_POINTER_ATTRIBUTE_IS_MANAGED => store(to.cast(), false),
            HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL => store(to.cast(), found.ordinal()),
            HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR => store(to.cast(), found.start as *mut c_void),
            HIP_POINTER_ATTRIBUTE_RANGE_SIZE => store(to.cast(), found.size),
            HIP_POINTER_ATTRIBUTE_MAPPED => store(to.cast(), true),
            _ => Err(HipError::INVALID_VALUE),
        }
    }
}

api! {
    /// All that is known about an address; an address of the program's own is of no device.
    fn hipPointerGetAttributes(to: *mut hipPointerAttribute_t, pointer: *const c_void) {
        if pointer.is_null() {
            return Err(HipError::INVALID_VALUE);
        }
        // SAFETY: the caller's pointer.
        unsafe { store(to, attributes(pointer.cast_mut())) }
    }

    /// One attribute of an address of a device or of pinned memory.
    fn hipPointerGetAttribute(to: *mut c_void, attribute: hipPointer_attribute, pointer: hipDeviceptr_t) {
        // SAFETY: the caller's pointer.
        unsafe { write_attribute(to, attribute, pointer) }
    }

    /// The allocation that holds an address; null pointers are left out.
    fn hipMemGetAddressRange(start: *mut hipDeviceptr_t, size: *mut usize, pointer: hipDeviceptr_t) {
        let found = find(pointer as usize).ok_or(HipError::NOT_FOUND)?;
        // SAFETY: the caller's pointers.
        unsafe {
            if !start.is_null() {
                start.write(found.start as hipDeviceptr_t);
            }
            if !size.is_null() {
                size.write(found.size);
            }
        }
        Ok(())
    }
}
