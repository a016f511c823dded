//! Who a device is, and how one is found.

use std::ffi::{CStr, c_char, c_int};

use api::amdhip64::{hipDevice_t, hipUUID};
use candle_rocm_emulator_runtime::error::{HipError, HipResult};
use candle_rocm_emulator_runtime::settings::settings;

use crate::call::{api, store};
use crate::device;
use crate::properties::properties;

/// The place of a device on the bus: each has its own.
fn bus_id(index: usize) -> String {
    let properties = properties(index);
    format!("{:04x}:{:02x}:{:02x}.0", properties.pciDomainID, properties.pciBusID, properties.pciDeviceID)
}

/// Copies a text with its zero, cut off to fit.
unsafe fn write_text(to: *mut c_char, length: c_int, text: &str) -> HipResult {
    let room = usize::try_from(length).ok().and_then(|length| length.checked_sub(1));
    let Some(room) = room.filter(|_| !to.is_null()) else { return Err(HipError::INVALID_VALUE) };
    let bytes = &text.as_bytes()[..text.len().min(room)];
    // SAFETY: the caller's buffer of that length.
    unsafe {
        bytes.as_ptr().copy_to_nonoverlapping(to.cast(), bytes.len());
        to.add(bytes.len()).write(0);
    }
    Ok(())
}

api! {
    /// The handle of a device: its number.
    fn hipDeviceGet(handle: *mut hipDevice_t, ordinal: c_int) {
        device::index(ordinal)?;
        // SAFETY: the caller's pointer.
        unsafe { store(handle, ordinal) }
    }

    /// The name under which the card is sold.
    fn hipDeviceGetName(name: *mut c_char, length: c_int, handle: hipDevice_t) {
        let model = settings().devices[device::index(handle)?].model;
        // SAFETY: the caller's buffer.
        unsafe { write_text(name, length, model.product) }
    }

    /// Sixteen characters that no other device has.
    fn hipDeviceGetUuid(uuid: *mut hipUUID, handle: hipDevice_t) {
        let text = settings().devices[device::index(handle)?].identity();
        let mut bytes = [0; 16];
        bytes.iter_mut().zip(text.bytes()).for_each(|(to, from)| *to = from as c_char);
        // SAFETY: the caller's pointer.
        unsafe { store(uuid, hipUUID { bytes }) }
    }

    /// Bytes of a device's memory.
    fn hipDeviceTotalMem(bytes: *mut usize, handle: hipDevice_t) {
        device::index(handle)?;
        // SAFETY: the caller's pointer.
        unsafe { store(bytes, settings().memory) }
    }

    /// The numbers of the architecture.
    fn hipDeviceComputeCapability(major: *mut c_int, minor: *mut c_int, handle: hipDevice_t) {
        let version = settings().devices[device::index(handle)?].model.version;
        // SAFETY: the caller's pointers.
        unsafe {
            store(major, version.0)?;
            store(minor, version.1)
        }
    }

    /// The place of a device on the bus: domain, bus, device and function.
    fn hipDeviceGetPCIBusId(text: *mut c_char, length: c_int, handle: c_int) {
        let place = bus_id(device::index(handle)?);
        // SAFETY: the caller's buffer.
        unsafe { write_text(text, length, &place) }
    }

    /// The device at a place on the bus.
    fn hipDeviceGetByPCIBusId(handle: *mut c_int, text: *const c_char) {
        if text.is_null() {
            return Err(HipError::INVALID_VALUE);
        }
        // SAFETY: the caller's string.
        let wanted = unsafe { CStr::from_ptr(text) }.to_string_lossy().to_lowercase();
        let found = (0..settings().devices.len()).find(|&index| bus_id(index) == wanted);
        // SAFETY: the caller's pointer.
        unsafe { store(handle, found.ok_or(HipError::INVALID_DEVICE)? as c_int) }
    }
}
