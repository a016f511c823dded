//! Device memory: guarded allocations within a limit per device; poisoned, or if they are large, sparse.

mod arena;
pub mod guard;
mod ranges;
mod shadow;

use std::collections::{BTreeMap, VecDeque};
use std::ptr;

pub use arena::{Arena, RACE_CELL, RACE_GRAIN};
pub use shadow::{ByteState, POISON, copy_state, find_other, set_state, state_of};

use crate::error::{HipError, HipResult};
use crate::settings::settings;
use ranges::FreeRanges;

/// Addresses on both sides of an allocation that belong to nothing.
const RED_ZONE: usize = 256;
/// What hipMalloc aligns to.
const ALIGNMENT: usize = 256;
/// Freed bytes per segment that rest before their addresses are used again.
const QUARANTINE: usize = 256 << 20;
/// Bytes from which an allocation of a device is sparse.
const SPARSE_FROM: usize = 256 << 20;
/// Bytes of a sparse allocation whose states are set together: those that a page of states has.
const STATES_AT_ONCE: usize = 4096;

/// Where an allocation lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the memory of a device.
    Device(usize),
    /// Pinned on the host; every device may use it.
    Host,
}

/// A live or freed allocation.
#[derive(Clone, Copy, Debug)]
pub struct Allocation {
    /// First address.
    pub start: usize,
    /// Bytes that were asked for.
    pub size: usize,
    /// Where it lives.
    pub place: Place,
    /// Counts allocations from 1 on, to tell them apart in reports.
    pub number: u64,
}

impl Allocation {
    /// Whether its pages, and those of its states, cost nothing until they are used. It is not poisoned, and the states of
    /// its bytes say [`ByteState::Unaddressable`] until [`Memory::note_untouched`] looks at them.
    fn is_sparse(&self) -> bool {
        self.size >= SPARSE_FROM && self.place != Place::Host
    }

    /// Bytes from the allocation to an address: 0 if it holds it.
    fn distance(&self, address: usize) -> usize {
        let past = (address + 1).saturating_sub(self.start + self.size);
        past.max(self.start.saturating_sub(address))
    }

    /// First address and length of what the allocation takes, red zones included.
    fn footprint(&self) -> (usize, usize) {
        (self.start - RED_ZONE, footprint(self.size))
    }
}

fn footprint(size: usize) -> usize {
    size.next_multiple_of(ALIGNMENT) + 2 * RED_ZONE
}

#[derive(Debug)]
struct Segment {
    free: FreeRanges,
    live_bytes: usize,
    quarantine: VecDeque<Allocation>,
    quarantine_bytes: usize,
}

/// Every allocation of the process.
#[derive(Debug)]
pub struct Memory {
    live: BTreeMap<usize, Allocation>,
    segments: Vec<Segment>,
    allocated: u64,
}

impl Default for Memory {
    fn default() -> Self {
        let arena = Arena::get();
        let segment = |index| Segment {
            free: FreeRanges::new(arena.addresses(index)),
            live_bytes: 0,
            quarantine: VecDeque::new(),
            quarantine_bytes: 0,
        };
        Self { live: BTreeMap::new(), segments: (0..arena.segments).map(segment).collect(), allocated: 0 }
    }
}

impl Memory {
    /// Allocates poisoned or sparse memory; of zero bytes too, as hipMalloc's callers expect a null pointer for that.
    ///
    /// # Errors
    /// `hipErrorOutOfMemory` when the device's limit would be passed.
    pub fn allocate(&mut self, place: Place, size: usize) -> HipResult<usize> {
        let _inside = guard::enter();
        let segment = &mut self.segments[index_of(place)];
        if size > settings().memory - segment.live_bytes {
            return Err(HipError::OUT_OF_MEMORY);
        }
        let length = footprint(size);
        let start = loop {
            match segment.free.take(length) {
                Some(start) => break start + RED_ZONE,
                None => segment.reuse_oldest().ok_or(HipError::OUT_OF_MEMORY)?,
            }
        };
        segment.live_bytes += size;
        self.allocated += 1;
        let allocation = Allocation { start, size, place, number: self.allocated };
        self.live.insert(start, allocation);
        if !allocation.is_sparse() {
            // SAFETY: the range was free and lies in the arena.
            unsafe { ptr::write_bytes(start as *mut u8, POISON, size) };
            // The host writes to pinned memory without telling.
            set_state(
                start,
                size,
                if place == Place::Host { ByteState::Initialized } else { ByteState::Uninitialized },
            );
        }
        Ok(start)
    }

    /// Frees an allocation by its first address and returns what it was. Its bytes are poisoned and rest for a while.
    ///
    /// # Errors
    /// `hipErrorInvalidValue` when no live allocation starts there.
    pub fn free(&mut self, start: usize) -> HipResult<Allocation> {
        let _inside = guard::enter();
        let allocation = self.live.remove(&start).ok_or(HipError::INVALID_VALUE)?;
        set_state(start, allocation.size, ByteState::Unaddressable);
        if allocation.is_sparse() {
            arena::discard(start, allocation.size);
        } else {
            // SAFETY: the allocation was live until now, so its bytes are ours.
            unsafe { ptr::write_bytes(start as *mut u8, POISON, allocation.size) };
        }
        let segment = &mut self.segments[index_of(allocation.place)];
        segment.live_bytes -= allocation.size;
        segment.quarantine_bytes += allocation.size;
        segment.quarantine.push_back(allocation);
        while segment.quarantine_bytes > QUARANTINE {
            segment.reuse_oldest();
        }
        Ok(allocation)
    }

    /// Gives the bytes around an access that belong to a sparse allocation, and that nobody has written, their state.
    pub fn note_untouched(&self, address: usize, bytes: usize) {
        let Some(allocation) = self.find(address).or_else(|| self.find(address + bytes - 1)) else { return };
        if allocation.is_sparse() {
            let first = (address / STATES_AT_ONCE * STATES_AT_ONCE).max(allocation.start);
            let end = (address + bytes).next_multiple_of(STATES_AT_ONCE).min(allocation.start + allocation.size);
            shadow::raise_to_uninitialized(first, end - first);
        }
    }

    /// The first addresses of the live allocations of a place.
    pub fn starts_in(&self, place: Place) -> Vec<usize> {
        self.live.values().filter(|allocation| allocation.place == place).map(|allocation| allocation.start).collect()
    }

    /// The live allocation that holds an address.
    pub fn find(&self, address: usize) -> Option<&Allocation> {
        let (_, allocation) = self.live.range(..=address).next_back()?;
        (allocation.distance(address) == 0).then_some(allocation)
    }

    /// The allocation nearest to an address, live ones first, and whether it was freed.
    pub fn nearest(&self, address: usize) -> Option<(Allocation, bool)> {
        let freed = self.segments.iter().flat_map(|segment| &segment.quarantine);
        if let Some(allocation) = freed.clone().find(|allocation| allocation.distance(address) == 0) {
            return Some((*allocation, true));
        }
        let before = self.live.range(..=address).next_back();
        let after = self.live.range(address..).next();
        let live = before.into_iter().chain(after).map(|(_, allocation)| (*allocation, false));
        live.chain(freed.map(|allocation| (*allocation, true)))
            .min_by_key(|(allocation, _)| allocation.distance(address))
    }

    /// Free and total bytes of a device.
    pub fn info(&self, device: usize) -> (usize, usize) {
        let total = settings().memory;
        (total - self.segments[device].live_bytes, total)
    }
}

impl Segment {
    /// Ends the rest of the allocation that was freed first.
    fn reuse_oldest(&mut self) -> Option<()> {
        let allocation = self.quarantine.pop_front()?;
        self.quarantine_bytes -= allocation.size;
        let (start, length) = allocation.footprint();
        shadow::release(start, length);
        self.free.give(start, length);
        Some(())
    }
}

fn index_of(place: Place) -> usize {
    match place {
        Place::Device(device) => device,
        Place::Host => Arena::get().host_segment(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, MutexGuard};

    use super::*;

    /// A memory of its own for a test; they all use the same addresses, so one test runs at a time.
    fn fresh() -> (Memory, (guard::Inside, MutexGuard<'static, ()>)) {
        static ARENA_IN_USE: Mutex<()> = Mutex::new(());
        let guard = ARENA_IN_USE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        (Memory::default(), (guard::enter(), guard))
    }

    fn bytes(start: usize, length: usize) -> Vec<u8> {
        // SAFETY: callers pass live allocations.
        unsafe { std::slice::from_raw_parts(start as *const u8, length) }.to_vec()
    }

    #[test]
    fn fresh_memory_is_poisoned_and_uninitialized_between_red_zones() {
        let (mut memory, _guard) = fresh();
        let start = memory.allocate(Place::Device(0), 1000).unwrap();
        assert_eq!(start % ALIGNMENT, 0);
        assert_eq!(bytes(start, 1000), vec![POISON; 1000]);
        assert_eq!(find_other(start, 1000, &[ByteState::Uninitialized]), None);
        assert_eq!((state_of(start - 1), state_of(start + 1000)), (ByteState::Unaddressable, ByteState::Unaddressable));
    }

    #[test]
    fn sparse_memory_is_uninitialized_between_red_zones_and_forgets_what_was_in_it() {
        let (mut memory, _guard) = fresh();
        let start = memory.allocate(Place::Device(0), SPARSE_FROM + 1).unwrap();
        let end = start + SPARSE_FROM + 1;
        set_state(end - 3, 1, ByteState::Initialized);
        // SAFETY: the allocation is live.
        unsafe { ptr::write_bytes((start + 8192) as *mut u8, 7, 4096) };
        memory.note_untouched(start - 1, 2);
        memory.note_untouched(end - 1, 2);
        assert_eq!((state_of(start - 1), state_of(start)), (ByteState::Unaddressable, ByteState::Uninitialized));
        let last = [end - 3, end - 2, end - 1, end].map(state_of);
        let untouched = ByteState::Uninitialized;
        assert_eq!(last, [ByteState::Initialized, untouched, untouched, ByteState::Unaddressable]);
        memory.free(start).unwrap();
        assert_eq!(find_other(end - 9000, 9000, &[ByteState::Unaddressable]), None);
        assert_eq!(memory.allocate(Place::Device(0), SPARSE_FROM + 1).unwrap(), start);
        assert_eq!(bytes(start + 8192, 4096), vec![0; 4096]);
    }

    #[test]
    fn freed_memory_rests_and_is_remembered() {
        let (mut memory, _guard) = fresh();
        let first = memory.allocate(Place::Device(0), 64).unwrap();
        memory.free(first).unwrap();
        assert_eq!(state_of(first), ByteState::Unaddressable);
        assert_ne!(memory.allocate(Place::Device(0), 64).unwrap(), first);
        let (nearest, freed) = memory.nearest(first + 10).unwrap();
        assert_eq!((nearest.start, nearest.number, freed), (first, 1, true));
        assert_eq!(memory.free(first).unwrap_err(), HipError::INVALID_VALUE);
    }

    #[test]
    fn the_limit_counts_live_bytes_of_one_device() {
        let (mut memory, _guard) = fresh();
        let (free, total) = memory.info(0);
        assert_eq!(free, total);
        assert_eq!(memory.allocate(Place::Device(0), total + 1).unwrap_err(), HipError::OUT_OF_MEMORY);
        let start = memory.allocate(Place::Device(0), 1 << 20).unwrap();
        assert_eq!(memory.info(0).0, total - (1 << 20));
        memory.free(start).unwrap();
        assert_eq!(memory.info(0).0, total);
    }

    #[test]
    fn nearest_prefers_the_closer_side() {
        let (mut memory, _guard) = fresh();
        let first = memory.allocate(Place::Device(0), 256).unwrap();
        let second = memory.allocate(Place::Device(0), 256).unwrap();
        assert_eq!(memory.nearest(first + 256).unwrap().0.start, first);
        assert_eq!(memory.nearest(second - 1).unwrap().0.start, second);
        assert_eq!(memory.find(first + 255).unwrap().start, first);
        assert!(memory.find(first + 256).is_none());
    }
}
