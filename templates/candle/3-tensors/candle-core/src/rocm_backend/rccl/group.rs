//! Calls that are queued together: those of several ranks of one thread, or sends and receives that wait for each other.
use super::rank::{check, Rank};
use crate::rocm_backend::api;
use crate::rocm_backend::hip::HipResult;
use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::Arc;

/// The group of a thread.
#[derive(Default)]
struct Open {
    depth: usize,
    /// The calls that its end queues.
    calls: Vec<(Arc<Rank>, u64)>,
}

thread_local! {
    static OPEN: RefCell<Open> = RefCell::default();
}

/// Whether the calling thread is in a group.
pub(super) fn is_open() -> bool {
    OPEN.with_borrow(|open| open.depth > 0)
}

/// Notes a call of the thread's group; false if it is in none.
pub(super) fn add(rank: &Arc<Rank>, number: u64) -> bool {
    OPEN.with_borrow_mut(|open| {
        if open.depth > 0 {
            open.calls.push((rank.clone(), number));
        }
        open.depth > 0
    })
}

/// Begins a group of the calling thread: its calls are queued when the last group that was begun ends. Until then their
/// memory is kept, and nothing else is done with it.
pub fn group_start() -> HipResult<()> {
    // SAFETY: no preconditions.
    check("ncclGroupStart", "this thread", unsafe {
        api::ncclGroupStart()
    })?;
    OPEN.with_borrow_mut(|open| open.depth += 1);
    Ok(())
}

/// Ends a group.
pub fn group_end() -> HipResult<()> {
    // SAFETY: as above.
    let ended = check("ncclGroupEnd", "this thread", unsafe {
        api::ncclGroupEnd()
    });
    let calls = OPEN.with_borrow_mut(|open| {
        open.depth = open.depth.saturating_sub(1);
        match open.depth {
            0 => std::mem::take(&mut open.calls),
            _ => Vec::new(),
        }
    });
    let queued: Vec<_> = calls
        .iter()
        .map(|(rank, number)| rank.queued(*number))
        .collect();
    queued.into_iter().collect::<HipResult<()>>().and(ended)
}

/// A group that ends with this value, or with [`Group::end`], which says how that went.
#[must_use = "the group ends when this is dropped"]
#[derive(Debug)]
pub struct Group {
    /// It ends on the thread that began it.
    thread: PhantomData<*const ()>,
}

impl Group {
    /// Begins a group of the calling thread.
    pub fn new() -> HipResult<Self> {
        group_start()?;
        Ok(Self {
            thread: PhantomData,
        })
    }

    /// Queues its calls.
    pub fn end(self) -> HipResult<()> {
        std::mem::forget(self);
        group_end()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The next wait for a stream has the error.
        let _ = group_end();
    }
}
