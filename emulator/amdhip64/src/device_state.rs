//! What a program sets on a device: limits and flags, and the end of it all.

use std::collections::BTreeMap;
use std::ffi::c_uint;
use std::sync::Mutex;

use api::amdhip64::*;
use candle_rocm_emulator_runtime::error::{HipError, HipResult};
use candle_rocm_emulator_runtime::machine::{self, current_device};
use candle_rocm_emulator_runtime::memory::Place;

use crate::call::{api, must_be_of, store};

/// Limits by device; what is not there is as it was at first.
static LIMITS: Mutex<BTreeMap<(usize, hipLimit_t), usize>> = Mutex::new(BTreeMap::new());
/// Flags by device.
static FLAGS: Mutex<BTreeMap<usize, c_uint>> = Mutex::new(BTreeMap::new());

const KNOWN_FLAGS: [c_uint; 3] = [hipDeviceScheduleMask, hipDeviceMapHost, hipDeviceLmemResizeToMax];

/// A limit as it is at first. None changes anything in the emulator.
fn default_limit(limit: hipLimit_t) -> HipResult<usize> {
    Ok(match limit {
        hipLimitStackSize => 1 << 10,
        hipLimitPrintfFifoSize => 1 << 20,
        hipLimitMallocHeapSize => 8 << 20,
        _ => return Err(HipError::UNSUPPORTED_LIMIT),
    })
}

api! {
    /// A limit of the current device.
    fn hipDeviceGetLimit(value: *mut usize, limit: hipLimit_t) {
        let at_first = default_limit(limit)?;
        let set = LIMITS.lock().expect("no panic while held").get(&(current_device(), limit)).copied();
        // SAFETY: the caller's pointer.
        unsafe { store(value, set.unwrap_or(at_first)) }
    }

    /// Sets a limit of the current device.
    fn hipDeviceSetLimit(limit: hipLimit_t, value: usize) {
        default_limit(limit)?;
        LIMITS.lock().expect("no panic while held").insert((current_device(), limit), value);
        Ok(())
    }

    /// The flags of the current device.
    fn hipGetDeviceFlags(flags: *mut c_uint) {
        let set = FLAGS.lock().expect("no panic while held").get(&current_device()).copied();
        // SAFETY: the caller's pointer.
        unsafe { store(flags, set.unwrap_or(hipDeviceScheduleAuto)) }
    }

    /// Sets the flags of the current device.
    fn hipSetDeviceFlags(flags: c_uint) {
        must_be_of(&KNOWN_FLAGS, flags)?;
        let schedule = flags & hipDeviceScheduleMask;
        if schedule.count_ones() > 1 {
            return Err(HipError::INVALID_VALUE);
        }
        FLAGS.lock().expect("no panic while held").insert(current_device(), flags);
        Ok(())
    }

    /// Waits for the current device, frees its memory and forgets what was set on it.
    fn hipDeviceReset() {
        let device = current_device();
        let health = machine::synchronize_device(device);
        let mut machine = machine::lock();
        for start in machine.memory.starts_in(Place::Device(device)) {
            machine.memory.free(start)?;
        }
        machine.peers[device] = 1 << device;
        drop(machine);
        LIMITS.lock().expect("no panic while held").retain(|(of, _), _| *of != device);
        FLAGS.lock().expect("no panic while held").remove(&device);
        health
    }
}
