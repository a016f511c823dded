//! The state of the one kernel that runs: shared by the scheduler and by the functions that the kernel calls.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::ptr;
use std::sync::Mutex;

use super::access::Trap;
use super::block::Block;
use super::checker::Checker;
use super::fiber::{Fiber, Suspender};
use super::launch::Launch;
use crate::module::abi;
use crate::random::{Order, Random};
use crate::report::Report;

/// Held by the thread that executes a kernel.
pub(super) static EXECUTING: Mutex<()> = Mutex::new(());

struct Shared(UnsafeCell<Engine>);
// SAFETY: used only by the thread that holds `EXECUTING`, and from the kernel that this thread runs.
unsafe impl Sync for Shared {}

static ENGINE: Shared = Shared(UnsafeCell::new(Engine::new()));

/// The engine of the running kernel.
///
/// # Safety
/// The caller holds `EXECUTING` or runs inside a kernel, and keeps no reference across a switch of fibers.
#[inline(always)]
pub(super) unsafe fn engine() -> &'static mut Engine {
    // SAFETY: by contract there is one user at a time.
    unsafe { &mut *ENGINE.0.get() }
}

/// What runs, and where.
pub(super) struct Engine {
    launch: *const Launch,
    pub(super) arguments: *const *mut c_void,
    place: *mut abi::Place,
    /// The block whose thread runs.
    block: *mut Block,
    /// The thread that runs, counted within its block.
    pub thread: u32,
    /// Threads of the current wave that have not started: the wave's first thread, and an order of its lanes.
    pub(super) starting: (u32, Order),
    /// Where the running fiber suspends itself.
    pub(super) suspender: Suspender,
    /// Why it did so last.
    pub(super) stopped: Stopped,
    pub(super) idle: Vec<Fiber>,
    /// Thread index of each thread of a block.
    thread_indices: Vec<[u32; 3]>,
    pub wave_size: u32,
    pub random: Random,
    pub checker: Checker,
    pub(super) fault: Option<Report>,
    /// The signal that the running thread has raised.
    pub trap: Option<Trap>,
}

impl Engine {
    const fn new() -> Self {
        Self {
            launch: ptr::null(),
            arguments: ptr::null(),
            place: ptr::null_mut(),
            block: ptr::null_mut(),
            thread: 0,
            starting: (0, Order::EMPTY),
            suspender: ptr::null(),
            stopped: Stopped::Idle,
            idle: Vec::new(),
            thread_indices: Vec::new(),
            wave_size: 0,
            random: Random::new(0),
            checker: Checker::new(),
            fault: None,
            trap: None,
        }
    }

    /// Makes ready for a launch, whose kernel finds its arguments behind `arguments`.
    pub fn prepare(&mut self, launch: &Launch, arguments: *const *mut c_void, wave_size: u32, random: Random) {
        self.launch = launch;
        self.arguments = arguments;
        self.place = launch.function.module.place();
        self.wave_size = wave_size;
        self.random = random;
        self.fault = None;
        self.starting = (0, Order::EMPTY);
        let [width, height, depth] = launch.block;
        self.thread_indices.clear();
        for z in 0..depth {
            for y in 0..height {
                self.thread_indices.extend((0..width).map(|x| [x, y, z]));
            }
        }
        // SAFETY: the module is loaded, and nobody else runs its kernels.
        let place = unsafe { &mut *self.place };
        place.block_dim = launch.block;
        place.grid_dim = launch.grid;
        place.wave_size = wave_size as i32;
    }

    /// The launch that runs.
    pub fn launch(&self) -> &Launch {
        // SAFETY: set by `prepare` for as long as the launch runs.
        unsafe { &*self.launch }
    }

    /// The block whose thread runs. As for the engine, no reference may be kept across a switch of fibers.
    pub fn block<'a>(&self) -> &'a mut Block {
        // SAFETY: set by `enter_block`, and boxed by the scheduler for as long as it is entered.
        unsafe { &mut *self.block }
    }

    /// `threadIdx` of a thread.
    pub fn thread_index(&self, thread: u32) -> [u32; 3] {
        self.thread_indices[thread as usize]
    }

    /// Makes `block` the one that runs.
    pub fn enter_block(&mut self, block: &mut Block) {
        self.block = block;
        // SAFETY: as in `prepare`.
        let place = unsafe { &mut *self.place };
        place.block_index = block.index;
        place.dynamic_lds = block.dynamic_lds.addresses().start as *mut c_void;
    }

    /// Makes a thread of the block the one that runs.
    pub(super) fn enter_thread(&mut self, thread: u32) {
        self.thread = thread;
        // SAFETY: as in `prepare`.
        let place = unsafe { &mut *self.place };
        place.thread_index = self.thread_indices[thread as usize];
        place.lane = thread % self.wave_size;
        self.checker.enter_thread(self.block(), thread);
    }
}

/// Why a fiber stopped.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stopped {
    /// Its thread waits.
    Waiting,
    /// It has no thread: all of the wave have started.
    Idle,
}

/// Ends the launch with a report. The running thread never goes on.
pub(super) fn fail(report: Report) -> ! {
    // SAFETY: called from a kernel; no reference is kept across the switch.
    let e = unsafe { engine() };
    e.fault = Some(report);
    // SAFETY: the suspender is that of the running fiber.
    unsafe { (*e.suspender).suspend(()) };
    unreachable!("the fiber of a thread at fault is not resumed")
}
