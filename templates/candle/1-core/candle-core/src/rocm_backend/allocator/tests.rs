//! Tests of the pool, which needs no GPU.
use super::policy_of;
use super::pool::{Block, Policy, Pool, Segment};
use crate::rocm_backend::RocmError;
use std::collections::BTreeMap;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// A pool on made-up segments.
struct Machine {
    pool: Pool,
    /// Size by address.
    segments: BTreeMap<usize, usize>,
    next_address: usize,
}

impl Machine {
    fn new(policy: Policy) -> Self {
        Self {
            pool: Pool::new(policy),
            segments: BTreeMap::new(),
            next_address: 4 * KIB,
        }
    }

    fn grow(&mut self, size: usize) -> Block {
        let bytes = self.pool.reserve(size).expect("there is no limit");
        let address = self.next_address;
        // Right after the last one: neighbours in memory that are not of one segment.
        self.next_address += bytes;
        self.segments.insert(address, bytes);
        self.pool.add(address, bytes, size)
    }

    fn allocate(&mut self, size: usize) -> Block {
        self.pool.take(size).unwrap_or_else(|| self.grow(size))
    }

    fn give(&mut self, block: Block) {
        let unwanted = self.pool.give(block);
        self.free(unwanted);
    }

    fn free(&mut self, segments: Vec<Segment>) {
        for segment in segments {
            let known = self.segments.remove(&segment.address);
            assert!(
                known.is_some(),
                "{segment:?} is not held, or was freed before"
            );
            self.pool.forget(segment);
        }
    }

    fn trim(&mut self) {
        let idle = self.pool.remove_idle();
        self.free(idle);
    }

    fn held(&self) -> usize {
        let stats = self.pool.stats();
        assert_eq!(
            stats.allocated + stats.cached,
            self.segments.values().sum::<usize>()
        );
        stats.allocated + stats.cached
    }

    /// How often the runtime was asked.
    fn device_allocations(&self) -> u64 {
        self.pool.stats().device_allocations
    }
}

/// Marsaglia's xorshift, so that a failure can be repeated.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }

    /// Sizes of all magnitudes, and what lies around the places where the rules change.
    fn size(&mut self) -> usize {
        const EDGES: [usize; 5] = [512, MIB - 512, MIB, 2 * MIB, 5 * MIB];
        match self.below(3) {
            0 => EDGES[self.below(EDGES.len())] + self.below(3) - 1,
            1 => 1 + self.below(4 * KIB),
            _ => 1 + self.below(12 * MIB),
        }
    }
}

/// Blocks in use by address, with the size that was asked for; panics where two overlap or one leaves its segment.
fn check(machine: &Machine, live: &BTreeMap<usize, (usize, Block)>) {
    let mut end = 0;
    for (&address, (size, _)) in live {
        assert!(address >= end, "two blocks share {address:#x}");
        end = address + size;
        let (&start, bytes) = machine
            .segments
            .range(..=address)
            .next_back()
            .expect("blocks lie in segments");
        assert!(
            end <= start + bytes,
            "{address:#x} + {size} leaves its segment"
        );
    }
    let asked: usize = live.values().map(|(size, _)| size).sum();
    let stats = machine.pool.stats();
    assert!(stats.allocated >= asked);
    assert!(stats.peak_allocated >= stats.allocated);
    machine.held();
}

#[test]
fn random_use_keeps_blocks_apart_and_counts_right() {
    for policy in [Policy::Caching, Policy::Direct] {
        for seed in 1..30 {
            let mut random = Random(seed);
            let mut machine = Machine::new(policy);
            let mut live: BTreeMap<usize, (usize, Block)> = BTreeMap::new();
            for _ in 0..300 {
                match random.below(20) {
                    0 => machine.trim(),
                    1 => {
                        let surplus = machine.pool.remove_surplus(random.size());
                        machine.free(surplus);
                    }
                    2..=11 => {
                        let size = random.size();
                        let block = machine.allocate(size);
                        assert!(live.insert(block.address(), (size, block)).is_none());
                    }
                    _ if live.is_empty() => {}
                    _ => {
                        let nth = random.below(live.len());
                        let address = *live.keys().nth(nth).expect("there are more");
                        let (_, block) = live.remove(&address).expect("it is one of them");
                        machine.give(block);
                    }
                }
                check(&machine, &live);
            }
            for (_, (_, block)) in live {
                machine.give(block);
            }
            assert_eq!(machine.pool.stats().allocated, 0);
            machine.trim();
            assert!(machine.segments.is_empty(), "pieces have not come together");
            assert_eq!(machine.held(), 0);
            let stats = machine.pool.stats();
            assert_eq!(stats.device_allocations, stats.device_frees);
        }
    }
}

#[test]
fn small_blocks_share_a_segment() {
    let mut machine = Machine::new(Policy::Caching);
    let blocks: Vec<_> = (0..4096).map(|_| machine.allocate(512)).collect();
    assert_eq!(machine.device_allocations(), 1);
    assert_eq!(machine.held(), 2 * MIB);
    assert_eq!(machine.pool.stats().cached, 0);
    assert!(machine.pool.take(1).is_none(), "the segment is full");
    assert_eq!(blocks.len(), 4096);
}

#[test]
fn what_is_given_back_is_used_again() {
    let mut machine = Machine::new(Policy::Caching);
    for size in [1, 700, MIB, 3 * MIB + 5] {
        let first = machine.allocate(size);
        let address = first.address();
        machine.give(first);
        let before = machine.pool.stats();
        let again = machine.allocate(size);
        assert_eq!(again.address(), address);
        let after = machine.pool.stats();
        assert_eq!(after.device_allocations, before.device_allocations);
        assert_eq!(after.reuses, before.reuses + 1);
    }
}

#[test]
fn a_large_block_is_split_and_put_together_again() {
    let mut machine = Machine::new(Policy::Caching);
    let whole = machine.allocate(12 * MIB);
    let start = whole.address();
    machine.give(whole);
    let parts: Vec<_> = (0..3).map(|_| machine.allocate(4 * MIB)).collect();
    let addresses: Vec<_> = parts.iter().map(Block::address).collect();
    assert_eq!(addresses, [start, start + 4 * MIB, start + 8 * MIB]);
    // The middle one last: it has free neighbours on both sides.
    let [first, middle, last]: [Block; 3] = parts.try_into().expect("three parts");
    for part in [first, last, middle] {
        machine.give(part);
    }
    assert_eq!(machine.allocate(12 * MIB).address(), start);
    assert_eq!(machine.device_allocations(), 1);
}

#[test]
fn a_remainder_below_a_mebibyte_stays_with_its_large_block() {
    let mut machine = Machine::new(Policy::Caching);
    let block = machine.allocate(2 * MIB);
    machine.give(block);
    let _block = machine.allocate(MIB + 512);
    assert_eq!(machine.pool.stats().allocated, 2 * MIB);
}

#[test]
fn the_smallest_piece_that_is_large_enough_is_taken() {
    let mut machine = Machine::new(Policy::Caching);
    let blocks = [8, 2, 4].map(|size| machine.allocate(size * MIB));
    let addresses = blocks.each_ref().map(Block::address);
    blocks.into_iter().for_each(|block| machine.give(block));
    assert_eq!(machine.allocate(3 * MIB).address(), addresses[2]);
    assert_eq!(machine.allocate(5 * MIB).address(), addresses[0]);
}

#[test]
fn small_and_large_blocks_have_segments_of_their_own() {
    let mut machine = Machine::new(Policy::Caching);
    let large = machine.allocate(8 * MIB);
    machine.give(large);
    let _small = machine.allocate(MIB - 512);
    assert_eq!(machine.device_allocations(), 2);
    assert!(
        machine.pool.take(MIB - 512).is_some(),
        "half of its segment is left"
    );
}

#[test]
fn neighbours_of_different_segments_stay_apart() {
    let mut machine = Machine::new(Policy::Caching);
    let blocks = [2, 2].map(|size| machine.allocate(size * MIB));
    assert_eq!(blocks[1].address() - blocks[0].address(), 2 * MIB);
    blocks.into_iter().for_each(|block| machine.give(block));
    assert!(machine.pool.take(4 * MIB).is_none());
}

#[test]
fn a_limit_counts_what_is_cached() {
    let mut machine = Machine::new(Policy::Caching);
    machine.pool.set_limit(Some(6 * MIB));
    let block = machine.allocate(4 * MIB);
    machine.give(block);
    match machine.pool.reserve(4 * MIB + 1) {
        Err(RocmError::MemoryLimit {
            requested,
            held,
            limit,
        }) => assert_eq!((requested, held, limit), (6 * MIB, 4 * MIB, 6 * MIB)),
        other => panic!("{other:?}"),
    }
    machine.trim();
    assert_eq!(
        machine.pool.reserve(4 * MIB + 1).expect("all is free"),
        6 * MIB
    );
    assert!(
        machine.pool.reserve(1).is_err(),
        "what is on its way counts"
    );
    machine.pool.cancel(6 * MIB);
    assert!(machine.pool.reserve(1).is_ok());
}

#[test]
fn a_tensor_that_grows_leaves_a_bounded_cache() {
    let mut machine = Machine::new(Policy::Caching);
    let mut current = machine.allocate(100 * MIB);
    for step in 1..100 {
        let size = 100 * MIB + step * 2 * MIB;
        let surplus = machine.pool.remove_surplus(size);
        machine.free(surplus);
        let next = machine.allocate(size);
        machine.give(std::mem::replace(&mut current, next));
        let stats = machine.pool.stats();
        let bound = stats.peak_allocated * 3 / 2 + 64 * MIB;
        assert!(machine.held() <= bound, "{stats:?}");
    }
    assert!(machine.pool.stats().device_frees > 0);
}

#[test]
fn surplus_is_what_was_idle_for_longest() {
    let mut machine = Machine::new(Policy::Caching);
    let [first, second, third] = [80, 82, 84].map(|size| {
        let block = machine.allocate(size * MIB);
        let address = block.address();
        machine.give(block);
        address
    });
    let touched = machine.allocate(79 * MIB);
    assert_eq!(touched.address(), first);
    machine.give(touched);
    // 246 MiB are held, at most 84 were in use. With 86 more, 86 + 43 + 64 = 193 may be held: 139 too many.
    let surplus = machine.pool.remove_surplus(86 * MIB);
    let addresses: Vec<_> = surplus.iter().map(|segment| segment.address).collect();
    assert_eq!(addresses, [second, third]);
    machine.free(surplus);
    assert_eq!(machine.held(), 80 * MIB);
}

#[test]
fn a_segment_that_could_not_be_freed_is_used_again() {
    let mut machine = Machine::new(Policy::Caching);
    let block = machine.allocate(3 * MIB);
    let address = block.address();
    machine.give(block);
    for segment in machine.pool.remove_idle() {
        assert!(machine.pool.take(3 * MIB).is_none(), "it is on its way");
        machine.pool.restore(segment);
    }
    assert_eq!(machine.allocate(3 * MIB).address(), address);
    assert_eq!(machine.pool.stats().device_frees, 0);
}

#[test]
fn direct_blocks_are_exact_and_never_kept() {
    let mut machine = Machine::new(Policy::Direct);
    let blocks = [1, 513, 3 * MIB + 1].map(|size| machine.allocate(size));
    let sizes: Vec<_> = machine.segments.values().copied().collect();
    assert_eq!(sizes, [1, 513, 3 * MIB + 1]);
    blocks.into_iter().for_each(|block| machine.give(block));
    assert_eq!(machine.held(), 0);
    assert_eq!(machine.pool.stats().device_frees, 3);
    assert_eq!(machine.pool.stats().reuses, 0);
}

#[test]
fn sizes_near_the_end_of_the_address_space_do_not_overflow() {
    let mut machine = Machine::new(Policy::Caching);
    assert_eq!(
        machine.pool.reserve(usize::MAX).expect("no limit"),
        usize::MAX
    );
    machine.pool.cancel(usize::MAX);
    let _block = machine.allocate(1);
    for size in [usize::MAX, usize::MAX - 512, usize::MAX / 2] {
        assert!(machine.pool.take(size).is_none());
        assert!(machine.pool.remove_surplus(size).is_empty());
    }
    assert!(matches!(
        machine.pool.reserve(usize::MAX),
        Err(RocmError::MemoryLimit { .. })
    ));
}

#[test]
fn what_is_on_its_way_to_the_gpu_is_counted() {
    let mut machine = Machine::new(Policy::Caching);
    assert!(!machine.pool.is_releasing());
    for size in [3 * MIB, 5 * MIB, 7 * MIB] {
        let block = machine.grow(size);
        machine.give(block);
    }
    assert!(!machine.pool.is_releasing());
    let mut segments = machine.pool.remove_idle();
    assert_eq!(segments.len(), 3);
    assert!(machine.pool.is_releasing());
    machine.pool.restore(segments.remove(0));
    assert!(machine.pool.is_releasing(), "two are left");
    machine.pool.forget(segments.remove(0));
    assert!(machine.pool.is_releasing(), "one is left");
    machine.pool.restore(segments.remove(0));
    assert!(!machine.pool.is_releasing());
}

#[test]
fn a_block_is_large_from_a_mebibyte_on() {
    for (first, small, large) in [(MIB - 512, true, false), (MIB, false, true)] {
        let mut machine = Machine::new(Policy::Caching);
        let _block = machine.allocate(first);
        // A mebibyte is left, for blocks of the same kind only.
        assert_eq!(machine.pool.take(512).is_some(), small, "{first}");
        assert_eq!(machine.pool.take(MIB).is_some(), large, "{first}");
    }
}

#[test]
fn the_environment_names_a_policy() {
    let named = |value| policy_of(value).expect("a policy of that name");
    assert_eq!(named(None), Policy::Direct, "in tests of the crate");
    assert_eq!(named(Some("")), Policy::Caching);
    assert_eq!(named(Some("caching")), Policy::Caching);
    assert_eq!(named(Some("direct")), Policy::Direct);
    let message = policy_of(Some("none")).expect_err("no policy").to_string();
    assert!(message.contains("`none`"), "{message}");
}
