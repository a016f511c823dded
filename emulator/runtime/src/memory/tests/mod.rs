//! Allocations, and the pages behind them as the system sees them.

mod pages;

use std::ops::Range;
use std::sync::{Mutex, MutexGuard};

use super::*;

/// A memory of its own for a test; they all use the same addresses, so one test runs at a time.
fn fresh() -> (Memory, (guard::Inside, MutexGuard<'static, ()>)) {
    static ARENA_IN_USE: Mutex<()> = Mutex::new(());
    let guard = ARENA_IN_USE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let arena = Arena::get();
    set_state(arena.base, arena.segment * arena.segments, ByteState::Unaddressable);
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

#[test]
fn the_whole_limit_may_be_allocated_and_no_byte_more() {
    let (mut memory, _guard) = fresh();
    let (_, total) = memory.info(0);
    let most = memory.allocate(Place::Device(0), total - 10).unwrap();
    assert_eq!(memory.allocate(Place::Device(0), 11).unwrap_err(), HipError::OUT_OF_MEMORY);
    let rest = memory.allocate(Place::Device(0), 10).unwrap();
    assert_eq!(memory.info(0), (0, total));
    assert_eq!(memory.allocate(Place::Device(0), 1).unwrap_err(), HipError::OUT_OF_MEMORY);
    assert_eq!(memory.allocate(Place::Host, 1).map(|start| Arena::get().addresses(1).contains(&start)), Ok(true));
    assert_eq!((memory.free(rest).unwrap().size, memory.free(most).unwrap().size), (10, total - 10));
    assert_eq!(memory.info(0), (total, total));
}

#[test]
fn allocations_lie_two_red_zones_apart_and_are_numbered() {
    let (mut memory, _guard) = fresh();
    let starts: Vec<_> = [1, 256, 257, 1].map(|size| memory.allocate(Place::Device(0), size).unwrap()).into();
    let first = Arena::get().addresses(0).start;
    assert_eq!(starts.iter().map(|start| start - first).collect::<Vec<_>>(), [256, 1024, 1792, 2816]);
    let numbers = || starts.iter().map(|start| memory.find(*start).unwrap().number);
    assert_eq!(numbers().collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert_eq!(memory.starts_in(Place::Device(0)), starts);
    assert_eq!(memory.starts_in(Place::Host), [0usize; 0]);
}

#[test]
fn the_distance_to_an_allocation_is_zero_inside_only() {
    let allocation = Allocation { start: 1000, size: 10, place: Place::Device(0), number: 1 };
    let distances = [990, 999, 1000, 1009, 1010, 1019].map(|address| allocation.distance(address));
    assert_eq!(distances, [10, 1, 0, 0, 1, 10]);
}

/// Freed bytes rest up to 256 MiB, those that were freed first the least.
#[test]
fn the_oldest_freed_memory_is_used_again_first() {
    const MIB: usize = 1 << 20;
    let (mut memory, _guard) = fresh();
    let mut rest = |mib: usize| {
        let start = memory.allocate(Place::Device(0), mib * MIB).unwrap();
        memory.free(start).unwrap();
        memory.segments[0].quarantine.iter().map(|allocation| allocation.size / MIB).collect::<Vec<_>>()
    };
    assert_eq!(rest(1), [1]);
    assert_eq!(rest(255), [1, 255]);
    assert_eq!(rest(2), [2], "one MiB is not enough");
    assert_eq!([rest(200), rest(100)], [vec![2, 200], vec![100]]);
    assert_eq!(rest(150), [100, 150]);
    assert_eq!(rest(100), [150, 100]);
    assert_eq!(rest(300), [0usize; 0]);
    let all = Arena::get().addresses(0);
    assert_eq!(memory.segments[0].free.take(all.len()), Some(all.start), "nothing is lost");
}

#[test]
fn states_of_sparse_memory_are_raised_page_by_page() {
    let (mut memory, _guard) = fresh();
    memory.allocate(Place::Device(0), 100).unwrap();
    let start = memory.allocate(Place::Device(0), SPARSE_FROM).unwrap();
    let page = (start + 20_000).next_multiple_of(STATES_AT_ONCE);
    let raised = |range: Range<usize>| range.map(state_of).filter(|state| *state == ByteState::Uninitialized).count();
    memory.note_untouched(start - 2, 2);
    assert_eq!(raised(start - 10..start + 10), 0, "not its own");
    memory.note_untouched(page + 7, 1);
    assert_eq!((raised(page - 4096..page), raised(page..page + 4096), raised(page + 4096..page + 8192)), (0, 4096, 0));
    memory.note_untouched(page + 8191, 2);
    assert_eq!((raised(page + 4096..page + 12_288), raised(page + 12_288..page + 16_384)), (8192, 0));
    set_state(page + 9, 3, ByteState::Initialized);
    memory.note_untouched(page + 10, 1);
    assert_eq!(state_of(page + 10), ByteState::Initialized);
    let small = memory.allocate(Place::Device(0), SPARSE_FROM - 1).unwrap();
    assert_eq!(raised(small..small + 100), 100, "not sparse");
    memory.note_untouched(start, 1);
    assert_eq!((raised(start - 300..start), raised(start..start + 256)), (0, 256));
    memory.free(start).unwrap();
    assert_eq!(raised(page..page + 4096), 0);
}

#[test]
fn the_first_other_state_of_a_range_is_found() {
    let (mut memory, _guard) = fresh();
    let start = memory.allocate(Place::Device(0), 64).unwrap();
    set_state(start + 10, 20, ByteState::Initialized);
    let written = [ByteState::Initialized];
    assert_eq!(find_other(start + 10, 20, &written), None);
    assert_eq!(find_other(start + 10, 21, &written), Some((start + 30, ByteState::Uninitialized)));
    assert_eq!(find_other(start + 9, 21, &written), Some((start + 9, ByteState::Uninitialized)));
    let allocated = [ByteState::Initialized, ByteState::Uninitialized];
    assert_eq!(find_other(start, 65, &allocated), Some((start + 64, ByteState::Unaddressable)));
    let other = memory.allocate(Place::Device(0), 64).unwrap();
    copy_state(other + 1, start + 9, 22);
    let states = [other, other + 1, other + 2, other + 21, other + 22].map(state_of);
    let (unset, set) = (ByteState::Uninitialized, ByteState::Initialized);
    assert_eq!(states, [unset, unset, set, set, unset]);
}
