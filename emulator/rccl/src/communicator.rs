//! One rank of a communicator.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, Weak};
use std::thread;
use std::time::{Duration, Instant};

use api::rccl::*;
use candle_rocm_emulator_link::{Handles, architecture, card, note, run_by_itself, wake};

use crate::id::Id;
use crate::number::Number;
use crate::wire::{self, Call, Failure, Hello, Kind, Reply, Request};
use crate::{Outcome, refuse};

/// What a hub has, beyond its own time limit, to answer.
const GRACE: Duration = Duration::from_secs(2);

/// One rank of a communicator.
#[derive(Debug)]
pub struct Communicator {
    /// Its number.
    pub rank: usize,
    /// How many ranks there are.
    pub world: usize,
    /// The device that its streams are of.
    pub device: usize,
    /// Whether its e4m3 is the one without a negative zero.
    pub fnuz: bool,
    /// How long it waits; also for communicators that are split from it.
    pub timeout: Option<Duration>,
    card: String,
    state: Mutex<State>,
    changed: Condvar,
    writer: Mutex<Option<TcpStream>>,
}

#[derive(Debug, Default)]
struct State {
    joined: bool,
    handed_out: u64,
    tickets: BTreeMap<u64, Ticket>,
    failure: Option<Failure>,
    /// The stream of the last call, and whether that call is done.
    last: Option<(usize, Arc<AtomicBool>)>,
    /// Operations of its own: what elements are multiplied by before they are added.
    scales: BTreeMap<ncclRedOp_t, Scale>,
}

#[derive(Debug)]
enum Ticket {
    Waits(Instant),
    Done(Vec<u8>),
}

/// A number that a rank multiplies its elements by.
#[derive(Clone, Debug)]
pub struct Scale {
    /// Its type, which is the elements' too.
    pub number: Number,
    /// Where it is.
    pub factor: Factor,
}

/// Where a factor is.
#[derive(Clone, Debug)]
pub enum Factor {
    /// Its bytes, taken when the operation was made.
    Bytes(Vec<u8>),
    /// On the device, read when a call runs.
    At(usize),
}

static COMMUNICATORS: Handles<Arc<Communicator>> = Handles::new();

/// All ranks of this process, those that others are split from included.
static RANKS: Mutex<Vec<Weak<Communicator>>> = Mutex::new(Vec::new());

/// Lets all ranks of this process leave.
pub fn leave_all() {
    let ranks = std::mem::take(&mut *RANKS.lock().expect("no panic while held"));
    ranks.iter().filter_map(Weak::upgrade).for_each(|rank| rank.leave());
}

/// Keeps a communicator for the program.
pub fn keep(communicator: Arc<Communicator>) -> ncclComm_t {
    COMMUNICATORS.insert(communicator)
}

/// The communicator of a handle.
///
/// # Errors
/// `ncclInvalidArgument` if it is none.
pub fn find(handle: ncclComm_t) -> Outcome<Arc<Communicator>> {
    COMMUNICATORS.with(handle, |communicator| Arc::clone(communicator)).ok_or(ncclInvalidArgument)
}

/// The communicator of a handle, for a call.
///
/// # Errors
/// `ncclInvalidArgument` if it is none or has not been joined, the failure if it is of no use any more.
pub fn usable(handle: ncclComm_t) -> Outcome<Arc<Communicator>> {
    let communicator = find(handle)?;
    let state = communicator.state();
    match &state.failure {
        Some(failure) => return Err(failure.result),
        None if !state.joined => {
            return refuse(ncclInvalidArgument, "the communicator's ranks have not come together yet");
        }
        None => {}
    }
    drop(state);
    Ok(communicator)
}

/// Takes a communicator from the program.
///
/// # Errors
/// `ncclInvalidArgument` if it is none.
pub fn give_up(handle: ncclComm_t) -> Outcome<Arc<Communicator>> {
    COMMUNICATORS.remove(handle).ok_or(ncclInvalidArgument)
}

impl Communicator {
    /// A rank of the calling thread's device that has not come to the others yet.
    pub fn new(rank: usize, world: usize, device: usize, timeout: Option<Duration>) -> Arc<Self> {
        run_by_itself();
        let made = Arc::new(Self {
            rank,
            world,
            device,
            fnuz: architecture() == "gfx942",
            timeout,
            card: format!("{} card {}", machine(), card(device).unwrap_or_default()),
            state: Mutex::default(),
            changed: Condvar::new(),
            writer: Mutex::new(None),
        });
        let mut ranks = RANKS.lock().expect("no panic while held");
        ranks.retain(|rank| rank.strong_count() > 0);
        ranks.push(Arc::downgrade(&made));
        made
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic while held")
    }

    /// Goes to the hub of an id and waits for the other ranks.
    ///
    /// # Errors
    /// Why they do not come together.
    pub fn join(self: &Arc<Self>, id: Option<Id>) -> Result<(), Failure> {
        let outcome = id.ok_or_else(garbled).and_then(|id| self.connect(id));
        let mut state = self.state();
        match &outcome {
            // What happens after that is of the calls, even if it is known by now.
            Ok(()) => state.joined = true,
            Err(failure) => {
                note(&failure.text);
                state.failure.get_or_insert_with(|| failure.clone());
            }
        }
        outcome
    }

    fn connect(self: &Arc<Self>, id: Id) -> Result<(), Failure> {
        let lost = |error: io::Error| remote(format!("rank {}: the hub at {}: {error}", self.rank, id.address));
        let mut stream = match self.timeout {
            Some(timeout) => TcpStream::connect_timeout(&id.address, timeout),
            None => TcpStream::connect(id.address),
        }
        .map_err(lost)?;
        let limit = self.timeout.map(|timeout| timeout + GRACE);
        stream.set_nodelay(true).map_err(lost)?;
        stream.set_write_timeout(limit).map_err(lost)?;
        stream.set_read_timeout(limit).map_err(lost)?;
        *self.writer.lock().expect("no panic while held") = Some(stream.try_clone().map_err(lost)?);
        let (rank, world) = (self.rank, self.world);
        let hello = Hello { nonce: id.nonce, rank, world, card: self.card.clone(), fnuz: self.fnuz };
        wire::write(&mut stream, &hello, &[]).map_err(lost)?;
        match wire::read(&mut stream).map_err(lost)? {
            (Reply::Joined, _) => {}
            (Reply::Failed(failure), _) => return Err(failure),
            (Reply::Done { .. }, _) => return Err(remote("the hub answers what was not asked")),
        }
        stream.set_read_timeout(None).map_err(lost)?;
        let own = Arc::clone(self);
        thread::spawn(move || own.listen(stream));
        Ok(())
    }

    fn listen(&self, mut stream: TcpStream) {
        loop {
            match wire::read(&mut stream) {
                Ok((Reply::Done { ticket }, bytes)) => {
                    self.state().tickets.insert(ticket, Ticket::Done(bytes));
                }
                Ok((Reply::Failed(failure), _)) => self.fail(failure),
                Ok((Reply::Joined, _)) => {}
                Err(_) => {
                    // A rank that waits without end does so too when the process of the hub has ended.
                    if self.timeout.is_some() && !self.has_left() {
                        self.fail(remote("the process that made the communicator's id is gone"));
                    }
                    return;
                }
            }
            self.changed.notify_all();
            wake();
        }
    }

    /// Notes that the communicator is of no use any more.
    pub fn fail(&self, failure: Failure) {
        let mut state = self.state();
        if state.failure.is_none() {
            note(&format!("rank {}: {}", self.rank, failure.text));
            state.failure = Some(failure);
        }
        drop(state);
        self.changed.notify_all();
        wake();
    }

    /// Why the communicator is of no use, `ncclInProgress` if its ranks come together, or `ncclSuccess`.
    pub fn result(&self) -> ncclResult_t {
        let state = self.state();
        match &state.failure {
            Some(failure) => failure.result,
            None if !state.joined => ncclInProgress,
            None => ncclSuccess,
        }
    }

    /// The failure's text.
    pub fn problem(&self) -> Option<String> {
        self.state().failure.as_ref().map(|failure| failure.text.clone())
    }

    /// Hands something in. Returns the ticket for what comes back.
    pub fn submit(&self, request: impl FnOnce(u64) -> Request, bytes: &[u8]) -> u64 {
        let mut state = self.state();
        state.handed_out += 1;
        let ticket = state.handed_out;
        state.tickets.insert(ticket, Ticket::Waits(Instant::now()));
        drop(state);
        let mut writer = self.writer.lock().expect("no panic while held");
        let written = writer.as_mut().map(|stream| wire::write(stream, &request(ticket), bytes));
        drop(writer);
        if let (Some(Err(error)), Some(_)) = (written, self.timeout) {
            self.fail(remote(format!("the hub: {error}")));
        }
        ticket
    }

    /// Whether what a ticket is for has come, or never will.
    pub fn is_settled(&self, ticket: u64) -> bool {
        let state = self.state();
        state.failure.is_some() || matches!(state.tickets.get(&ticket), Some(Ticket::Done(_)))
    }

    /// What a ticket is for; none if the communicator is of no use.
    pub fn take(&self, ticket: u64) -> Option<Vec<u8>> {
        match self.state().tickets.remove(&ticket) {
            Some(Ticket::Done(bytes)) => Some(bytes),
            _ => None,
        }
    }

    /// Gives bytes to all ranks, and waits for theirs: all of them, by rank.
    ///
    /// # Errors
    /// Why there are none.
    pub fn exchange(&self, bytes: &[u8]) -> Outcome<Vec<u8>> {
        let call = Call { kind: Kind::Split, count: bytes.len(), number: Number::U8 };
        let ticket = self.submit(|ticket| Request::Together { ticket, call }, bytes);
        let mut state = self.state();
        while state.failure.is_none() && !matches!(state.tickets.get(&ticket), Some(Ticket::Done(_))) {
            state = self.changed.wait(state).expect("no panic while held");
        }
        drop(state);
        self.take(ticket).ok_or_else(|| self.result())
    }

    /// Ends what waits longer than a hub would let it: the process of the hub may have been stopped.
    pub fn look_at_the_clock(&self) {
        let Some(limit) = self.timeout.map(|timeout| timeout + GRACE) else { return };
        let late = |ticket: &Ticket| matches!(ticket, Ticket::Waits(since) if since.elapsed() > limit);
        let is_late = self.state().tickets.values().any(late);
        if is_late {
            self.fail(remote("the process that made the communicator's id does not answer"));
        }
    }

    /// Says that nothing more comes from this rank.
    pub fn leave(&self) {
        self.hang_up(Some(Request::Goodbye));
    }

    /// Ends all that waits, here and on the other ranks.
    pub fn abort(&self) {
        self.fail(Failure { result: ncclInternalError, text: "the communicator was aborted".to_string() });
        self.hang_up(None);
    }

    /// Whether this rank has hung up.
    fn has_left(&self) -> bool {
        self.writer.lock().expect("no panic while held").is_none()
    }

    fn hang_up(&self, last: Option<Request>) {
        if let Some(mut stream) = self.writer.lock().expect("no panic while held").take() {
            if let Some(request) = last {
                let _ = wire::write(&mut stream, &request, &[]);
            }
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Notes the stream of a call and returns what comes before it on another stream; `done` becomes set when it is done.
    pub fn follow(&self, stream: usize, done: &Arc<AtomicBool>) -> Option<Arc<AtomicBool>> {
        let last = self.state().last.replace((stream, Arc::clone(done)));
        last.filter(|(other, last)| *other != stream && !last.load(Ordering::Acquire)).map(|(_, last)| last)
    }

    /// Makes an operation.
    pub fn add_scale(&self, scale: Scale) -> ncclRedOp_t {
        let scales = &mut self.state().scales;
        let op = scales.keys().next_back().map_or(ncclAvg + 1, |last| last + 1);
        scales.insert(op, scale);
        op
    }

    /// What an operation of this communicator multiplies elements of that type by.
    pub fn scale(&self, op: ncclRedOp_t, number: Number) -> Option<Scale> {
        self.state().scales.get(&op).filter(|scale| scale.number == number).cloned()
    }

    /// Gives an operation up; false if there is none.
    pub fn remove_scale(&self, op: ncclRedOp_t) -> bool {
        self.state().scales.remove(&op).is_some()
    }
}

fn garbled() -> Failure {
    Failure {
        result: ncclInvalidArgument,
        text: "the ncclUniqueId is garbled, or was made by another library".to_string(),
    }
}

fn remote(text: impl Display) -> Failure {
    Failure { result: ncclRemoteError, text: text.to_string() }
}

/// This machine among others: network namespaces count as machines of their own.
fn machine() -> &'static str {
    static MACHINE: OnceLock<String> = OnceLock::new();
    MACHINE.get_or_init(|| {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let network = std::fs::read_link("/proc/self/ns/net").unwrap_or_default();
        format!("{} {}", boot.trim(), network.display())
    })
}
