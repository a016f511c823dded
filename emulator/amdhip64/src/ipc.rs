//! Memory of devices that processes share.

use std::ffi::{c_char, c_uint, c_void};

use api::amdhip64::*;
use candle_rocm_emulator_runtime::error::HipError;
use candle_rocm_emulator_runtime::machine::{self, at_rest, current_device, finish_device};
use candle_rocm_emulator_runtime::memory::Place;

use crate::call::{api, store};

/// The only value of `hipIpcOpenMemHandle`'s flags.
const LAZY_PEER_ACCESS: c_uint = 1;

/// The device that has an address, if one has.
fn device_of(address: usize) -> Option<usize> {
    match machine::lock().memory.find(address)?.place {
        Place::Device(device) => Some(device),
        Place::Host => None,
    }
}

api! {
    /// What another process opens to use memory of a device, of which this is one address.
    fn hipIpcGetMemHandle(handle: *mut hipIpcMemHandle_t, pointer: *mut c_void) {
        if pointer.is_null() {
            return Err(HipError::INVALID_VALUE);
        }
        let bytes = at_rest(|machine| machine.memory.export(pointer as usize))?;
        let reserved = bytes.map(|byte| byte as c_char);
        // SAFETY: the caller's pointer.
        unsafe { store(handle, hipIpcMemHandle_t { reserved }) }
    }

    /// The address here of another process's, which the current device may use.
    fn hipIpcOpenMemHandle(pointer: *mut *mut c_void, handle: hipIpcMemHandle_t, flags: c_uint) {
        if flags != LAZY_PEER_ACCESS || pointer.is_null() {
            return Err(HipError::INVALID_VALUE);
        }
        let bytes = handle.reserved.map(|byte| byte as u8);
        let address = at_rest(|machine| machine.memory.import(&bytes))?;
        if let Some(device) = device_of(address) {
            machine::lock().peers[current_device()] |= 1 << device;
        }
        // SAFETY: the caller's pointer.
        unsafe { store(pointer, address as *mut c_void) }
    }

    /// Ends the use of another process's memory, once the device has done its work.
    fn hipIpcCloseMemHandle(pointer: *mut c_void) {
        if pointer.is_null() {
            return Err(HipError::INVALID_VALUE);
        }
        if let Some(device) = device_of(pointer as usize) {
            // Whether the device has failed is what the next call says.
            let _ = finish_device(device);
        }
        at_rest(|machine| machine.memory.forget_import(pointer as usize))
    }
}
