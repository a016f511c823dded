//! Pinned host memory: allocated, or registered later.

use std::collections::BTreeMap;
use std::ffi::{c_uint, c_void};
use std::sync::Mutex;

use api::amdhip64::*;
use candle_rocm_emulator_runtime::error::{HipError, HipResult};
use candle_rocm_emulator_runtime::machine;
use candle_rocm_emulator_runtime::memory::{Arena, Place};
use candle_rocm_emulator_runtime::settings::settings;

use crate::call::{api, must_be_of, store};
use crate::memory::allocate;

const KNOWN_FLAGS: [c_uint; 7] = [
    hipHostMallocPortable,
    hipHostMallocMapped,
    hipHostMallocWriteCombined,
    hipHostMallocUncached,
    hipHostMallocNumaUser,
    hipHostMallocCoherent,
    hipHostMallocNonCoherent,
];

const KNOWN_REGISTER_FLAGS: [c_uint; 4] =
    [hipHostRegisterPortable, hipHostRegisterMapped, hipHostRegisterIoMemory, hipHostRegisterReadOnly];

/// The flags with which memory was pinned, by first address.
static FLAGS: Mutex<BTreeMap<usize, c_uint>> = Mutex::new(BTreeMap::new());

/// The first address of the pinned memory that holds an address.
fn start_of(address: usize) -> Option<usize> {
    let machine = machine::lock();
    let allocated = machine.memory.find(address).filter(|allocation| allocation.place == Place::Host);
    allocated.map(|allocation| allocation.start).or_else(|| machine.pinned_around(address).map(|(start, _)| start))
}

/// The flags with which the memory that holds an address was pinned; none if it is not.
pub fn flags_of(address: usize) -> Option<c_uint> {
    let start = start_of(address)?;
    Some(FLAGS.lock().expect("no panic while held").get(&start).copied().unwrap_or_default())
}

fn note_flags(start: usize, flags: c_uint) {
    FLAGS.lock().expect("no panic while held").insert(start, flags);
}

unsafe fn pin(pointer: *mut *mut c_void, size: usize, flags: c_uint) -> HipResult {
    must_be_of(&KNOWN_FLAGS, flags)?;
    if pointer.is_null() {
        return Err(HipError::INVALID_VALUE);
    }
    let address = allocate(Place::Host, size)?;
    if size > 0 {
        note_flags(address, flags);
    }
    // SAFETY: the caller's pointer.
    unsafe { store(pointer, address as *mut c_void) }
}

/// Waits for all devices, any of which may use pinned memory; their faults belong to their work.
fn wait_for_all() {
    for device in 0..settings().devices.len() {
        let _ = machine::finish_device(device);
    }
}

fn unpin(pointer: *mut c_void) -> HipResult {
    if pointer.is_null() {
        return Ok(());
    }
    let start = pointer as usize;
    let place = machine::lock().memory.find(start).map(|allocation| allocation.place);
    if place != Some(Place::Host) {
        return Err(HipError::INVALID_VALUE);
    }
    wait_for_all();
    machine::lock().memory.free(start)?;
    FLAGS.lock().expect("no panic while held").remove(&start);
    Ok(())
}

api! {
    /// Allocates pinned host memory.
    fn hipHostMalloc(pointer: *mut *mut c_void, size: usize, flags: c_uint) {
        // SAFETY: the caller's pointer.
        unsafe { pin(pointer, size, flags) }
    }

    /// Allocates pinned host memory.
    fn hipHostAlloc(pointer: *mut *mut c_void, size: usize, flags: c_uint) {
        // SAFETY: the caller's pointer.
        unsafe { pin(pointer, size, flags) }
    }

    /// Allocates pinned host memory.
    fn hipMallocHost(pointer: *mut *mut c_void, size: usize) {
        // SAFETY: the caller's pointer.
        unsafe { pin(pointer, size, hipHostMallocDefault) }
    }

    /// Frees pinned host memory once all devices are done.
    fn hipHostFree(pointer: *mut c_void) {
        unpin(pointer)
    }

    /// Frees pinned host memory once all devices are done.
    fn hipFreeHost(pointer: *mut c_void) {
        unpin(pointer)
    }

    /// The address under which devices know pinned memory: the same.
    fn hipHostGetDevicePointer(device: *mut *mut c_void, host: *mut c_void, flags: c_uint) {
        if flags != 0 || start_of(host as usize).is_none() {
            return Err(HipError::INVALID_VALUE);
        }
        // SAFETY: the caller's pointer.
        unsafe { store(device, host) }
    }

    /// The flags with which memory was pinned.
    fn hipHostGetFlags(flags: *mut c_uint, host: *mut c_void) {
        let known = flags_of(host as usize).ok_or(HipError::INVALID_VALUE)?;
        // SAFETY: the caller's pointer.
        unsafe { store(flags, known) }
    }

    /// Pins memory that the program has.
    fn hipHostRegister(host: *mut c_void, size: usize, flags: c_uint) {
        let start = host as usize;
        must_be_of(&KNOWN_REGISTER_FLAGS, flags)?;
        if start == 0 || size == 0 {
            return Err(HipError::INVALID_VALUE);
        }
        let end = start.checked_add(size).ok_or(HipError::INVALID_VALUE)?;
        let mut machine = machine::lock();
        let overlaps = machine.pinned_around(start).is_some() || machine.pinned.range(start..end).next().is_some();
        if overlaps || Arena::get().contains(start) {
            return Err(HipError::HOST_MEMORY_ALREADY_REGISTERED);
        }
        machine.pinned.insert(start, size);
        drop(machine);
        note_flags(start, flags);
        Ok(())
    }

    /// Takes that back once all devices are done.
    fn hipHostUnregister(host: *mut c_void) {
        let start = host as usize;
        if start == 0 {
            return Err(HipError::INVALID_VALUE);
        }
        if !machine::lock().pinned.contains_key(&start) {
            return Err(HipError::HOST_MEMORY_NOT_REGISTERED);
        }
        wait_for_all();
        machine::lock().pinned.remove(&start);
        FLAGS.lock().expect("no panic while held").remove(&start);
        Ok(())
    }

    /// Memory that moves between host and devices: no emulated device has it, as its attribute says.
    fn hipMallocManaged(_pointer: *mut *mut c_void, _size: usize, _flags: c_uint) {
        Err(HipError::NOT_SUPPORTED)
    }

    /// Device memory of a certain kind; all kinds are alike.
    fn hipExtMallocWithFlags(pointer: *mut *mut c_void, size: usize, flags: c_uint) {
        let fits = match flags {
            hipDeviceMallocDefault | hipDeviceMallocFinegrained | hipDeviceMallocUncached | hipDeviceMallocContiguous => {
                true
            }
            // One signal of 64 bits.
            hipMallocSignalMemory => size == 8,
            _ => false,
        };
        if !fits || pointer.is_null() {
            return Err(HipError::INVALID_VALUE);
        }
        let address = allocate(Place::Device(machine::current_device()), size)?;
        // SAFETY: the caller's pointer.
        unsafe { store(pointer, address as *mut c_void) }
    }
}
