//! Keeps the host out of device memory, as a card does: an access by the host is a fault.
//!
//! The pages of device memory cannot be touched. While a thread does work of the device, or of the emulator itself, what
//! it touches is opened window by window, by the handler of the signal that the first touch raises; when the last such
//! thread is done, all is closed. So the cost grows with what is touched, not with what is there. What other threads do
//! meanwhile with open windows goes unnoticed.

use std::cell::Cell;
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::arena::{self, Arena};
use crate::exec::handle_signals;

/// Bytes that are opened together.
const WINDOW: usize = 256 << 10;
const WINDOWS_OF_A_WORD: usize = u64::BITS as usize;

thread_local! {
    /// How often the thread has entered device memory.
    static INSIDE: Cell<usize> = const { Cell::new(0) };
}

/// Threads that are inside.
static ENTERED: AtomicUsize = AtomicUsize::new(0);

/// One bit for each window that is open.
#[derive(Debug)]
struct Windows {
    addresses: Range<usize>,
    open: Vec<AtomicU64>,
    /// The first and the last word of `open` that may have a bit.
    first: AtomicUsize,
    last: AtomicUsize,
}

static WINDOWS: OnceLock<Windows> = OnceLock::new();

impl Windows {
    fn get() -> &'static Self {
        WINDOWS.get_or_init(|| {
            let arena = Arena::get();
            let addresses = arena.base..arena.addresses(arena.host_segment()).start;
            let words = addresses.len().div_ceil(WINDOW).div_ceil(WINDOWS_OF_A_WORD);
            let open = (0..words).map(|_| AtomicU64::new(0)).collect();
            Self { addresses, open, first: AtomicUsize::new(usize::MAX), last: AtomicUsize::new(0) }
        })
    }

    /// Opens the window of an address, or if the system has no room for so many, all.
    fn open(&self, address: usize) {
        let window = (address - self.addresses.start) / WINDOW;
        let start = self.addresses.start + window * WINDOW;
        if arena::set_access(start..(start + WINDOW).min(self.addresses.end), true) {
            self.note(window / WINDOWS_OF_A_WORD, 1 << (window % WINDOWS_OF_A_WORD));
        } else if arena::set_access(self.addresses.clone(), true) {
            (0..self.open.len()).for_each(|word| self.note(word, u64::MAX));
        }
    }

    /// Notes open windows: after they are open, so that none stays so unnoticed.
    fn note(&self, word: usize, windows: u64) {
        self.open[word].fetch_or(windows, Ordering::AcqRel);
        self.first.fetch_min(word, Ordering::AcqRel);
        self.last.fetch_max(word, Ordering::AcqRel);
    }

    fn close(&self) {
        let (first, last) = (self.first.swap(usize::MAX, Ordering::AcqRel), self.last.swap(0, Ordering::AcqRel));
        let mut run = 0..0;
        for word in first..=last {
            let windows = self.open[word].swap(0, Ordering::AcqRel);
            for window in (0..WINDOWS_OF_A_WORD).filter(|window| windows >> window & 1 == 1) {
                let start = self.addresses.start + (word * WINDOWS_OF_A_WORD + window) * WINDOW;
                if start != run.end {
                    self.close_run(run);
                    run = start..start;
                }
                run.end = start + WINDOW;
            }
        }
        self.close_run(run);
    }

    fn close_run(&self, run: Range<usize>) {
        if !run.is_empty() {
            arena::set_access(run.start..run.end.min(self.addresses.end), false);
        }
    }
}

/// Lets the calling thread use device memory until it is dropped.
#[derive(Debug)]
pub struct Inside(());

/// See [`Inside`].
pub fn enter() -> Inside {
    Windows::get();
    handle_signals();
    INSIDE.set(INSIDE.get() + 1);
    ENTERED.fetch_add(1, Ordering::AcqRel);
    Inside(())
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.set(INSIDE.get() - 1);
        if ENTERED.fetch_sub(1, Ordering::AcqRel) == 1 {
            Windows::get().close();
        }
    }
}

/// Runs what belongs to the host, in the midst of the device's work, without access.
pub fn outside(body: impl FnOnce()) {
    let depth = INSIDE.replace(0);
    if ENTERED.fetch_sub(depth, Ordering::AcqRel) == depth {
        Windows::get().close();
    }
    body();
    ENTERED.fetch_add(depth, Ordering::AcqRel);
    INSIDE.set(depth);
}

/// What an access to an address that raised a signal was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// By a thread that may do so: it can be done again, for its window is open now.
    Allowed,
    /// By the host.
    ByHost,
    /// Not of device memory.
    Elsewhere,
}

/// Opens the window of an address if the calling thread may use it. Only signal handlers call this.
pub fn touch(address: usize) -> Touch {
    let Some(windows) = WINDOWS.get() else { return Touch::Elsewhere };
    if !windows.addresses.contains(&address) {
        Touch::Elsewhere
    } else if INSIDE.get() == 0 {
        Touch::ByHost
    } else {
        windows.open(address);
        Touch::Allowed
    }
}
