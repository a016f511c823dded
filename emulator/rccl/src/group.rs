//! Calls put on streams: at once, or all of a group at its end.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::{ptr, slice, thread};

use api::rccl::*;
use candle_rocm_emulator_link::{Extent, enqueue, enqueue_after, is_captured, uses};

use crate::Outcome;
use crate::communicator::{Communicator, Factor, Scale};
use crate::reduce::scale;
use crate::wire::Request;

/// What receive buffers hold until something is received: NaN, or -1.
const POISON: u8 = 0xff;

/// A part of memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct Span {
    /// Its first address.
    pub address: usize,
    /// How long it is.
    pub bytes: usize,
}

/// One rank's part of a call.
pub struct Operation {
    /// Who calls.
    pub communicator: Arc<Communicator>,
    /// A `hipStream_t`.
    pub stream: usize,
    /// The function's name.
    pub function: &'static str,
    /// What it hands in, with the ticket for it.
    pub request: Box<dyn Fn(u64) -> Request + Send + Sync>,
    /// Where that is.
    pub sends: Span,
    /// Where what comes back goes.
    pub receives: Span,
    /// The type of elements, and what they are multiplied by.
    pub scale: Option<Scale>,
}

/// The tickets of an operation's runs; a graph may run it often.
type Tickets = Arc<Mutex<VecDeque<u64>>>;

/// Becomes set when the last piece of a call is done, or dropped.
struct Done(Arc<AtomicBool>);

impl Drop for Done {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

impl Operation {
    fn on_stream(&self, enqueued: u32) -> Outcome {
        if enqueued == 0 { Ok(()) } else { Err(ncclUnhandledCudaError) }
    }

    /// Puts the handing in on the stream, after a call of the communicator on another stream.
    fn arrive(self: &Arc<Self>, tickets: &Tickets, after: Option<Arc<AtomicBool>>) -> Outcome {
        let (own, tickets) = (Arc::clone(self), Arc::clone(tickets));
        let work = move || {
            if let Some(bytes) = own.hand_in() {
                let ticket = own.communicator.submit(&own.request, &bytes);
                tickets.lock().expect("no panic while held").push_back(ticket);
            }
        };
        let stream = ptr::without_provenance_mut(self.stream);
        self.on_stream(match after {
            Some(last) => enqueue_after(stream, self.function, move || last.load(Ordering::Acquire), work),
            None => enqueue(stream, self.function, work),
        })
    }

    /// What is to be sent; none if memory is wrong.
    fn hand_in(&self) -> Option<Vec<u8>> {
        let name = self.function;
        let read = |what: &str, span: Span| {
            let extent = Extent { address: span.address, bytes: span.bytes, writes: false };
            (span.bytes == 0 || uses(&format!("{name}, {what}"), &[extent])).then(|| {
                // SAFETY: the extent was checked.
                unsafe { bytes_at(span) }.to_vec()
            })
        };
        let mut bytes = read("the buffer to send", self.sends)?;
        if let Some(Scale { number, factor }) = &self.scale {
            let factor = match factor {
                Factor::Bytes(bytes) => bytes.clone(),
                Factor::At(address) => read("the scalar", Span { address: *address, bytes: number.size() })?,
            };
            bytes = scale(*number, self.communicator.fnuz, &bytes, &factor);
        }
        self.write(&vec![POISON; self.receives.bytes]).then_some(bytes)
    }

    /// Writes to the receive buffer; false if memory is wrong.
    fn write(&self, bytes: &[u8]) -> bool {
        let Span { address, bytes: length } = self.receives;
        let what = format!("{}, the buffer to receive in", self.function);
        if length == 0 {
            return true;
        }
        let usable = uses(&what, &[Extent { address, bytes: length, writes: true }]);
        if usable {
            let to: *mut u8 = ptr::with_exposed_provenance_mut(address);
            // SAFETY: the extent was checked, and a hub answers with as many bytes as were asked for.
            unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), to, length.min(bytes.len())) };
        }
        usable
    }

    /// Puts the wait for what comes back, and the writing of it, on the stream.
    fn finish(self: Arc<Self>, tickets: Tickets, done: Option<Done>) -> Outcome {
        let (asked, asks) = (Arc::clone(&tickets), Arc::clone(&self));
        let ready = move || {
            let first = asked.lock().expect("no panic while held").front().copied();
            asks.communicator.look_at_the_clock();
            first.is_none_or(|ticket| asks.communicator.is_settled(ticket))
        };
        let own = Arc::clone(&self);
        let work = move || {
            let ticket = tickets.lock().expect("no panic while held").pop_front();
            if let Some(bytes) = ticket.and_then(|ticket| own.communicator.take(ticket)) {
                own.write(&bytes);
            }
            if let Some(Done(flag)) = &done {
                flag.store(true, Ordering::Release);
            }
        };
        let stream = ptr::without_provenance_mut(self.stream);
        self.on_stream(enqueue_after(stream, self.function, ready, work))
    }
}

unsafe fn bytes_at(span: Span) -> &'static [u8] {
    // SAFETY: by contract of the callers.
    unsafe { slice::from_raw_parts(ptr::with_exposed_provenance(span.address), span.bytes) }
}

/// What has to be done with all ranks at once, and may take long: coming together.
pub type Job = Box<dyn FnOnce() -> Outcome + Send>;

#[derive(Default)]
struct Group {
    depth: usize,
    operations: Vec<Operation>,
    jobs: Vec<Job>,
    /// The first thing that went wrong in it.
    problem: Option<ncclResult_t>,
}

thread_local! {
    static GROUP: RefCell<Group> = RefCell::default();
}

/// Begins a group, or one within another.
pub fn start() {
    GROUP.with_borrow_mut(|group| group.depth += 1);
}

/// Ends a group; all of it is done at the end of the outermost one.
///
/// # Errors
/// `ncclInvalidUsage` without a group, or the first that went wrong in it.
pub fn end() -> Outcome {
    let ended = GROUP.with_borrow_mut(|group| {
        group.depth = group.depth.checked_sub(1).ok_or(ncclInvalidUsage)?;
        Ok::<_, ncclResult_t>(if group.depth == 0 { std::mem::take(group) } else { Group::default() })
    })?;
    let joined = run(ended.jobs);
    match ended.problem {
        Some(problem) => Err(problem),
        None => joined.and_then(|()| launch(ended.operations)),
    }
}

/// Notes in the calling thread's group that something is wrong with it.
pub fn spoil(problem: ncclResult_t) {
    GROUP.with_borrow_mut(|group| {
        if group.depth > 0 {
            group.problem.get_or_insert(problem);
        }
    });
}

/// Puts operations on their streams, at the end of the group if there is one.
///
/// # Errors
/// `ncclUnhandledCudaError` if a stream does not take it.
pub fn issue(operations: Vec<Operation>) -> Outcome {
    let now = GROUP.with_borrow_mut(|group| {
        if group.depth == 0 {
            return Some(operations);
        }
        group.operations.extend(operations);
        None
    });
    now.map_or(Ok(()), launch)
}

/// Does a job, at the end of the group if there is one.
///
/// # Errors
/// The job's.
pub fn begin(job: Job) -> Outcome {
    let now = GROUP.with_borrow_mut(|group| {
        if group.depth == 0 {
            return Some(job);
        }
        group.jobs.push(job);
        None
    });
    now.map_or(Ok(()), |job| job())
}

/// Does jobs at the same time: each may wait for the others.
fn run(jobs: Vec<Job>) -> Outcome {
    let threads: Vec<_> = jobs.into_iter().map(thread::spawn).collect();
    let outcomes: Vec<Outcome> = threads.into_iter().map(|job| job.join().unwrap_or(Err(ncclInternalError))).collect();
    outcomes.into_iter().collect()
}

/// Lets every operation hand in before one waits: those of a group go on together.
fn launch(operations: Vec<Operation>) -> Outcome {
    let done = Arc::new(AtomicBool::new(false));
    let mut waiting = Vec::new();
    for operation in operations {
        let operation = Arc::new(operation);
        let tickets = Tickets::default();
        let captured = is_captured(ptr::without_provenance_mut(operation.stream));
        let after = if captured { None } else { operation.communicator.follow(operation.stream, &done) };
        let after = after.filter(|last| !Arc::ptr_eq(last, &done));
        operation.arrive(&tickets, after)?;
        waiting.push((operation, tickets));
    }
    let last = waiting.len().saturating_sub(1);
    for (index, (operation, tickets)) in waiting.into_iter().enumerate() {
        let done = (index == last).then(|| Done(Arc::clone(&done)));
        operation.finish(tickets, done)?;
    }
    Ok(())
}
