//! Which pages may be used, and which cost memory, as the system tells.

use std::ops::Range;
use std::{fs, ptr};

use super::super::arena::{MARGIN, RACE_CELL, RACE_GRAIN, discard};
use super::super::{Arena, guard, shadow};
use super::fresh;
use crate::memory::{Place, SPARSE_FROM};
use crate::settings::settings;
use guard::Touch;

const PAGE: usize = 4096;
/// Bytes that are opened together.
const WINDOW: usize = 256 << 10;

/// The parts of a range that may be read and written, neighbours merged.
fn accessible(range: Range<usize>) -> Vec<Range<usize>> {
    let maps = fs::read_to_string("/proc/self/maps").expect("the system lists the mappings of a process");
    let mut found: Vec<Range<usize>> = Vec::new();
    for line in maps.lines().filter(|line| line.contains(" rw-p ")) {
        let (start, end) = line.split(' ').next().and_then(|ends| ends.split_once('-')).expect("start-end");
        let address = |text| usize::from_str_radix(text, 16).expect("hexadecimal");
        let part = address(start).max(range.start)..address(end).min(range.end);
        match found.last_mut() {
            Some(last) if last.end == part.start => last.end = part.end,
            _ if !part.is_empty() => found.push(part),
            _ => {}
        }
    }
    found
}

/// Whether each page of a range takes memory.
fn resident(range: Range<usize>) -> Vec<bool> {
    let mut pages = vec![0u8; range.len() / PAGE];
    // SAFETY: whole pages of a mapping, and a byte for each.
    assert_eq!(unsafe { libc::mincore(range.start as *mut libc::c_void, range.len(), pages.as_mut_ptr()) }, 0);
    pages.iter().map(|page| page & 1 == 1).collect()
}

fn devices() -> Range<usize> {
    let arena = Arena::get();
    arena.base..arena.addresses(arena.host_segment()).start
}

#[test]
fn segments_follow_each_other_and_have_room_for_twice_the_limit() {
    let (arena, devices) = (Arena::get(), settings().devices.len());
    assert_eq!((arena.segments, arena.host_segment()), (devices + 1, devices));
    assert!(arena.segment >= 2 * settings().memory && arena.segment.is_multiple_of(1 << 30));
    let mut end = arena.base;
    for segment in 0..arena.segments {
        let addresses = arena.addresses(segment);
        assert_eq!((addresses.start, addresses.len()), (end, arena.segment));
        end = addresses.end;
    }
    let inside = [arena.base - 1, arena.base, end - 1, end, 0, usize::MAX].map(|address| arena.contains(address));
    assert_eq!(inside, [false, true, true, false, false, false]);
}

#[test]
fn the_host_may_use_its_segment_and_what_is_known_about_bytes() {
    let (_, inside) = fresh();
    drop(inside.0);
    let arena = Arena::get();
    let whole = arena.base..arena.addresses(arena.host_segment()).end;
    assert_eq!(accessible(whole.clone()), [arena.addresses(arena.host_segment())]);
    let states = arena.base.wrapping_add(arena.state_offset);
    let states = states..states + whole.len();
    let races = arena.races..arena.races + whole.len() / RACE_GRAIN * RACE_CELL;
    for known in [&states, &races] {
        assert_eq!(accessible(known.clone()), std::slice::from_ref(known));
    }
    let apart = |one: &Range<usize>, other: &Range<usize>| one.end <= other.start || other.end <= one.start;
    assert!(apart(&races, &whole) && apart(&races, &states));
    let file = fs::read_to_string("/proc/self/smaps").expect("the system lists the mappings of a process");
    let about = file.split(&format!("{:x}-", whole.start - MARGIN)).nth(1).expect("it is mapped");
    let flags = about.lines().find(|line| line.starts_with("VmFlags")).expect("with flags");
    for flag in ["nr", "dd", "nh"] {
        assert!(flags.contains(flag), "no reserve, no dump, no huge pages: {flags}");
    }
}

/// Windows are open from the first touch on until the last thread that may touch them is done.
#[test]
fn what_is_touched_is_open_until_the_device_is_done() {
    let (_, inside) = fresh();
    drop(inside.0);
    let devices = devices();
    let word = 64 * WINDOW;
    let places =
        [0, 3 * WINDOW + 5, 4 * WINDOW, 63 * WINDOW, word - 1, word, 5 * word + 17 * WINDOW, devices.len() - 1];
    let touched = |offsets: &[usize]| {
        let mut windows: Vec<Range<usize>> = Vec::new();
        for start in offsets.iter().map(|offset| devices.start + offset / WINDOW * WINDOW) {
            match windows.last_mut() {
                Some(last) if last.contains(&start) => {}
                Some(last) if last.end == start => last.end += WINDOW,
                _ => windows.push(start..start + WINDOW),
            }
        }
        windows
    };
    let touch = |offset: &usize| {
        // SAFETY: the memory of a device, which this thread may use.
        unsafe { ptr::write_volatile((devices.start + offset) as *mut u8, 1) };
    };
    for _ in 0..3 {
        assert_eq!(accessible(devices.clone()), []);
        let outer = guard::enter();
        places[..4].iter().for_each(touch);
        let inner = guard::enter();
        places[4..].iter().for_each(touch);
        assert_eq!(accessible(devices.clone()), touched(&places));
        drop(inner);
        assert_eq!(accessible(devices.clone()), touched(&places), "the outer one goes on");
        drop(outer);
    }
    assert_eq!(accessible(devices.clone()), []);
    let one = guard::enter();
    touch(&(7 * WINDOW));
    assert_eq!(accessible(devices.clone()), touched(&[7 * WINDOW]));
    drop(one);
    assert_eq!(accessible(devices), []);
}

#[test]
fn who_touches_is_told_apart() {
    let (_, inside) = fresh();
    drop(inside.0);
    let (devices, host) = (devices(), Arena::get().addresses(Arena::get().host_segment()).start);
    let touches = || [devices.start - 1, devices.start, devices.end - 1, host].map(guard::touch);
    let (elsewhere, by_host, allowed) = (Touch::Elsewhere, Touch::ByHost, Touch::Allowed);
    assert_eq!(touches(), [elsewhere, by_host, by_host, elsewhere]);
    let outer = guard::enter();
    assert_eq!(touches(), [elsewhere, allowed, allowed, elsewhere]);
    let inner = guard::enter();
    guard::outside(|| {
        assert_eq!(touches(), [elsewhere, by_host, by_host, elsewhere]);
        assert_eq!(accessible(devices.clone()), []);
    });
    assert_eq!(touches(), [elsewhere, allowed, allowed, elsewhere]);
    drop(inner);
    assert_eq!(touches(), [elsewhere, allowed, allowed, elsewhere]);
    drop(outer);
    assert_eq!(touches(), [elsewhere, by_host, by_host, elsewhere]);
    assert_eq!(accessible(devices), []);
}

#[test]
fn what_is_discarded_is_zero_and_costs_nothing() {
    let (mut memory, _guard) = fresh();
    let start = memory.allocate(Place::Host, 16 * PAGE).unwrap().next_multiple_of(PAGE);
    let all = start..start + 12 * PAGE;
    for (from, to) in [
        (0, 3 * PAGE),
        (5, 3 * PAGE + 7),
        (PAGE, PAGE + 1),
        (PAGE + 1, 2 * PAGE),
        (100, 200),
        (4000, 4200),
        (9, 9),
        (PAGE, 2 * PAGE),
    ] {
        // SAFETY: a live allocation.
        unsafe { ptr::write_bytes(all.start as *mut u8, 7, all.len()) };
        discard(start + PAGE + from, to - from);
        let (first, end) = ((PAGE + from).div_ceil(PAGE), (PAGE + to) / PAGE);
        let expected: Vec<_> = (0..12).map(|page| !(first..end).contains(&page)).collect();
        assert_eq!(resident(all.clone()), expected, "{from}..{to}");
        // SAFETY: as above.
        let bytes = unsafe { std::slice::from_raw_parts(all.start as *const u8, all.len()) };
        let wrong = (0..all.len()).find(|at| bytes[*at] != if (PAGE + from..PAGE + to).contains(at) { 0 } else { 7 });
        assert_eq!(wrong, None, "{from}..{to}");
    }
}

#[test]
fn freed_memory_gives_back_its_pages_and_those_of_its_states() {
    let (mut memory, _guard) = fresh();
    let arena = Arena::get();
    let start = memory.allocate(Place::Device(0), 1 << 20).unwrap().next_multiple_of(PAGE);
    let states = start.wrapping_add(arena.state_offset);
    assert_eq!(resident(states..states + 8 * PAGE), [true; 8]);
    let owner = memory.find(start).unwrap().start;
    memory.free(owner).unwrap();
    assert_eq!(resident(states..states + 8 * PAGE), [false; 8]);
    let sparse = memory.allocate(Place::Device(0), SPARSE_FROM).unwrap();
    let page = sparse.next_multiple_of(PAGE);
    assert_eq!(resident(page..page + 8 * PAGE), [false; 8]);
}

/// Cells are written by hand: two words before, in and after a range.
#[test]
fn race_cells_are_forgotten_with_their_memory() {
    let (mut memory, _guard) = fresh();
    let arena = Arena::get();
    let start = memory.allocate(Place::Device(0), 64 * PAGE).unwrap();
    let cell = |address: usize| (arena.races + (address - arena.base) / 4 * 8) as *mut u64;
    let last = arena.addresses(arena.host_segment()).end - 4;
    let (before, after) = (start + 4 * PAGE - 4, start + 8 * PAGE);
    let marked = [arena.base, before, before + 4, after - 4, after, last];
    // SAFETY: cells of the arena's words, which no kernel uses now.
    let mark = || marked.iter().for_each(|address| unsafe { cell(*address).write(u64::MAX) });
    // SAFETY: as above.
    let left = || marked.map(|address| unsafe { cell(address).read() } != 0);
    mark();
    shadow::release(start + 4 * PAGE, 4 * PAGE);
    assert_eq!(left(), [true, true, false, false, true, true]);
    mark();
    arena.forget_races();
    assert_eq!(left(), [false; 6]);
}

/// Else a thread's LDS or memory of the host could lie there, and be taken for what is past the end of an allocation.
#[test]
fn nothing_else_lies_beside_the_arena() {
    let arena = Arena::get();
    let end = arena.addresses(arena.segments - 1).end;
    let beside = [arena.base - MARGIN..arena.base, end..end + MARGIN];
    for page in beside.iter().cloned().flat_map(|range| range.step_by(PAGE)) {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
        // SAFETY: without replacing anything, a page that nobody has is mapped, or none.
        let found = unsafe { libc::mmap(page as *mut libc::c_void, PAGE, libc::PROT_NONE, flags, -1, 0) };
        assert_eq!(found, libc::MAP_FAILED, "{page:#x} was free");
    }
    assert_eq!(beside.map(accessible), [const { Vec::new() }; 2]);
}
