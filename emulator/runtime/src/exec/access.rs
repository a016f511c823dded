//! What a thread does that somebody may have to hear of: accesses to memory, and signals that it raises.

use std::ffi::c_int;

use super::lds::Touch;
use super::race::Write;

/// Where in the source something was done.
#[derive(Clone, Copy, Debug)]
pub enum Site {
    /// A return address in the module.
    Code(usize),
    /// A line of the source.
    Line(u32),
}

/// What an access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Read,
    Write,
    Atomic,
}

/// Who accessed the same bytes before.
#[derive(Clone, Copy, Debug)]
pub enum Earlier {
    /// A write to device memory.
    Device(Write),
    /// A write to LDS.
    LdsWrite(Touch),
    /// A read of LDS.
    LdsRead(Touch),
}

/// An access of the running thread.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    pub address: usize,
    pub bytes: usize,
    pub kind: Kind,
    pub site: Site,
}

/// What a kernel ran into.
#[derive(Clone, Copy, Debug)]
pub struct Trap {
    /// Its number.
    pub signal: c_int,
    /// The address that it concerns.
    pub address: usize,
    /// The instruction that raised it.
    pub instruction: usize,
    /// Whether the thread's stack was full.
    pub overflow: bool,
}
