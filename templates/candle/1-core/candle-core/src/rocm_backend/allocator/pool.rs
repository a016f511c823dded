//! Which parts of which segments are free. Bookkeeping only: nothing here calls HIP.
use super::MemoryStats;
use crate::rocm_backend::hip::HipResult;
use crate::rocm_backend::RocmError;
use std::collections::{BTreeMap, BTreeSet};

/// Blocks are multiples of this, and begin at one: vector loads stay aligned, and a few sizes serve all small tensors.
const GRANULARITY: usize = 512;
/// Segments are multiples of this, the size of a page of GPU memory.
const SEGMENT_GRANULARITY: usize = 2 << 20;
/// From this size on, blocks have segments apart from the small ones, and a remainder is only cut off if as large.
const LARGE: usize = 1 << 20;
/// Bytes that may be cached beyond one and a half times the peak use.
const SLACK: usize = 64 << 20;

/// How blocks come from segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Policy {
    /// Many blocks share a segment, and what is given back is kept.
    Caching,
    /// A block is a segment, of exactly the size that was asked for, and nothing is kept.
    Direct,
}

/// A part of a segment in use. There is one for each call of `take` or `add` until it is given back.
#[derive(Debug)]
pub(in crate::rocm_backend) struct Block {
    address: usize,
}

impl Block {
    /// Where it begins on the device.
    pub(in crate::rocm_backend) fn address(&self) -> usize {
        self.address
    }
}

/// An allocation of the runtime outside of the pool, without any block in use.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) address: usize,
    size: usize,
    class: Class,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    Small,
    Large,
}

/// An allocation of the runtime, and its state.
#[derive(Debug)]
struct Extent {
    size: usize,
    class: Class,
    /// Bytes of its pieces in use.
    used: usize,
    /// When that became 0 last, in calls of `give`.
    idle_since: u64,
}

/// A stretch of a segment that is in use or free as a whole.
#[derive(Debug)]
struct Piece {
    size: usize,
    /// Where the segment begins.
    segment: usize,
    free: bool,
}

#[derive(Debug)]
pub(super) struct Pool {
    policy: Policy,
    /// By first address.
    extents: BTreeMap<usize, Extent>,
    /// By first address; those of a segment have no gaps, and no two free ones are neighbours.
    pieces: BTreeMap<usize, Piece>,
    /// The free pieces, for finding the smallest that is large enough: class, size, address.
    free: BTreeSet<(Class, usize, usize)>,
    /// Bytes of all segments, with those on their way from and to the GPU.
    held: usize,
    /// Segments on their way to the GPU.
    releasing: usize,
    limit: Option<usize>,
    gives: u64,
    stats: MemoryStats,
}

impl Pool {
    pub(super) fn new(policy: Policy) -> Self {
        Self {
            policy,
            extents: BTreeMap::new(),
            pieces: BTreeMap::new(),
            free: BTreeSet::new(),
            held: 0,
            releasing: 0,
            limit: None,
            gives: 0,
            stats: MemoryStats::default(),
        }
    }

    pub(super) fn set_limit(&mut self, limit: Option<usize>) {
        self.limit = limit;
    }

    pub(super) fn stats(&self) -> MemoryStats {
        MemoryStats {
            cached: self.held - self.stats.allocated,
            ..self.stats
        }
    }

    /// At least `size` bytes of what is free: the smallest piece that is large enough, and of those the one with the
    /// lowest address, which leaves whole segments free at the upper end.
    pub(super) fn take(&mut self, size: usize) -> Option<Block> {
        let size = self.block_size(size);
        let class = Class::of(size);
        let from = (class, size, 0);
        let &(_, _, address) = self
            .free
            .range(from..)
            .next()
            .filter(|piece| piece.0 == class)?;
        self.stats.reuses += 1;
        Some(self.occupy(address, size))
    }

    /// Bytes of a block in use.
    pub(super) fn size_of(&self, block: &Block) -> usize {
        self.pieces[&block.address].size
    }

    /// Where the segment begins that has a block in use.
    pub(super) fn segment_of(&self, block: &Block) -> usize {
        self.pieces[&block.address].segment
    }

    /// Whether a block in use is large enough for `size` bytes, and not so large that most of it would be wasted.
    pub(super) fn suits(&self, block: &Block, size: usize) -> bool {
        let (size, room) = (self.block_size(size), self.size_of(block));
        match self.policy {
            Policy::Caching => size <= room && room <= size.saturating_mul(2),
            Policy::Direct => size == room,
        }
    }

    /// Room for a segment in which `size` bytes fit: how many bytes it has. `add` or `cancel` must follow.
    pub(super) fn reserve(&mut self, size: usize) -> HipResult<usize> {
        let bytes = self.segment_size(size);
        let limit = self.limit.unwrap_or(usize::MAX);
        if bytes > limit.saturating_sub(self.held) {
            return Err(RocmError::MemoryLimit {
                requested: bytes,
                held: self.held,
                limit,
            });
        }
        self.held += bytes;
        Ok(bytes)
    }

    /// Takes `reserve` back.
    pub(super) fn cancel(&mut self, bytes: usize) {
        self.held -= bytes;
    }

    /// A block of `size` bytes in a new segment, for which `reserve` gave that many bytes.
    pub(super) fn add(&mut self, address: usize, bytes: usize, size: usize) -> Block {
        self.stats.device_allocations += 1;
        let class = Class::of(self.block_size(size));
        self.insert(Segment {
            address,
            size: bytes,
            class,
        });
        self.occupy(address, self.block_size(size))
    }

    /// Takes a block back. The answer is what shall be given back to the GPU at once.
    pub(super) fn give(&mut self, block: Block) -> Vec<Segment> {
        self.gives += 1;
        let address = block.address;
        let piece = &self.pieces[&address];
        let (size, segment) = (piece.size, piece.segment);
        self.stats.allocated -= size;
        let extent = self.extents.get_mut(&segment).expect("pieces have one");
        extent.used -= size;
        extent.idle_since = self.gives;
        self.vacate(address);
        match self.policy {
            Policy::Caching => Vec::new(),
            Policy::Direct => self.remove_idle(),
        }
    }

    /// All segments that nobody uses. They count as held until `forget`; `restore` takes one back.
    pub(super) fn remove_idle(&mut self) -> Vec<Segment> {
        self.remove(self.idle())
    }

    /// Segments that nobody has used for longest, if that of a block of `size` bytes would make more than
    /// one and a half times the peak of what was in use, and `SLACK`.
    ///
    /// Without this, a tensor that grows step by step, as a cache of keys and values does, leaves a segment of each
    /// of its sizes behind.
    pub(super) fn remove_surplus(&mut self, size: usize) -> Vec<Segment> {
        let wanted = self.stats.allocated.saturating_add(self.block_size(size));
        let peak = self.stats.peak_allocated.max(wanted);
        let bound = peak.saturating_add(peak / 2).saturating_add(SLACK);
        let upcoming = self.held.saturating_add(self.segment_size(size));
        let mut excess = upcoming.saturating_sub(bound);
        let mut idle = self.idle();
        idle.sort_by_key(|address| self.extents[address].idle_since);
        idle.retain(|address| {
            let is_surplus = excess > 0;
            excess = excess.saturating_sub(self.extents[address].size);
            is_surplus
        });
        self.remove(idle)
    }

    /// The segment has been given back to the GPU.
    pub(super) fn forget(&mut self, segment: Segment) {
        self.stats.device_frees += 1;
        self.held -= segment.size;
        self.releasing -= 1;
    }

    /// The segment could not be given back to the GPU.
    pub(super) fn restore(&mut self, segment: Segment) {
        self.insert(segment);
        self.releasing -= 1;
    }

    /// Whether segments were removed that were neither forgotten nor restored yet.
    pub(super) fn is_releasing(&self) -> bool {
        self.releasing > 0
    }

    /// A segment, all of it free.
    fn insert(&mut self, segment: Segment) {
        let Segment {
            address,
            size,
            class,
        } = segment;
        let extent = Extent {
            size,
            class,
            used: 0,
            idle_since: self.gives,
        };
        let piece = Piece {
            size,
            segment: address,
            free: true,
        };
        self.extents.insert(address, extent);
        self.pieces.insert(address, piece);
        self.free.insert((class, size, address));
    }

    /// The addresses of the segments that nobody uses.
    fn idle(&self) -> Vec<usize> {
        self.extents
            .iter()
            .filter(|(_, extent)| extent.used == 0)
            .map(|(&address, _)| address)
            .collect()
    }

    fn remove(&mut self, addresses: Vec<usize>) -> Vec<Segment> {
        self.releasing += addresses.len();
        addresses
            .into_iter()
            .map(|address| {
                let Extent { size, class, .. } =
                    self.extents.remove(&address).expect("it is one of ours");
                self.pieces.remove(&address);
                self.free.remove(&(class, size, address));
                Segment {
                    address,
                    size,
                    class,
                }
            })
            .collect()
    }

    /// Takes the first `size` bytes of a free piece into use, or all of it where the rest would be too small.
    fn occupy(&mut self, address: usize, size: usize) -> Block {
        let piece = self.pieces.get_mut(&address).expect("callers look it up");
        let (whole, segment) = (piece.size, piece.segment);
        let extent = self.extents.get_mut(&segment).expect("pieces have one");
        self.free.remove(&(extent.class, whole, address));
        let rest = whole - size;
        let used = if rest < extent.class.smallest() {
            whole
        } else {
            size
        };
        piece.free = false;
        piece.size = used;
        extent.used += used;
        if used < whole {
            let rest_address = address + used;
            self.free.insert((extent.class, rest, rest_address));
            let piece = Piece {
                size: rest,
                segment,
                free: true,
            };
            self.pieces.insert(rest_address, piece);
        }
        self.stats.allocated += used;
        self.stats.peak_allocated = self.stats.peak_allocated.max(self.stats.allocated);
        Block { address }
    }

    /// Makes a piece free, as one with its free neighbours in the segment.
    fn vacate(&mut self, address: usize) {
        let piece = self.pieces.remove(&address).expect("callers look it up");
        let class = self.extents[&piece.segment].class;
        let (mut start, mut size) = (address, piece.size);
        let is_free = |other: &Piece| other.free && other.segment == piece.segment;
        let before = self.pieces.range(..address).next_back();
        if let Some((&before, other)) = before.filter(|(_, other)| is_free(other)) {
            start = before;
            size += other.size;
            self.free.remove(&(class, other.size, before));
            self.pieces.remove(&before);
        }
        let after = address + piece.size;
        if let Some(other) = self.pieces.get(&after).filter(|other| is_free(other)) {
            size += other.size;
            self.free.remove(&(class, other.size, after));
            self.pieces.remove(&after);
        }
        self.free.insert((class, size, start));
        let free = Piece {
            size,
            segment: piece.segment,
            free: true,
        };
        self.pieces.insert(start, free);
    }

    /// Sizes too large to be rounded stay as they are, and the runtime refuses them.
    fn block_size(&self, size: usize) -> usize {
        match self.policy {
            Policy::Caching => size.checked_next_multiple_of(GRANULARITY).unwrap_or(size),
            Policy::Direct => size,
        }
    }

    fn segment_size(&self, size: usize) -> usize {
        let size = self.block_size(size);
        match self.policy {
            Policy::Caching => size
                .checked_next_multiple_of(SEGMENT_GRANULARITY)
                .unwrap_or(size),
            Policy::Direct => size,
        }
    }
}

impl Class {
    fn of(block_size: usize) -> Self {
        if block_size < LARGE {
            Self::Small
        } else {
            Self::Large
        }
    }

    /// The smallest remainder that is worth a piece of its own.
    fn smallest(self) -> usize {
        match self {
            Self::Small => GRANULARITY,
            Self::Large => LARGE,
        }
    }
}
