//! Execution of kernels: threads as coroutines, waves, blocks, and checks of what they do.

mod access;
mod block;
mod callbacks;
mod check;
mod checker;
mod describe;
mod engine;
mod fiber;
mod host_access;
mod launch;
mod lds;
mod race;
mod schedule;
mod threads;
mod trap;
mod wave;

pub use callbacks::RUNTIME;
pub use launch::{Arguments, Launch};
pub use trap::install as handle_signals;

use crate::memory::Arena;
use crate::random::Random;
use crate::report::Report;
use engine::{EXECUTING, engine};

impl Launch {
    /// Runs the kernel to its end on the calling thread.
    ///
    /// # Errors
    /// The report of the first thing that it did wrong.
    pub fn run(&self, random: Random) -> Result<(), Report> {
        let _executing = EXECUTING.lock().expect("no panic while a kernel runs");
        let arguments = self.arguments.pointers();
        // SAFETY: this thread holds the lock.
        let e = unsafe { engine() };
        e.prepare(self, arguments.as_ptr(), self.model().wave_size, random);
        e.checker.prepare(Arena::get(), self);
        schedule::run_grid(self)
    }
}
