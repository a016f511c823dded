//! Devices and versions.

use std::ffi::{c_int, c_uint};

use candle_rocm_emulator_runtime::error::{HipError, HipResult};
use candle_rocm_emulator_runtime::machine::{current_device, set_current_device};
use candle_rocm_emulator_runtime::settings::settings;

use crate::call::{api, store};

/// HIP 7.2, as the real library encodes it.
const VERSION: c_int = 7 * 10_000_000 + 2 * 100_000;

/// The index of a device.
///
/// # Errors
/// `hipErrorInvalidDevice` if there is none of that number.
pub fn index(device: c_int) -> HipResult<usize> {
    usize::try_from(device).ok().filter(|device| *device < settings().devices.len()).ok_or(HipError::INVALID_DEVICE)
}

api! {
    /// Makes ready; there is nothing to do.
    fn hipInit(flags: c_uint) {
        if flags == 0 { Ok(()) } else { Err(HipError::INVALID_VALUE) }
    }

    /// How many devices there are; that there is none is an error.
    fn hipGetDeviceCount(count: *mut c_int) {
        // SAFETY: the caller's pointer.
        unsafe { store(count, settings().devices.len() as c_int) }?;
        if settings().devices.is_empty() { Err(HipError::NO_DEVICE) } else { Ok(()) }
    }

    /// Chooses the calling thread's device.
    fn hipSetDevice(device: c_int) {
        set_current_device(index(device)?)
    }

    /// The calling thread's device.
    fn hipGetDevice(device: *mut c_int) {
        // SAFETY: the caller's pointer.
        unsafe { store(device, current_device() as c_int) }
    }

    /// The version of HIP.
    fn hipRuntimeGetVersion(version: *mut c_int) {
        // SAFETY: the caller's pointer.
        unsafe { store(version, VERSION) }
    }

    /// The version of the driver: the same.
    fn hipDriverGetVersion(version: *mut c_int) {
        // SAFETY: the caller's pointer.
        unsafe { store(version, VERSION) }
    }
}
