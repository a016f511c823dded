//! Device memory: guarded allocations within a limit per device; poisoned, or if they are large, sparse.

mod arena;
pub mod guard;
mod ranges;
mod shadow;
mod shared;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ptr;

pub use arena::{Arena, MARGIN, RACE_CELL, RACE_GRAIN};
pub use shadow::{ByteState, POISON, copy_state, find_other, set_state, state_of};
pub use shared::HANDLE_BYTES;

use crate::error::{HipError, HipResult};
use crate::settings::settings;
use ranges::FreeRanges;
use shared::Import;

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
    /// The pages that other processes may have too.
    shared: BTreeSet<usize>,
    /// What is another process's memory, by first address.
    imports: BTreeMap<usize, Import>,
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
        Self {
            live: BTreeMap::new(),
            segments: (0..arena.segments).map(segment).collect(),
            allocated: 0,
            shared: BTreeSet::new(),
            imports: BTreeMap::new(),
        }
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
    /// `hipErrorInvalidValue` when no live allocation starts there, or it is another process's.
    pub fn free(&mut self, start: usize) -> HipResult<Allocation> {
        let _inside = guard::enter();
        if self.imports.contains_key(&start) {
            return Err(HipError::INVALID_VALUE);
        }
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

    /// The first addresses of the live allocations of a place, without those of other processes.
    pub fn starts_in(&self, place: Place) -> Vec<usize> {
        let own = |allocation: &&Allocation| !self.imports.contains_key(&allocation.start);
        let here = self.live.values().filter(|allocation| allocation.place == place);
        here.filter(own).map(|allocation| allocation.start).collect()
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
mod tests;
