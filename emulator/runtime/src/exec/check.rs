//! Checks of every load and store of a kernel.

use std::ptr;

use super::access::{Access, Earlier, Kind, Site};
use super::checker::{Checker, Pending, Span};
use super::describe;
use super::engine::{engine, fail};
use super::lds::Touch;
use super::race::Write;
use crate::machine;
use crate::memory::{Arena, ByteState};
use crate::module::Segment;

const INITIALIZED: u8 = ByteState::Initialized as u8;
const UNADDRESSABLE: u8 = ByteState::Unaddressable as u8;

impl Checker {
    /// Looks for an earlier write by someone else, and notes this one if it is a write.
    ///
    /// # Safety
    /// The addresses lie in live device memory.
    #[inline(always)]
    unsafe fn find_race(&self, address: usize, bytes: usize, kind: Kind) -> Option<Write> {
        let mut race = None;
        // SAFETY: by contract.
        unsafe {
            self.words(address, bytes, |cell, mask| {
                let own = self.writer.of_bytes(mask);
                let own = if kind == Kind::Atomic { own.atomic() } else { own };
                if own.is_by_another(*cell) && race.is_none() && is_race(own, *cell, kind) {
                    race = Some(*cell);
                }
                if kind != Kind::Read {
                    *cell = own.after(*cell);
                }
            });
        }
        race
    }
}

/// Whether an earlier write of the same launch by someone else makes this access undefined.
#[cold]
fn is_race(own: Write, earlier: Write, kind: Kind) -> bool {
    // SAFETY: called from a kernel.
    let block = unsafe { engine() }.block();
    let harmless = match kind {
        // Reading what others update atomically is how loops around atomicCAS begin.
        Kind::Read | Kind::Atomic => earlier.is_atomic(),
        Kind::Write => false,
    };
    // A block that used an atomic may have learnt from it that another block is done.
    let informed = block.has_used_atomics && earlier.block() != own.block();
    let wave = |thread: u32| thread / unsafe { engine() }.wave_size;
    let same_wave = own.block() == earlier.block() && wave(own.thread()) == wave(earlier.thread());
    let synchronised = same_wave && block.wave_synchronisations[wave(own.thread()) as usize] > 0;
    !harmless && !informed && !synchronised && own.races_with(earlier)
}

/// Checks an access of `BYTES` bytes, of a type that is aligned to them or to 8.
///
/// # Safety
/// Called from the running kernel.
#[inline(always)]
pub unsafe fn access<const BYTES: usize, const WRITE: bool>(address: usize, site: usize) {
    // SAFETY: by contract; no reference is kept when the thread fails.
    let c = unsafe { &mut engine().checker };
    if c.pending.is_some() {
        settle();
    }
    if c.stack.contains(address) {
        return;
    }
    let kind = if WRITE { Kind::Write } else { Kind::Read };
    let access = Access { address, bytes: BYTES, kind, site: Site::Code(site) };
    // Of 16 bytes g++ does not say whether their type is aligned to more than 8, as a struct of two f64 is.
    if !address.is_multiple_of(BYTES.min(8)) {
        fail(describe::misaligned(&access));
    }
    if c.device.contains(address) {
        // SAFETY: the address lies in the arena; the states of what follows it are mapped too.
        let states = unsafe { c.states::<BYTES>(address) };
        // SAFETY: as above.
        if unsafe { states.read_unaligned() } == [INITIALIZED; BYTES] {
            // SAFETY: the bytes are those of a live allocation.
            if let Some(earlier) = unsafe { c.find_race(address, BYTES, kind) } {
                race(access, Earlier::Device(earlier));
            }
            return;
        }
    } else if let Some(offset) = c.lds_offset(address, BYTES) {
        // SAFETY: those of the current block.
        let touches = unsafe { &mut *c.touches };
        if touches.note_alike::<BYTES, WRITE>(offset, c.touch, c.wave_size)
            || BYTES > 4 && touches.note_words::<BYTES, WRITE>(offset, c.touch, c.wave_size)
        {
            return;
        }
    }
    check(access);
}

/// Checks any access.
#[cold]
#[inline(never)]
pub fn check(access: Access) {
    // SAFETY: called from a kernel.
    let c = unsafe { &mut engine().checker };
    let Access { address, bytes, kind, .. } = access;
    if bytes == 0 || c.stack.contains_all(address, bytes) {
        return;
    }
    let arena = Arena::get();
    if arena.contains(address) {
        let segment = (address - arena.base) / arena.segment;
        if segment != arena.host_segment() && c.reachable >> segment & 1 == 0 {
            fail(describe::unreachable_device(&access, segment));
        }
        check_device(access);
    } else if let Some(offset) = c.lds_offset(address, bytes) {
        check_lds(access, offset);
    } else {
        // SAFETY: the module outlives the launch.
        let image = unsafe { &*c.image };
        let within = |segment: &&Segment| Span::new(segment.addresses.clone()).contains_all(address, bytes);
        match image.iter().find(within) {
            Some(segment) if segment.writable || kind == Kind::Read => {}
            _ if machine::is_pinned(address, bytes) => {}
            _ => {
                fail(describe::nowhere(&access, c.lds.iter().map(|object| object.start..object.start + object.length)))
            }
        }
    }
}

/// Checks an access to an address in the arena that no short cut has found to be right.
fn check_device(access: Access) {
    let Access { address, bytes, kind, .. } = access;
    // SAFETY: called from a kernel.
    let c = unsafe { &mut engine().checker };
    // SAFETY: the states of the arena are mapped, and only the executing thread touches those of live allocations.
    let states = unsafe { std::slice::from_raw_parts_mut(c.states::<1>(address).cast::<u8>(), bytes) };
    if states.contains(&UNADDRESSABLE) {
        machine::lock().memory.note_untouched(address, bytes);
    }
    // An atomic operation on a part of a word is made of one on the whole word, which may reach past the end.
    let exempt = |state: &u8| kind == Kind::Atomic && *state == UNADDRESSABLE;
    if states.iter().all(|state| *state == UNADDRESSABLE)
        || states.iter().any(|state| *state == UNADDRESSABLE && !exempt(state))
    {
        fail(describe::invalid_address(&access));
    }
    let initialized = |state: &u8| *state == INITIALIZED;
    match kind {
        Kind::Read if !states.iter().all(initialized) => fail(describe::uninitialized(&access)),
        Kind::Atomic if !states.iter().any(initialized) => fail(describe::uninitialized(&access)),
        Kind::Read => {}
        Kind::Write | Kind::Atomic => {
            states.iter_mut().filter(|state| **state != UNADDRESSABLE).for_each(|state| *state = INITIALIZED);
        }
    }
    if kind == Kind::Atomic {
        // SAFETY: called from a kernel.
        unsafe { engine() }.block().has_used_atomics = true;
    }
    // SAFETY: the bytes are those of a live allocation.
    if let Some(earlier) = unsafe { c.find_race(address, bytes, kind) } {
        race(access, Earlier::Device(earlier));
    }
}

/// Checks an access to bytes of LDS, counted from the start of the static LDS through the dynamic.
fn check_lds(access: Access, start: usize) {
    // SAFETY: called from a kernel.
    let c = unsafe { &mut engine().checker };
    // SAFETY: those of the current block.
    let touches = unsafe { &mut *c.touches };
    let bytes = start..start + access.bytes;
    let own = if access.kind == Kind::Atomic { c.touch.as_atomic() } else { c.touch };
    if access.kind != Kind::Write && touches.writes[bytes.clone()].iter().any(|write| !write.exists()) {
        fail(describe::uninitialized(&access));
    }
    let races = |earlier: &&Touch| earlier.races_with(own, c.wave_size);
    let write = touches.writes[bytes.clone()].iter().find(races).map(|write| Earlier::LdsWrite(*write));
    let read = || touches.reads[bytes.clone()].iter().find(races).map(|read| Earlier::LdsRead(*read));
    let earlier = if access.kind == Kind::Read { write } else { write.or_else(read) };
    match access.kind {
        Kind::Read => touches.reads[bytes].iter_mut().for_each(|read| *read = read.and_also(own, c.wave_size)),
        Kind::Write | Kind::Atomic => touches.writes[bytes].fill(own),
    }
    if let Some(earlier) = earlier {
        race(access, earlier);
    }
}

/// Reports a race, of a plain write only once it turns out to change something.
fn race(access: Access, earlier: Earlier) {
    if access.kind != Kind::Write {
        fail(describe::race(&access, earlier));
    }
    let mut before = [0; 16];
    let kept = access.bytes.min(before.len());
    // SAFETY: the access was found to be to memory that is there.
    unsafe { ptr::copy_nonoverlapping(access.address as *const u8, before.as_mut_ptr(), kept) };
    // SAFETY: called from a kernel.
    unsafe { engine() }.checker.pending = Some(Pending { access, earlier, before, kept });
}

/// Reports the last racing write of the running thread if it has changed something.
pub fn settle() {
    // SAFETY: called from a kernel.
    let Some(pending) = unsafe { engine() }.checker.pending.take() else { return };
    // SAFETY: as in `race`.
    let now = unsafe { std::slice::from_raw_parts(pending.access.address as *const u8, pending.kept) };
    if now != &pending.before[..pending.kept] {
        fail(describe::race(&pending.access, pending.earlier));
    }
}
