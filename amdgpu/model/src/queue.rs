//! Queues: rings of packets that ROCr fills and a thread of this library empties.

use std::ffi::{c_uint, c_void};
use std::process::abort;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering, fence};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use wave::memory::Memory;

use crate::memory::Window;
use crate::packet::{self, BYTES, INVALID, Kernels};

/// How ROCr hears that a signal has changed.
pub type SetEvent = Option<unsafe extern "C" fn(*mut c_void, c_uint)>;

/// A queue as ROCr describes it. Addresses are the GPU's.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Ring {
    packets: u64,
    written: u64,
    read: u64,
    doorbell: *mut u64,
    bytes: u32,
    kind: u32,
}

/// The kind of a queue that has AQL packets.
const AQL: u32 = 2;
/// How long the thread sleeps while nothing is there.
const NAP: Duration = Duration::from_micros(20);

/// Whom to tell of events.
#[derive(Clone, Copy, Debug, Default)]
pub struct Events {
    function: SetEvent,
    data: usize,
}

impl Events {
    /// ROCr's function and its data.
    pub fn new(function: SetEvent, data: *mut c_void) -> Self {
        Self { function, data: data.expose_provenance() }
    }

    fn tell(&self, event: u32) {
        if let Some(function) = self.function {
            // SAFETY: ROCr gave both for this.
            unsafe { function(std::ptr::with_exposed_provenance_mut(self.data), event) };
        }
    }
}

/// A queue whose thread runs.
pub struct Queue {
    stops: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Queue {
    /// Begins to follow a queue.
    pub fn start(ring: Ring, window: Window, events: Events) -> Self {
        let stops = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stops);
        let follower = Follower {
            packets: ring.packets,
            count: u64::from(ring.bytes) / BYTES as u64,
            written: ring.written,
            read: ring.read,
            is_aql: ring.kind == AQL,
            window,
            events,
            kernels: Kernels::default(),
            began: Instant::now(),
        };
        let thread = thread::spawn(move || follower.follow(&seen));
        Self { stops, thread }
    }

    /// Ends it, once the packet at hand is done.
    pub fn stop(self) {
        self.stops.store(true, Ordering::Release);
        let _ = self.thread.join();
    }
}

struct Follower {
    packets: u64,
    count: u64,
    written: u64,
    read: u64,
    is_aql: bool,
    window: Window,
    events: Events,
    kernels: Kernels,
    began: Instant,
}

impl Follower {
    fn follow(mut self, stops: &AtomicBool) {
        let mut next = 0;
        while !stops.load(Ordering::Acquire) {
            let written = self.written;
            let written = self.counter(written).load(Ordering::Acquire);
            if written <= next {
                thread::sleep(NAP);
                continue;
            }
            if self.is_aql {
                let at = self.packets + next % self.count * BYTES as u64;
                match self.take(at) {
                    Ok(true) => {}
                    Ok(false) => {
                        thread::sleep(NAP);
                        continue;
                    }
                    Err(problem) => {
                        eprintln!("candle-rocm model: {problem}");
                        abort();
                    }
                }
                next += 1;
            } else {
                next = written;
            }
            let read = self.read;
            self.counter(read).store(next, Ordering::Release);
        }
    }

    /// A number that ROCr reads and writes at the same time.
    fn counter(&mut self, address: u64) -> &AtomicU64 {
        let place = self.window.place(address, 8).expect("ROCr's counters are in the window");
        // SAFETY: ROCr has mapped the window, and aligns its counters.
        unsafe { &*(place as *const AtomicU64) }
    }

    /// Does the packet at an address; false if ROCr has not finished writing it.
    fn take(&mut self, at: u64) -> Result<bool, String> {
        let header: [u8; 1] = self.window.number(at)?;
        if header[0] == INVALID {
            return Ok(false);
        }
        fence(Ordering::Acquire);
        let packet: [u8; BYTES] = self.window.number(at)?;
        let began = self.now();
        packet::process(&packet, &mut self.window, &mut self.kernels, at)?;
        let signal = u64::from_le_bytes(packet[56..].try_into().expect("8 bytes"));
        self.window.write(at, &u16::from(INVALID).to_le_bytes())?;
        if signal != 0 {
            self.complete(signal, began)?;
        }
        Ok(true)
    }

    /// Nanoseconds, more than none.
    fn now(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64 + 1
    }

    /// Writes the times of a signal, lowers it, and tells of its event.
    fn complete(&mut self, signal: u64, began: u64) -> Result<(), String> {
        let ended = self.now();
        self.window.write(signal + 32, &began.to_le_bytes())?;
        self.window.write(signal + 40, &ended.to_le_bytes())?;
        // Whoever waits may free the signal as soon as it is lowered.
        let mailbox = u64::from_le_bytes(self.window.number(signal + 16)?);
        let event = u32::from_le_bytes(self.window.number(signal + 24)?);
        let place = self.window.place(signal + 8, 8)?;
        // SAFETY: as in `counter`.
        unsafe { &*(place as *const AtomicI64) }.fetch_sub(1, Ordering::AcqRel);
        if mailbox != 0 {
            self.window.write(mailbox, &u64::from(event).to_le_bytes())?;
        }
        if event != 0 {
            self.events.tell(event);
        }
        Ok(())
    }
}
