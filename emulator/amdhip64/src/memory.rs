//! Device memory: allocation, copies, fills.

use std::ffi::{c_int, c_void};

use api::amdhip64::{
    hipMemcpyDefault, hipMemcpyDeviceToDevice, hipMemcpyDeviceToHost, hipMemcpyHostToDevice, hipMemcpyHostToHost,
    hipMemcpyKind, hipStream_t,
};
use candle_rocm_emulator_runtime::error::{HipError, HipResult};
use candle_rocm_emulator_runtime::machine::{self, current_device};
use candle_rocm_emulator_runtime::memory::{Arena, POISON, Place};
use candle_rocm_emulator_runtime::queue::{Action, StreamId, Work};
use candle_rocm_emulator_runtime::transfer::{self, Origin};
use record::Done;

use crate::call::{api, store};
use crate::stream;

/// Whether an address is one of pinned host memory or of the host's own.
pub fn is_host(address: usize) -> bool {
    let arena = Arena::get();
    !arena.contains(address) || arena.addresses(arena.host_segment()).contains(&address)
}

/// Whether the host may change what lies there while the device copies: pinned memory is used in place.
fn is_pageable(address: usize) -> bool {
    !Arena::get().contains(address) && machine::lock().pinned_around(address).is_none()
}

/// A copy that was asked for.
pub struct Copy {
    pub function: &'static str,
    pub to: usize,
    pub from: usize,
    /// Bytes.
    pub size: usize,
}

impl Copy {
    /// Checks both sides against the kind.
    ///
    /// # Errors
    /// `hipErrorInvalidMemcpyDirection` for what is no kind, `hipErrorInvalidValue` for a side that is not of the kind
    /// or not inside a live allocation.
    pub fn validate(&self, kind: hipMemcpyKind) -> HipResult {
        let sides = (is_host(self.from), is_host(self.to));
        let fits = match kind {
            hipMemcpyHostToHost => sides == (true, true),
            hipMemcpyHostToDevice => sides.0,
            hipMemcpyDeviceToHost => sides.1,
            hipMemcpyDeviceToDevice | hipMemcpyDefault => true,
            _ => return Err(HipError::INVALID_MEMCPY_DIRECTION),
        };
        let usable = |address| transfer::is_usable(address, self.size);
        if fits && usable(self.to) && usable(self.from) { Ok(()) } else { Err(HipError::INVALID_VALUE) }
    }

    /// Puts the copy on a stream. As on a GPU, pageable memory is read now, and written at the latest when the stream
    /// is waited for; until then it holds poison.
    ///
    /// # Errors
    /// As [`machine::enqueue`].
    pub fn enqueue(self, stream: StreamId) -> HipResult {
        self.enqueue_part(stream, true)
    }

    /// As [`Copy::enqueue`], for a copy that is part of a larger one, of which it may be the last.
    ///
    /// # Errors
    /// As [`machine::enqueue`].
    pub fn enqueue_part(self, stream: StreamId, last: bool) -> HipResult {
        let Self { function, to, from, size } = self;
        let is_staged = |address| size != 0 && is_pageable(address);
        let origin = if is_staged(from) {
            // SAFETY: the caller's memory.
            Origin::Staged(unsafe { std::slice::from_raw_parts(from as *const u8, size) }.to_vec())
        } else {
            Origin::Address(from)
        };
        if is_staged(to) {
            // SAFETY: the caller's memory, given up until the copy is done.
            unsafe { std::ptr::write_bytes(to as *mut u8, POISON, size) };
        }
        let run = move || {
            transfer::copy(function, to, &origin, size)?;
            if last && size != 0 {
                record::count(Done::Copy);
            }
            Ok(())
        };
        machine::enqueue(stream, Work::Run(Action::new(run)))
    }
}

/// Fills with a pattern on a stream.
///
/// # Errors
/// `hipErrorInvalidValue` for memory that is not inside a live allocation, else as [`machine::enqueue`].
pub fn fill(function: &'static str, to: usize, pattern: &[u8], count: usize, stream: StreamId) -> HipResult {
    let size = pattern.len().checked_mul(count).ok_or(HipError::INVALID_VALUE)?;
    if !transfer::is_usable(to, size) {
        return Err(HipError::INVALID_VALUE);
    }
    let pattern = pattern.to_vec();
    machine::enqueue(stream, Work::Run(Action::new(move || transfer::fill(function, to, &pattern, count))))
}

/// Fresh memory; the null address for no bytes.
///
/// # Errors
/// `hipErrorOutOfMemory`, the current device's fault if it has one, or what captures say.
pub fn allocate(place: Place, size: usize) -> HipResult<usize> {
    let mut machine = machine::lock();
    machine.captures.allow()?;
    machine.healthy(current_device())?;
    if size == 0 {
        return Ok(0);
    }
    let start = machine.memory.allocate(place, size)?;
    if place != Place::Host {
        record::count(Done::Allocation);
    }
    Ok(start)
}

api! {
    /// Allocates memory on the current device; a null pointer for no bytes.
    fn hipMalloc(pointer: *mut *mut c_void, size: usize) {
        if pointer.is_null() {
            return Err(HipError::INVALID_VALUE);
        }
        let address = allocate(Place::Device(current_device()), size)?;
        // SAFETY: the caller's pointer.
        unsafe { store(pointer, address as *mut c_void) }
    }

    /// Frees device memory once the device is done.
    fn hipFree(pointer: *mut c_void) {
        if pointer.is_null() {
            return Ok(());
        }
        let place = machine::lock().memory.find(pointer as usize).map(|allocation| allocation.place);
        let Some(Place::Device(device)) = place else { return Err(HipError::INVALID_VALUE) };
        machine::lock().captures.allow()?;
        let health = machine::finish_device(device);
        machine::lock().memory.free(pointer as usize)?;
        health
    }

    /// Free and total bytes of the current device.
    fn hipMemGetInfo(free: *mut usize, total: *mut usize) {
        let (free_bytes, total_bytes) = machine::lock().memory.info(current_device());
        // SAFETY: the caller's pointers.
        unsafe {
            store(free, free_bytes)?;
            store(total, total_bytes)
        }
    }

    /// Copies, and waits unless both sides are on a device.
    fn hipMemcpy(to: *mut c_void, from: *const c_void, size: usize, kind: hipMemcpyKind) {
        let copy = Copy { function: "hipMemcpy", to: to as usize, from: from as usize, size };
        copy.validate(kind)?;
        machine::lock().captures.allow_waiting()?;
        let waits = is_host(copy.to) || is_host(copy.from);
        let stream = StreamId::Null(current_device());
        copy.enqueue(stream)?;
        if waits { machine::synchronize_stream(stream) } else { Ok(()) }
    }

    /// Copies on a stream.
    fn hipMemcpyAsync(to: *mut c_void, from: *const c_void, size: usize, kind: hipMemcpyKind, stream: hipStream_t) {
        let copy = Copy { function: "hipMemcpyAsync", to: to as usize, from: from as usize, size };
        copy.validate(kind)?;
        copy.enqueue(stream::resolve(stream)?)
    }

    /// Fills device memory with a byte.
    fn hipMemset(to: *mut c_void, value: c_int, size: usize) {
        machine::lock().captures.allow_waiting()?;
        fill("hipMemset", to as usize, &[value as u8], size, StreamId::Null(current_device()))
    }

    /// Fills device memory with a byte on a stream.
    fn hipMemsetAsync(to: *mut c_void, value: c_int, size: usize, stream: hipStream_t) {
        fill("hipMemsetAsync", to as usize, &[value as u8], size, stream::resolve(stream)?)
    }
}
