//! What the checks of the running thread go by: what it may touch, and how its accesses are marked.

use std::ops::Range;
use std::ptr;

use super::access::{Access, Earlier};
use super::block::Block;
use super::launch::Launch;
use super::lds::{Touch, Touches};
use super::race::{MAX_LAUNCH, Write};
use crate::memory::{Arena, RACE_CELL, RACE_GRAIN};
use crate::module::Segment;
use crate::settings::settings;

/// A racing write of which only the outcome shows whether it does harm: writing the same value again does none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    pub(super) access: Access,
    pub(super) earlier: Earlier,
    /// Content before the write, of as many bytes as were kept.
    pub(super) before: [u8; 16],
    pub(super) kept: usize,
}

/// Addresses as start and length: one comparison tells whether something lies inside.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) start: usize,
    pub(super) length: usize,
}

impl Span {
    pub(super) fn new(addresses: Range<usize>) -> Self {
        Self { start: addresses.start, length: addresses.len() }
    }

    #[inline(always)]
    pub(super) fn contains(self, address: usize) -> bool {
        address.wrapping_sub(self.start) < self.length
    }

    pub(super) fn contains_all(self, address: usize, bytes: usize) -> bool {
        self.contains(address) && self.length - (address - self.start) >= bytes
    }
}

/// What the running thread may touch, and how its accesses are marked.
#[derive(Debug)]
pub struct Checker {
    enabled: bool,
    pub(super) stack: Span,
    /// Memory of the device that runs the kernel.
    pub(super) device: Span,
    state_offset: usize,
    races: usize,
    arena_base: usize,
    /// Marks writes of the running thread to device memory.
    pub(super) writer: Write,
    pub(super) pending: Option<Pending>,
    /// The LDS objects of the block, the dynamic LDS last.
    pub(super) lds: Vec<Span>,
    pub(super) touches: *mut Touches,
    /// Marks accesses of the running thread to LDS.
    pub(super) touch: Touch,
    pub(super) wave_size: u32,
    pub(super) reachable: u64,
    pub(super) image: *const [Segment],
    launches: u64,
}

const NOWHERE: Span = Span { start: 0, length: 0 };

impl Checker {
    /// One that lets everything pass until it is prepared.
    pub const fn new() -> Self {
        Self {
            enabled: false,
            stack: NOWHERE,
            device: NOWHERE,
            state_offset: 0,
            races: 0,
            arena_base: 0,
            writer: Write::NONE,
            pending: None,
            lds: Vec::new(),
            touches: ptr::null_mut(),
            touch: Touch::NONE,
            wave_size: 0,
            reachable: 0,
            image: &[],
            launches: 0,
        }
    }

    /// Makes ready for a launch.
    pub fn prepare(&mut self, arena: &Arena, launch: &Launch) {
        self.enabled = settings().check;
        self.device = Span::new(arena.addresses(launch.device));
        (self.state_offset, self.races, self.arena_base) = (arena.state_offset, arena.races, arena.base);
        self.wave_size = launch.model().wave_size;
        self.reachable = launch.reachable;
        self.image = launch.function.module.segments();
        self.pending = None;
        self.launches += 1;
        if self.launches > MAX_LAUNCH {
            arena.forget_races();
            self.launches = 1;
        }
    }

    /// Whether accesses are checked at all.
    pub fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// The running thread has another stack.
    pub fn enter_stack(&mut self, stack: Range<usize>) {
        self.stack = Span::new(stack);
    }

    /// The addresses of the running thread's stack.
    pub fn stack(&self) -> Range<usize> {
        self.stack.start..self.stack.start + self.stack.length
    }

    /// Another block runs.
    pub fn enter_lds(&mut self, static_lds: &[Range<usize>], block: &mut Block) {
        self.lds.clear();
        self.lds.extend(static_lds.iter().cloned().chain([block.dynamic_lds.addresses()]).map(Span::new));
        self.touches = &raw mut block.touches;
    }

    /// Where an access lies in the LDS, counted through all its objects.
    #[inline]
    pub(super) fn lds_offset(&self, address: usize, bytes: usize) -> Option<usize> {
        let mut offset = 0;
        for object in &self.lds {
            if object.contains_all(address, bytes) {
                return Some(offset + address - object.start);
            }
            offset += object.length;
        }
        None
    }

    /// Another thread runs, or the same one after a wait.
    pub fn enter_thread(&mut self, block: &Block, thread: u32) {
        if self.enabled {
            let wave = (thread / self.wave_size) as usize;
            self.writer = Write::by(self.launches, block.number, block.barriers, thread);
            self.touch = Touch::new(thread, block.barriers, block.wave_synchronisations[wave], false);
        }
    }

    /// The states of bytes of device memory.
    ///
    /// # Safety
    /// The address lies in the arena.
    #[inline(always)]
    pub(super) unsafe fn states<const BYTES: usize>(&self, address: usize) -> *mut [u8; BYTES] {
        address.wrapping_add(self.state_offset) as *mut [u8; BYTES]
    }

    /// Calls `visit` with the race cell and the bytes of each word that an access touches.
    ///
    /// # Safety
    /// The addresses lie in the arena.
    #[inline(always)]
    pub(super) unsafe fn words(&self, address: usize, bytes: usize, mut visit: impl FnMut(&mut Write, u64)) {
        let offset = address - self.arena_base;
        let (first, last) = (offset / RACE_GRAIN, (offset + bytes - 1) / RACE_GRAIN);
        for word in first..=last {
            let low = if word == first { offset % RACE_GRAIN } else { 0 };
            let high = if word == last { (offset + bytes - 1) % RACE_GRAIN + 1 } else { RACE_GRAIN };
            // SAFETY: the cells of the arena's words are mapped, and only the executing thread uses them.
            let cell = unsafe { &mut *((self.races + word * RACE_CELL) as *mut Write) };
            visit(cell, (1 << high) - (1 << low));
        }
    }
}
