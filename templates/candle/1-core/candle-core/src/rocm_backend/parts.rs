//! The parts of GPUs, queues and random numbers that depend on the phase: few, until the operations add more.
use super::allocator::Block;
use super::gpu::Properties;
use super::hip::HipResult;
use super::queue::Queue;
use std::sync::{Mutex, Weak};

/// The state that all users of a GPU share.
pub(super) struct GpuParts {
    pub(super) queues: Mutex<Vec<Weak<Queue>>>,
}

impl GpuParts {
    pub(super) fn of(_: &Properties) -> Self {
        Self {
            queues: Mutex::default(),
        }
    }
}

/// Users of a queue's stream.
#[derive(Default)]
pub(super) struct QueueParts {}

impl QueueParts {
    /// Ends what works on the stream, and returns the memory that it had.
    pub(super) fn end(&self) -> Option<Block> {
        None
    }

    /// A graph was queued.
    pub(super) fn launched(&self) -> HipResult<()> {
        Ok(())
    }

    /// An error if what was queued cannot be relied on.
    pub(super) fn check(&self) -> HipResult<()> {
        Ok(())
    }
}

/// The generator of a device's random numbers.
#[derive(Default)]
pub(super) struct RandomParts {}

impl RandomParts {
    /// Begins the sequence of a seed again.
    pub(super) fn restart(&mut self) {}
}
