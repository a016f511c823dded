//! The address range of all device memory and, at fixed distances from it, what is known about each byte.

use std::ffi::c_int;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::OnceLock;

use crate::settings::settings;

/// Reserved addresses: one segment per device, then one for pinned host memory.
///
/// Next to them lie, when kernels are checked, one [`ByteState`](super::ByteState) per byte and one race cell
/// (`exec::check::race`) per four bytes. Pages cost memory only once touched.
#[derive(Debug)]
pub struct Arena {
    /// First address of the first segment.
    pub base: usize,
    /// Bytes of a segment.
    pub segment: usize,
    /// Number of segments.
    pub segments: usize,
    /// Distance from an address to the state of its byte; 0 when kernels are not checked.
    pub state_offset: usize,
    /// First race cell; 0 when kernels are not checked.
    pub races: usize,
}

/// Bytes of a page of the system.
pub const PAGE: usize = 4096;

/// Bytes of a race cell, and of device memory that it stands for.
pub const RACE_CELL: usize = 8;
/// See [`RACE_CELL`].
pub const RACE_GRAIN: usize = 4;

/// Addresses on both sides of the arena that nothing else gets: what is said of an access near a thread's LDS, or near
/// memory of the host, does not depend on where the system has put that.
pub const MARGIN: usize = 64 << 10;

const SMALLEST_SEGMENT: usize = 1 << 30;

impl Arena {
    /// The arena of this process, reserved at first use.
    pub fn get() -> &'static Self {
        static ARENA: OnceLock<Arena> = OnceLock::new();
        ARENA.get_or_init(|| {
            let settings = settings();
            // Twice the limit, so that freed memory can rest before its addresses are used again.
            let segment = (2 * settings.memory).next_multiple_of(SMALLEST_SEGMENT);
            let segments = settings.devices.len() + 1;
            let length = segment * segments;
            let base = reserve(length + 2 * MARGIN) + MARGIN;
            set_access(base - MARGIN..base + segment * settings.devices.len(), false);
            set_access(base + length..base + length + MARGIN, false);
            if settings.check {
                let state_offset = reserve(length).wrapping_sub(base);
                Self { base, segment, segments, state_offset, races: reserve(length / RACE_GRAIN * RACE_CELL) }
            } else {
                Self { base, segment, segments, state_offset: 0, races: 0 }
            }
        })
    }

    /// The addresses of a segment.
    pub fn addresses(&self, segment: usize) -> Range<usize> {
        let start = self.base + segment * self.segment;
        start..start + self.segment
    }

    /// The segment of pinned host memory.
    pub fn host_segment(&self) -> usize {
        self.segments - 1
    }

    /// Bytes of all segments.
    pub fn length(&self) -> usize {
        self.segment * self.segments
    }

    /// Whether an address lies in the arena.
    pub fn contains(&self, address: usize) -> bool {
        address.wrapping_sub(self.base) < self.length()
    }

    /// Forgets who wrote what: needed when the numbers of launches start again.
    pub fn forget_races(&self) {
        if self.races != 0 {
            discard(self.races, self.length() / RACE_GRAIN * RACE_CELL);
        }
    }
}

/// Reserves zeroed pages that cost nothing until they are touched.
fn reserve(length: usize) -> usize {
    // SAFETY: an anonymous mapping at an address of the system's choice touches nothing that exists.
    let address = unsafe {
        libc::mmap(
            ptr::null_mut(),
            length,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    assert_ne!(address, libc::MAP_FAILED, "cannot reserve {length} bytes of addresses for the emulated devices");
    advise(address, length);
    address as usize
}

/// Huge pages would turn each touched byte into two megabytes, and a core dump would take minutes.
fn advise(address: *mut libc::c_void, length: usize) {
    // SAFETY: callers have just mapped the range; no byte changes.
    unsafe {
        libc::madvise(address, length, libc::MADV_NOHUGEPAGE);
        libc::madvise(address, length, libc::MADV_DONTDUMP);
    }
}

/// Makes pages of the arena those of a file from `offset` on, without access yet.
///
/// # Errors
/// The system's; the pages are what they were.
pub fn map(pages: Range<usize>, file: &File, offset: usize) -> io::Result<()> {
    map_fixed(pages, libc::MAP_SHARED, file.as_raw_fd(), offset)
}

/// Makes pages of the arena zeroed ones of this process, without access yet.
///
/// # Errors
/// As [`map`].
pub fn map_anew(pages: Range<usize>) -> io::Result<()> {
    map_fixed(pages, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE, -1, 0)
}

fn map_fixed(pages: Range<usize>, flags: c_int, file: c_int, offset: usize) -> io::Result<()> {
    let address = pages.start as *mut libc::c_void;
    // SAFETY: callers own the pages, which lie in a mapping of `reserve`.
    let mapped = unsafe {
        libc::mmap(address, pages.len(), libc::PROT_NONE, flags | libc::MAP_FIXED, file, offset as libc::off_t)
    };
    if mapped == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    advise(address, pages.len());
    Ok(())
}

/// Lets pages be used, or makes every use of them a fault. Returns whether the system has done so.
pub fn set_access(pages: Range<usize>, allowed: bool) -> bool {
    let protection = if allowed { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_NONE };
    // SAFETY: callers pass pages of a mapping of `reserve`.
    unsafe { libc::mprotect(pages.start as *mut libc::c_void, pages.len(), protection) == 0 }
}

/// Makes a range in the arena or its shadows zero, and gives its whole pages back to the system. Pages that other processes
/// have too keep what they hold.
pub fn discard(address: usize, length: usize) {
    let end = address + length;
    let first_page = address.next_multiple_of(PAGE).min(end);
    let pages_end = (end / PAGE * PAGE).max(first_page);
    // SAFETY: the caller owns the range, which lies in a mapping of `reserve`.
    unsafe {
        ptr::write_bytes(address as *mut u8, 0, first_page - address);
        libc::madvise(first_page as *mut libc::c_void, pages_end - first_page, libc::MADV_DONTNEED);
        ptr::write_bytes(pages_end as *mut u8, 0, end - pages_end);
    }
}
