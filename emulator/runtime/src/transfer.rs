//! Copies and fills, as streams do them.

use std::ptr;

use crate::error::HipError;
use crate::machine;
use crate::memory::{Allocation, Arena, ByteState, copy_state, find_other, set_state};
use crate::report::Report;
use crate::settings::settings;

/// Where the bytes of a copy come from.
#[derive(Debug)]
pub enum Origin {
    /// An address of the device or of the host, read when the copy runs.
    Address(usize),
    /// Bytes that were taken from the host when the copy was asked for.
    Staged(Vec<u8>),
}

/// Copies bytes between device and host memory in any direction.
///
/// # Errors
/// A report if a side in device memory is no longer inside a live allocation.
pub fn copy(function: &str, to: usize, origin: &Origin, size: usize) -> Result<(), Report> {
    let from = match origin {
        Origin::Address(address) => *address,
        Origin::Staged(bytes) => bytes.as_ptr() as usize,
    };
    must_be_live(function, "write", to, size)?;
    must_be_live(function, "read", from, size)?;
    // SAFETY: device ranges are live; host ranges are the caller's to answer for, as with the real library.
    unsafe { ptr::copy(from as *const u8, to as *mut u8, size) };
    let arena = Arena::get();
    match (arena.contains(to), arena.contains(from)) {
        (true, true) => copy_state(to, from, size),
        (true, false) => set_state(to, size, ByteState::Initialized),
        (false, _) => {}
    }
    Ok(())
}

/// Fills device memory with a repeated pattern of 1, 2 or 4 bytes.
///
/// # Errors
/// A report if the memory is no longer inside a live allocation.
pub fn fill(function: &str, to: usize, pattern: &[u8], count: usize) -> Result<(), Report> {
    let size = pattern.len() * count;
    must_be_live(function, "write", to, size)?;
    // SAFETY: the range is live.
    let bytes = unsafe { std::slice::from_raw_parts_mut(to as *mut u8, size) };
    match pattern {
        [byte] => bytes.fill(*byte),
        _ => bytes.chunks_exact_mut(pattern.len()).for_each(|chunk| chunk.copy_from_slice(pattern)),
    }
    if Arena::get().contains(to) {
        set_state(to, size, ByteState::Initialized);
    }
    Ok(())
}

/// Whether a range is the host's own or inside one live allocation of a device.
pub fn is_usable(address: usize, size: usize) -> bool {
    if !Arena::get().contains(address) {
        return address != 0 || size == 0;
    }
    let machine = machine::lock();
    let room = |allocation: &Allocation| allocation.start + allocation.size - address;
    machine.memory.find(address).is_some_and(|allocation| size <= room(allocation))
}

/// Memory that a library's own work on a stream uses.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Extent {
    /// First address; of the device or of the host.
    pub address: usize,
    /// How many bytes.
    pub bytes: usize,
    /// Whether they are written, or read.
    pub writes: bool,
}

/// Checks what a library's own work on a device, such as a matrix product, reads, and notes what it writes.
///
/// # Errors
/// A report if an extent is not inside a live allocation that the device may use, or read without having been written.
pub fn uses(what: &str, extents: &[Extent], device: usize) -> Result<(), Report> {
    for extent in extents.iter().filter(|extent| extent.bytes != 0) {
        let verb = if extent.writes { "write" } else { "read" };
        must_be_reachable(what, verb, extent, device)?;
        must_be_live(what, verb, extent.address, extent.bytes)?;
        if !Arena::get().contains(extent.address) {
            continue;
        }
        if extent.writes {
            set_state(extent.address, extent.bytes, ByteState::Initialized);
        } else if settings().check {
            must_be_written(what, extent)?;
        }
    }
    Ok(())
}

fn must_be_reachable(what: &str, verb: &str, extent: &Extent, device: usize) -> Result<(), Report> {
    let Extent { address, bytes, .. } = *extent;
    let arena = Arena::get();
    let why = if arena.contains(address) {
        let segment = (address - arena.base) / arena.segment;
        if segment == arena.host_segment() || machine::lock().peers[device] >> segment & 1 == 1 {
            return Ok(());
        }
        format!("memory of device {segment}, to which device {device} has no peer access")
    } else if machine::is_pinned(address, bytes) {
        return Ok(());
    } else if address == 0 {
        "a null pointer".to_owned()
    } else {
        "no memory of a device; is it a host pointer?".to_owned()
    };
    let text = format!("{what}: invalid {verb} of {bytes} bytes at {address:#x}: {why}");
    Err(Report { code: HipError::ILLEGAL_ADDRESS, text })
}

fn must_be_written(what: &str, extent: &Extent) -> Result<(), Report> {
    let Some((byte, _)) = find_other(extent.address, extent.bytes, &[ByteState::Initialized]) else { return Ok(()) };
    let whereabouts = machine::nearest_allocation(byte, 1).unwrap_or_default();
    let text = format!("{what}: uninitialised read of {} bytes, first at {byte:#x}: {whereabouts}", extent.bytes);
    Err(Report { code: HipError::LAUNCH_FAILURE, text })
}

fn must_be_live(function: &str, verb: &str, address: usize, size: usize) -> Result<(), Report> {
    if size == 0 || is_usable(address, size) {
        return Ok(());
    }
    let whereabouts = machine::nearest_allocation(address, size).unwrap_or_default();
    let text = format!("{function}: invalid {verb} of {size} bytes at {address:#x}: {whereabouts}");
    Err(Report { code: HipError::ILLEGAL_ADDRESS, text })
}
