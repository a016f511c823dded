//! What is known about each byte of the arena.

use std::ptr;

use super::arena::{Arena, RACE_CELL, RACE_GRAIN, discard};

/// What may be done with a byte. Zero, the state of untouched pages, is the one that forbids everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ByteState {
    /// Belongs to no allocation.
    Unaddressable = 0,
    /// Allocated, never written.
    Uninitialized = 1,
    /// Allocated and written.
    Initialized = 2,
}

/// Content of fresh and of freed memory: not a number in every floating-point format, -1 as an integer.
pub const POISON: u8 = 0xff;

/// Sets the state of a range. Nothing happens when kernels are not checked.
pub fn set_state(address: usize, length: usize, state: ByteState) {
    let arena = Arena::get();
    if arena.state_offset == 0 {
        return;
    }
    let shadow = address.wrapping_add(arena.state_offset);
    if state == ByteState::Unaddressable {
        discard(shadow, length);
    } else {
        // SAFETY: the caller's range lies in the arena, so its states lie in the mapping next to it.
        unsafe { ptr::write_bytes(shadow as *mut u8, state as u8, length) };
    }
}

/// Makes the unaddressable bytes of a range uninitialised.
pub fn raise_to_uninitialized(address: usize, length: usize) {
    let arena = Arena::get();
    if arena.state_offset != 0 {
        let shadow = address.wrapping_add(arena.state_offset) as *mut u8;
        // SAFETY: as in `set_state`; only the caller looks at the states of its range meanwhile.
        let states = unsafe { std::slice::from_raw_parts_mut(shadow, length) };
        states.iter_mut().for_each(|state| *state = (*state).max(ByteState::Uninitialized as u8));
    }
}

/// Copies the states of a live range along with its bytes, so that a copy of uninitialised memory stays uninitialised.
pub fn copy_state(to: usize, from: usize, length: usize) {
    let arena = Arena::get();
    if arena.state_offset != 0 {
        let shadow = |address: usize| address.wrapping_add(arena.state_offset) as *mut u8;
        // SAFETY: as in `set_state`, for both ranges.
        unsafe { ptr::copy(shadow(from), shadow(to), length) };
        raise_to_uninitialized(to, length); // where the source is sparse and nobody has touched it
    }
}

/// The first byte of a range that is not in one of the wanted states, and its state.
pub fn find_other(address: usize, length: usize, wanted: &[ByteState]) -> Option<(usize, ByteState)> {
    (address..address + length).find_map(|byte| {
        let state = state_of(byte);
        (!wanted.contains(&state)).then_some((byte, state))
    })
}

/// The state of one byte of the arena.
pub fn state_of(address: usize) -> ByteState {
    let arena = Arena::get();
    // SAFETY: as in `set_state`.
    match unsafe { *(address.wrapping_add(arena.state_offset) as *const u8) } {
        0 => ByteState::Unaddressable,
        1 => ByteState::Uninitialized,
        _ => ByteState::Initialized,
    }
}

/// Gives the pages of a freed range back, its race cells included.
pub fn release(address: usize, length: usize) {
    let arena = Arena::get();
    discard(address, length);
    if arena.races != 0 {
        discard(arena.races + (address - arena.base) / RACE_GRAIN * RACE_CELL, length / RACE_GRAIN * RACE_CELL);
    }
}
