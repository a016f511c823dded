//! One rank: RCCL's handle, and what has been queued with it.
use super::group;
use super::join::Handle;
use super::watch;
use crate::rocm_backend::event::RocmEvent;
use crate::rocm_backend::gpu::lock;
use crate::rocm_backend::hip::{static_text, HipResult};
use crate::rocm_backend::stream::RocmStream;
use crate::rocm_backend::{api, installation, RocmError};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

/// How long a call of the host may go on after it has been given up, before its communicator is ended under it.
const LEAVE: Duration = Duration::from_secs(1);

/// A rank in the list of its stream's queue: why what was queued cannot be relied on outlives it.
pub(in crate::rocm_backend) struct Listed {
    fault: Arc<Fault>,
    rank: Weak<Rank>,
}

/// The first error of a queue's ranks. One stays until its communicator is dropped, and is told once after that.
pub(in crate::rocm_backend) fn check_all(ranks: &Mutex<Vec<Listed>>) -> HipResult<()> {
    let mut ranks = lock(ranks);
    // What came to an end may have come to that by an error, which the watching thread has not seen yet.
    for rank in ranks.iter().filter_map(|listed| listed.rank.upgrade()) {
        rank.forget_done();
        rank.look();
    }
    let found = ranks.iter().try_for_each(|listed| listed.fault.check());
    ranks.retain(|listed| !listed.fault.is_closed.load(Ordering::Acquire));
    found
}

/// Notes that a graph is on the stream, in which ranks may have calls.
pub(in crate::rocm_backend) fn launched(ranks: &Mutex<Vec<Listed>>) -> HipResult<()> {
    let ranks: Vec<_> = lock(ranks)
        .iter()
        .filter_map(|listed| listed.rank.upgrade())
        .collect();
    ranks.iter().try_for_each(|rank| rank.launched())
}

/// Why what a stream was told cannot be relied on.
#[derive(Debug, Default)]
struct Fault {
    failure: Mutex<Option<Failure>>,
    /// Whether nobody has the communicator any more.
    is_closed: AtomicBool,
}

#[derive(Debug, Clone)]
struct Failure {
    call: &'static str,
    whose: String,
    problem: String,
}

impl Fault {
    /// The error, if there is one.
    fn check(&self) -> HipResult<()> {
        match lock(&self.failure).clone() {
            Some(Failure {
                call,
                whose,
                problem,
            }) => Err(RocmError::Rccl {
                call,
                whose,
                problem,
            }),
            None => Ok(()),
        }
    }

    /// Whether it is the first failure, which is kept.
    fn set(&self, failure: Failure) -> bool {
        let mut known = lock(&self.failure);
        let first = known.is_none();
        known.get_or_insert(failure);
        first
    }
}

/// A call that has been made and is not known to be done.
struct Pending {
    number: u64,
    call: &'static str,
    since: Instant,
    /// Its end on the stream; None while the host is in it.
    event: Option<Arc<RocmEvent>>,
}

struct State {
    /// None once the communicator was ended.
    handle: Option<Handle>,
    /// Whether the host is in a call.
    calling: bool,
    made: u64,
    /// The call that was made last.
    last: &'static str,
    pending: Vec<Pending>,
    /// Whether a graph of the stream has calls.
    captured: bool,
    limit: Duration,
}

impl State {
    /// Notes a call, and returns its number.
    fn enter(&mut self, call: &'static str) -> u64 {
        self.calling = true;
        self.made += 1;
        self.last = call;
        self.pending.push(Pending {
            number: self.made,
            call,
            since: Instant::now(),
            event: None,
        });
        self.made
    }
}

pub(super) struct Rank {
    stream: Arc<RocmStream>,
    number: usize,
    world: usize,
    /// One call at a time.
    calls: Mutex<()>,
    state: Mutex<State>,
    fault: Arc<Fault>,
}

impl Rank {
    pub(super) fn new(
        stream: Arc<RocmStream>,
        number: usize,
        world: usize,
        handle: Handle,
    ) -> Arc<Self> {
        let state = State {
            handle: Some(handle),
            calling: false,
            made: 0,
            last: "a collective",
            pending: Vec::new(),
            captured: false,
            limit: super::join::limit(),
        };
        let rank = Arc::new(Self {
            stream,
            number,
            world,
            calls: Mutex::default(),
            state: Mutex::new(state),
            fault: Arc::default(),
        });
        if let Ok(queue) = rank.stream.queue() {
            lock(&queue.parts.ranks).push(Listed {
                fault: rank.fault.clone(),
                rank: Arc::downgrade(&rank),
            });
        }
        watch::add(&rank);
        rank
    }

    pub(super) fn stream(&self) -> &Arc<RocmStream> {
        &self.stream
    }

    pub(super) fn number(&self) -> usize {
        self.number
    }

    pub(super) fn world(&self) -> usize {
        self.world
    }

    /// The error of a call that went wrong after it was queued.
    pub(super) fn healthy(&self) -> HipResult<()> {
        self.fault.check()
    }

    pub(super) fn limit(&self) -> Duration {
        lock(&self.state).limit
    }

    pub(super) fn set_limit(&self, limit: Duration) {
        lock(&self.state).limit = limit;
        watch::wake();
    }

    fn whose(&self) -> String {
        format!("rank {} of {}", self.number, self.world)
    }

    /// Lets `issue` queue a call, with the GPU as current device.
    pub(super) fn run(
        self: &Arc<Self>,
        call: &'static str,
        issue: impl FnOnce(api::ncclComm_t, api::hipStream_t) -> api::ncclResult_t,
    ) -> HipResult<()> {
        let _one = lock(&self.calls);
        self.fault.check()?;
        self.stream.gpu().make_current()?;
        let (handle, number) = self.enter(call)?;
        let status = issue(handle, self.stream.handle());
        let outcome = check(call, &self.whose(), status);
        self.leave();
        match outcome {
            Ok(()) if group::add(self, number) => Ok(()),
            Ok(()) => self.queued(number),
            Err(error) => {
                lock(&self.state)
                    .pending
                    .retain(|pending| pending.number != number);
                self.fault.check()?;
                Err(error)
            }
        }
    }

    /// Notes that a graph with calls of this rank is on the stream.
    fn launched(&self) -> HipResult<()> {
        if !lock(&self.state).captured {
            return Ok(());
        }
        let (_, number) = self.enter("a graph with collectives")?;
        self.leave();
        self.queued(number)
    }

    fn enter(&self, call: &'static str) -> HipResult<(api::ncclComm_t, u64)> {
        let mut state = lock(&self.state);
        let Some(handle) = state.handle.as_ref().map(|handle| handle.0) else {
            drop(state);
            self.fault.check()?;
            return Err("the communicator was aborted".into());
        };
        let number = state.enter(call);
        drop(state);
        watch::wake();
        Ok((handle, number))
    }

    fn leave(&self) {
        lock(&self.state).calling = false;
    }

    /// Notes that a call is on the stream now.
    pub(super) fn queued(&self, number: u64) -> HipResult<()> {
        self.fault.check()?;
        let is_captured = self.stream.captured().is_some();
        // An event of a capture is none of the stream's.
        let event = match is_captured {
            true => None,
            false => Some(self.stream.record_event()?),
        };
        let mut state = lock(&self.state);
        state.captured |= is_captured;
        match event {
            None => state.pending.retain(|pending| pending.number != number),
            Some(event) => {
                let pending = state.pending.iter_mut();
                if let Some(pending) = pending.into_iter().find(|pending| pending.number == number)
                {
                    pending.event = Some(Arc::new(event));
                }
            }
        }
        Ok(())
    }

    /// Whether something has been queued that is not known to be done.
    pub(super) fn is_busy(&self) -> bool {
        !lock(&self.state).pending.is_empty()
    }

    /// Forgets what is done. HIP is asked, which may wait for another thread's call.
    pub(super) fn forget_done(&self) {
        let events: Vec<_> = {
            let state = lock(&self.state);
            let ended = |pending: &Pending| Some((pending.number, pending.event.clone()?));
            state.pending.iter().filter_map(ended).collect()
        };
        let done: Vec<u64> = events
            .into_iter()
            .filter(|(_, event)| event.has_come())
            .map(|(number, _)| number)
            .collect();
        if !done.is_empty() {
            let mut state = lock(&self.state);
            state
                .pending
                .retain(|pending| !done.contains(&pending.number));
        }
    }

    /// Whether something has been queued that is not known to be done. Ends it if RCCL has an error, or it takes too long.
    ///
    /// HIP is not asked: a call of another thread that waits for the stream could keep this one from ending it.
    pub(super) fn look(&self) -> bool {
        let state = lock(&self.state);
        let Some(handle) = state.handle.as_ref().map(|handle| handle.0) else {
            return false;
        };
        let mut status = api::ncclSuccess;
        // SAFETY: the handle is not ended while the state is held, and `status` lives through the call.
        let asked = unsafe { api::ncclCommGetAsyncError(handle, &mut status) };
        let status = match asked {
            api::ncclSuccess => status,
            other => other,
        };
        let (limit, first) = (state.limit, state.pending.first());
        let busy = first.is_some();
        let late = first.is_some_and(|first| first.since.elapsed() > limit);
        let call = first.map_or(state.last, |first| first.call);
        let problem = match status {
            // What RCCL is about to do is no error yet.
            api::ncclSuccess | api::ncclInProgress => late.then(|| {
                format!(
                    "it was not done within {limit:?}: another rank has ended, is late, or calls something else"
                )
            }),
            status => Some(describe(status, handle)),
        };
        drop(state);
        match problem {
            None => busy,
            Some(problem) => {
                self.fail(call, problem);
                false
            }
        }
    }

    fn fail(&self, call: &'static str, problem: String) {
        let whose = self.whose();
        let failure = Failure {
            call,
            whose,
            problem,
        };
        if self.fault.set(failure) {
            self.end(true);
        }
    }

    /// As the program wants it.
    pub(super) fn abort(&self) {
        let call = lock(&self.state)
            .pending
            .first()
            .map(|pending| pending.call);
        self.fail(
            call.unwrap_or("abort"),
            "the communicator was aborted".to_string(),
        );
    }

    /// Ends the communicator, and what it has queued if `abort` says so.
    fn end(&self, abort: bool) {
        let mut state = lock(&self.state);
        let Some(handle) = state.handle.take() else {
            return;
        };
        // HIP, which ends their events, may wait for a call of another thread's that waits for what ends here.
        let pending = std::mem::take(&mut state.pending);
        drop(state);
        // A call of the host's that goes on may still use the handle; RCCL ends one that hangs only under it.
        let since = Instant::now();
        while lock(&self.state).calling && since.elapsed() < LEAVE {
            std::thread::sleep(Duration::from_millis(1));
        }
        // A failure means that the runtime is gone, or that RCCL has lost the communicator.
        if abort {
            // It can wait for other ranks of this process, or for work of others on the GPU, and is not waited for.
            std::thread::spawn(move || {
                // SAFETY: nobody else has the handle any more. RCCL makes its GPU the current one by itself.
                let _ = unsafe { api::ncclCommAbort(handle.into_raw()) };
                drop(pending);
            });
        } else {
            // SAFETY: as above.
            let _ = unsafe { api::ncclCommDestroy(handle.into_raw()) };
        }
    }

    /// Waits for what the program has queued, within the time limit, and ends the communicator.
    pub(super) fn close(&self) {
        // Refused while the stream is captured: then nothing more comes of the calls.
        let waited = self.stream.synchronize();
        self.end(waited.is_err());
        self.fault.is_closed.store(true, Ordering::Release);
    }
}

impl Drop for super::Comm {
    fn drop(&mut self) {
        self.rank.close();
    }
}

/// `Ok` for success, otherwise an error that names the call and the rank.
pub(super) fn check(call: &'static str, whose: &str, status: api::ncclResult_t) -> HipResult<()> {
    // RCCL says so of a call that it goes on with by itself.
    if status == api::ncclSuccess || status == api::ncclInProgress {
        return Ok(());
    }
    if let Some(problem) = installation::problem("rccl") {
        return Err(RocmError::MissingLibrary { call, problem });
    }
    Err(RocmError::Rccl {
        call,
        whose: whose.to_string(),
        problem: describe(status, std::ptr::null_mut()),
    })
}

/// A status in words, with what RCCL knows of the last error.
fn describe(status: api::ncclResult_t, handle: api::ncclComm_t) -> String {
    let name = match status {
        api::ncclUnhandledCudaError => "ncclUnhandledCudaError",
        api::ncclSystemError => "ncclSystemError",
        api::ncclInternalError => "ncclInternalError",
        api::ncclInvalidArgument => "ncclInvalidArgument",
        api::ncclInvalidUsage => "ncclInvalidUsage",
        api::ncclRemoteError => "ncclRemoteError",
        _ => "an unknown result",
    };
    // SAFETY: RCCL takes null, or the communicator, which its caller keeps; the text lives until the next error.
    let text = unsafe { static_text(api::ncclGetLastError(handle)) };
    match text.trim() {
        "" => format!("{name} ({status})"),
        text => format!("{name} ({status}): {text}"),
    }
}
