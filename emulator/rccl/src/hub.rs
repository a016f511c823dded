//! The hub of a communicator, in the process that made its id: it brings the ranks' calls together.
//!
//! One thread has all state. Each connection has a thread that reads.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Display;
use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use api::rccl::{ncclInvalidUsage, ncclRemoteError};
use candle_rocm_emulator_runtime::random::{Order, Random};

use crate::communicator::leave_all;
use crate::id::{Id, own_address};
use crate::number::Number;
use crate::reduce::reduce;
use crate::wire::{self, Call, Failure, Hello, Kind, Reply, Request};

/// How often it is looked whether a rank is late.
const TICK: Duration = Duration::from_millis(20);

/// The hubs of this process.
static HUBS: Mutex<Vec<Arc<Serving>>> = Mutex::new(Vec::new());

/// Whether ranks still need a hub.
struct Serving {
    ranks_are_here: Mutex<bool>,
    changed: Condvar,
    timeout: Option<Duration>,
}

impl Serving {
    fn set(&self, ranks_are_here: bool) {
        *self.ranks_are_here.lock().expect("no panic while held") = ranks_are_here;
        self.changed.notify_all();
    }

    /// Not longer than ranks wait for each other; where those wait without end, a process ends as it likes.
    fn wait(&self) {
        let Some(timeout) = self.timeout else { return };
        let ranks_are_here = self.ranks_are_here.lock().expect("no panic while held");
        drop(self.changed.wait_timeout_while(ranks_are_here, timeout, |here| *here));
    }
}

/// Runs when the process ends by itself: its ranks leave, and its hubs serve the others as long as these are there.
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_THE_END: extern "C" fn() = serve_the_others;

extern "C" fn serve_the_others() {
    leave_all();
    let hubs = std::mem::take(&mut *HUBS.lock().expect("no panic while held"));
    hubs.iter().for_each(|hub| hub.wait());
}

enum Event {
    Came { connection: usize, hello: Hello, stream: TcpStream },
    Said { connection: usize, request: Request, bytes: Vec<u8> },
    Gone { connection: usize },
}

/// Starts a hub that serves one communicator. Returns its id.
///
/// # Errors
/// If no socket can be had.
pub fn start(timeout: Option<Duration>, seed: u64) -> io::Result<Id> {
    let listener = TcpListener::bind((own_address(), 0))?;
    let id = Id::new(listener.local_addr()?);
    let (events, received) = channel();
    let closed = Arc::new(AtomicBool::new(false));
    let accepting = Arc::clone(&closed);
    thread::spawn(move || accept(&listener, id.nonce, &events, &accepting));
    let serving = Arc::new(Serving { ranks_are_here: Mutex::new(false), changed: Condvar::new(), timeout });
    let mut hubs = HUBS.lock().expect("no panic while held");
    // Those that have ended are nobody else's any more.
    hubs.retain(|hub| Arc::strong_count(hub) > 1);
    hubs.push(Arc::clone(&serving));
    drop(hubs);
    thread::spawn(move || {
        let close = || {
            closed.store(true, Ordering::Release);
            // So that `accept` looks; it is no rank.
            drop(TcpStream::connect(id.address));
        };
        Hub::new(timeout, seed).run(&received, close, &serving);
    });
    Ok(id)
}

fn accept(listener: &TcpListener, nonce: u64, events: &Sender<Event>, closed: &AtomicBool) {
    for (connection, stream) in listener.incoming().enumerate() {
        if closed.load(Ordering::Acquire) {
            return;
        }
        let Ok(stream) = stream else { continue };
        let events = events.clone();
        thread::spawn(move || {
            // That nobody listens any more is the hub's affair.
            let _ = listen(stream, connection, nonce, &events);
            let _ = events.send(Event::Gone { connection });
        });
    }
}

fn listen(mut stream: TcpStream, connection: usize, nonce: u64, events: &Sender<Event>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (hello, _) = wire::read::<Hello>(&mut stream)?;
    if hello.nonce != nonce {
        return Ok(());
    }
    let answers = stream.try_clone()?;
    let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
    events.send(Event::Came { connection, hello, stream: answers }).map_err(gone)?;
    loop {
        let (request, bytes) = wire::read(&mut stream)?;
        events.send(Event::Said { connection, request, bytes }).map_err(gone)?;
    }
}

struct Member {
    hello: Hello,
    stream: TcpStream,
    /// Whether more may come from it.
    is_here: bool,
    /// How many calls that all make it has made on streams, and how many beside them.
    calls: [u64; 2],
}

/// Of each rank: its ticket and what it handed in, once it has come.
type Arrivals = Vec<Option<(u64, Vec<u8>)>>;

/// A call that some ranks have come to.
struct Gathering {
    call: Call,
    /// The rank that came first.
    first: usize,
    since: Instant,
    arrivals: Arrivals,
}

/// One end of a transfer between two ranks.
struct Posted {
    ticket: u64,
    count: usize,
    number: Number,
    bytes: Vec<u8>,
    since: Instant,
}

/// What waits between two ranks; one of the queues is empty.
#[derive(Default)]
struct Line {
    sends: VecDeque<Posted>,
    receives: VecDeque<Posted>,
}

struct Hub {
    timeout: Option<Duration>,
    random: Random,
    /// Those that have come, before all have.
    waiting: BTreeMap<usize, (Hello, TcpStream)>,
    began: Option<Instant>,
    /// By rank, once all have come.
    members: Vec<Member>,
    /// The rank of a connection.
    ranks: BTreeMap<usize, usize>,
    /// By whether they are beside streams, and by number.
    calls: BTreeMap<(bool, u64), Gathering>,
    lines: BTreeMap<(usize, usize), Line>,
    failed: bool,
}

type Lost = Result<(), Failure>;

fn failure<T>(result: u32, text: impl Display) -> Result<T, Failure> {
    Err(Failure { result, text: text.to_string() })
}

impl Hub {
    fn new(timeout: Option<Duration>, seed: u64) -> Self {
        Self {
            timeout,
            random: Random::new(seed),
            waiting: BTreeMap::new(),
            began: None,
            members: Vec::new(),
            ranks: BTreeMap::new(),
            calls: BTreeMap::new(),
            lines: BTreeMap::new(),
            failed: false,
        }
    }

    fn run(&mut self, events: &Receiver<Event>, close: impl Fn(), serving: &Serving) {
        let mut is_open = true;
        loop {
            let outcome = match events.recv_timeout(TICK) {
                Ok(event) => self.handle(event),
                Err(RecvTimeoutError::Timeout) => self.look_at_the_clock(),
                Err(RecvTimeoutError::Disconnected) => return,
            };
            if let Err(failure) = outcome {
                self.fail(&failure);
            }
            if is_open && (self.failed || !self.members.is_empty()) {
                is_open = false;
                close();
            }
            let over = self.failed || !self.members.is_empty();
            let are_here = self.members.iter().any(|member| member.is_here);
            serving.set(are_here && !self.failed);
            if over && self.waiting.is_empty() && !are_here {
                return;
            }
        }
    }

    fn handle(&mut self, event: Event) -> Lost {
        match event {
            Event::Came { connection, hello, stream } => self.join(connection, hello, stream),
            Event::Said { connection, request, bytes } => match self.ranks.get(&connection) {
                Some(&rank) if !self.failed => self.request(rank, request, bytes),
                Some(&rank) if request == Request::Goodbye => {
                    self.members[rank].is_here = false;
                    Ok(())
                }
                _ => Ok(()),
            },
            Event::Gone { connection } => self.gone(connection),
        }
    }

    fn join(&mut self, connection: usize, hello: Hello, stream: TcpStream) -> Lost {
        // An answer that a rank does not take must not stop the others'.
        let _ = stream.set_write_timeout(self.timeout);
        self.began.get_or_insert_with(Instant::now);
        let Hello { rank, world, ref card, .. } = hello;
        let others = || self.waiting.values().map(|(other, _)| other);
        let problem = if rank >= world {
            Some(format!("rank {rank} of {world} ranks"))
        } else if let Some(other) = others().find(|other| other.world != world) {
            Some(format!("rank {rank} says that there are {world} ranks, rank {} says {}", other.rank, other.world))
        } else if others().any(|other| other.rank == rank) {
            Some(format!("rank {rank} came twice"))
        } else {
            others()
                .find(|other| other.card == *card)
                .map(|other| format!("ranks {} and {rank} have the same GPU ({card})", other.rank))
        };
        self.waiting.insert(connection, (hello, stream));
        if let Some(problem) = problem {
            return failure(ncclInvalidUsage, problem);
        }
        if self.waiting.len() < world {
            return Ok(());
        }
        let mut all: Vec<_> = std::mem::take(&mut self.waiting).into_iter().collect();
        all.sort_by_key(|(_, (hello, _))| hello.rank);
        for (connection, (hello, stream)) in all {
            self.ranks.insert(connection, hello.rank);
            self.members.push(Member { hello, stream, is_here: true, calls: [0; 2] });
        }
        (0..self.members.len()).try_for_each(|rank| self.answer(rank, &Reply::Joined, &[]))
    }

    /// Writes to a rank; that it is not there any more is a failure of all.
    fn answer(&mut self, rank: usize, reply: &Reply, bytes: &[u8]) -> Lost {
        match wire::write(&mut self.members[rank].stream, reply, bytes) {
            Err(_) if self.timeout.is_some() => failure(ncclRemoteError, format!("rank {rank} is gone")),
            _ => Ok(()),
        }
    }

    fn gone(&mut self, connection: usize) -> Lost {
        if let Some((hello, _)) = self.waiting.remove(&connection) {
            return failure(ncclRemoteError, format!("rank {} is gone before all have come", hello.rank));
        }
        let Some(&rank) = self.ranks.get(&connection) else { return Ok(()) };
        let was_here = std::mem::replace(&mut self.members[rank].is_here, false);
        if !was_here || self.failed || self.timeout.is_none() {
            return Ok(());
        }
        let during =
            self.calls.values().next().map_or(String::new(), |gathering| format!(" during {}", gathering.call));
        failure(ncclRemoteError, format!("rank {rank} is gone{during}: it ended, or aborted the communicator"))
    }

    fn request(&mut self, rank: usize, request: Request, bytes: Vec<u8>) -> Lost {
        match request {
            Request::Together { ticket, call } => self.together(rank, ticket, call, bytes),
            Request::Send { ticket, to, count, number } => {
                let posted = Posted { ticket, count, number, bytes, since: Instant::now() };
                self.lines.entry((rank, to)).or_default().sends.push_back(posted);
                self.transfer(rank, to)
            }
            Request::Receive { ticket, from, count, number } => {
                let posted = Posted { ticket, count, number, bytes, since: Instant::now() };
                self.lines.entry((from, rank)).or_default().receives.push_back(posted);
                self.transfer(from, rank)
            }
            Request::Goodbye => {
                self.members[rank].is_here = false;
                self.all_may_come()
            }
        }
    }

    fn together(&mut self, rank: usize, ticket: u64, call: Call, bytes: Vec<u8>) -> Lost {
        let beside = call.kind == Kind::Split;
        let made = &mut self.members[rank].calls[usize::from(beside)];
        let at = (beside, *made);
        *made += 1;
        let arrivals = || (0..self.members.len()).map(|_| None).collect();
        let gathering = self.calls.entry(at).or_insert_with(|| Gathering {
            call,
            first: rank,
            since: Instant::now(),
            arrivals: arrivals(),
        });
        if gathering.call != call {
            let (first, other) = (gathering.first, gathering.call);
            let text = format!("call {}: rank {rank} calls {call}, rank {first} calls {other}", at.1 + 1);
            // The real library waits without end, or moves what it should not.
            return if self.timeout.is_some() { failure(ncclInvalidUsage, text) } else { Ok(()) };
        }
        gathering.arrivals[rank] = Some((ticket, bytes));
        if gathering.arrivals.iter().any(Option::is_none) {
            return self.all_may_come();
        }
        let Gathering { call, arrivals, .. } = self.calls.remove(&at).expect("it was found");
        let (tickets, data): (Vec<u64>, Vec<Vec<u8>>) = arrivals.into_iter().flatten().unzip();
        let results = self.results(call, &data);
        let answers = tickets.into_iter().zip(results).enumerate();
        // The first rank last: it is mostly of this process, which may end when it has all it wanted.
        answers.rev().try_for_each(|(rank, (ticket, bytes))| self.answer(rank, &Reply::Done { ticket }, &bytes))
    }

    /// What each rank receives.
    fn results(&mut self, call: Call, data: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let world = data.len();
        let fnuz = self.members[0].hello.fnuz;
        let random = &mut self.random;
        let mut reduced = |op| {
            let order: Vec<usize> = Order::new(world as u64, random).map(|rank| rank as usize).collect();
            reduce(call.number, fnuz, op, data, &order)
        };
        match call.kind {
            Kind::AllReduce(op) => vec![reduced(op); world],
            Kind::Reduce { op, root } => only(root, reduced(op), world),
            Kind::ReduceScatter(op) => {
                let whole = reduced(op);
                whole.chunks(whole.len() / world).map(<[u8]>::to_vec).collect()
            }
            Kind::AllGather | Kind::Split => vec![data.concat(); world],
            Kind::Broadcast { root } => vec![data[root].clone(); world],
        }
    }

    fn transfer(&mut self, from: usize, to: usize) -> Lost {
        let line = self.lines.entry((from, to)).or_default();
        if line.sends.is_empty() || line.receives.is_empty() {
            return self.all_may_come();
        }
        let send = line.sends.pop_front().expect("there is one");
        let receive = line.receives.pop_front().expect("there is one");
        if (send.count, send.number) != (receive.count, receive.number) {
            let text = format!(
                "rank {from} sends {} {:?} to rank {to}, which receives {} {:?}",
                send.count, send.number, receive.count, receive.number
            );
            return if self.timeout.is_some() { failure(ncclInvalidUsage, text) } else { Ok(()) };
        }
        self.answer(from, &Reply::Done { ticket: send.ticket }, &[])?;
        self.answer(to, &Reply::Done { ticket: receive.ticket }, &send.bytes)
    }

    /// Whether everybody who is waited for may still come.
    fn all_may_come(&self) -> Lost {
        if self.timeout.is_none() {
            return Ok(());
        }
        match self.awaited().into_iter().find(|(_, rank, _)| !self.members[*rank].is_here) {
            Some((what, rank, _)) => failure(ncclRemoteError, format!("{what}: rank {rank} has left the communicator")),
            None => Ok(()),
        }
    }

    /// What is waited for: in which call, who, and since when.
    fn awaited(&self) -> Vec<(String, usize, Instant)> {
        let mut found = Vec::new();
        for gathering in self.calls.values() {
            for (rank, arrival) in gathering.arrivals.iter().enumerate() {
                if arrival.is_none() {
                    found.push((gathering.call.to_string(), rank, gathering.since));
                }
            }
        }
        for (&(from, to), line) in &self.lines {
            let sends =
                line.sends.iter().map(|send| (format!("ncclSend from rank {from} to rank {to}"), to, send.since));
            let receives =
                line.receives.iter().map(|end| (format!("ncclRecv of rank {to} from rank {from}"), from, end.since));
            found.extend(sends.chain(receives));
        }
        found
    }

    fn look_at_the_clock(&mut self) -> Lost {
        let Some(timeout) = self.timeout.filter(|_| !self.failed) else { return Ok(()) };
        let is_late = |since: Instant| since.elapsed() > timeout;
        if self.members.is_empty() && self.began.is_some_and(is_late) {
            let world = self.waiting.values().map(|(hello, _)| hello.world).next().unwrap_or_default();
            let came: BTreeSet<usize> = self.waiting.values().map(|(hello, _)| hello.rank).collect();
            let lacking: Vec<_> = (0..world).filter(|rank| !came.contains(rank)).map(|rank| rank.to_string()).collect();
            let text = format!("rank {} of {world} did not come within {timeout:?}", lacking.join(", "));
            return failure(ncclRemoteError, text);
        }
        match self.awaited().into_iter().find(|(_, _, since)| is_late(*since)) {
            Some((what, rank, _)) => {
                failure(ncclRemoteError, format!("{what}: rank {rank} did not come within {timeout:?}"))
            }
            None => Ok(()),
        }
    }

    /// Tells everybody.
    fn fail(&mut self, failure: &Failure) {
        if self.failed {
            return;
        }
        self.failed = true;
        let reply = Reply::Failed(failure.clone());
        let mut waiting: Vec<_> = std::mem::take(&mut self.waiting).into_values().collect();
        // The first rank last: it is mostly of this process, which may end when it knows.
        waiting.sort_by_key(|(hello, _)| std::cmp::Reverse(hello.rank));
        for (_, mut stream) in waiting {
            let _ = wire::write(&mut stream, &reply, &[]);
            let _ = stream.shutdown(Shutdown::Write);
        }
        for member in self.members.iter_mut().rev() {
            let _ = wire::write(&mut member.stream, &reply, &[]);
        }
    }
}

fn only(root: usize, bytes: Vec<u8>, world: usize) -> Vec<Vec<u8>> {
    let mut all = vec![Vec::new(); world];
    all[root] = bytes;
    all
}
