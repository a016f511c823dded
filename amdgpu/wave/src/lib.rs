//! Executes AMD's machine code: waves of a block, one instruction after another.
//!
//! So far RDNA3 and CDNA3, and not all of either: an instruction that is not known ends the kernel with an error that
//! names it.

pub mod block;
pub mod hazards;
pub mod kernel;
pub mod memory;
pub mod program;
pub mod state;

mod buffer;
mod lane;
mod lds;
mod matrix;
mod names;
mod numbers;
mod registers;
mod role;
mod scalar;
mod transfer;
mod twin;
mod vector;
mod waits;

use std::fmt;

/// Why a kernel has ended early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What is wrong.
    pub what: String,
    /// The instruction's place, in bytes from the beginning of the code.
    pub place: u64,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {:#x}: {}", self.place, self.what)
    }
}

impl std::error::Error for Fault {}
