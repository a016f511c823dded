//! Streams: work that runs late, when something waits for it, in a random order that the rules of HIP allow.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use crate::random::Random;
use crate::report::Report;

/// Work that a stream holds before a caller has to wait for some of it to be done.
pub const MAX_BACKLOG: usize = 1024;

/// A stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StreamId {
    /// The legacy default stream of a device.
    Null(usize),
    /// Another one, by its number.
    Created(u64),
}

/// Becomes set when a stream reaches the place where an event was recorded.
#[derive(Debug, Default)]
pub struct Signal {
    reached: OnceLock<Instant>,
    abandoned: AtomicBool,
    captured: AtomicBool,
}

impl Signal {
    /// Whether what came before the event has been done, or will never be because of a fault.
    pub fn is_set(&self) -> bool {
        self.reached.get().is_some() || self.abandoned.load(Ordering::Acquire)
    }

    /// From now on the event is a part of a capture, and never comes itself.
    pub fn capture(&self) {
        self.captured.store(true, Ordering::Release);
    }

    /// Whether the event is a part of a capture.
    pub fn is_captured(&self) -> bool {
        self.captured.load(Ordering::Acquire)
    }

    /// When it was set.
    pub fn time(&self) -> Option<Instant> {
        self.reached.get().copied()
    }
}

/// Something that a stream does, again each time a graph that has it is launched.
#[derive(Clone)]
pub struct Action {
    function: Arc<dyn Fn() -> Result<(), Report> + Send + Sync>,
    /// Whether its time has come; none if that is as soon as the stream gets there.
    ready: Option<Arc<dyn Fn() -> bool + Send + Sync>>,
}

impl Action {
    /// What a function does, which reports a fault.
    pub fn new(function: impl Fn() -> Result<(), Report> + Send + Sync + 'static) -> Self {
        Self { function: Arc::new(function), ready: None }
    }

    /// The same, not before something outside of the machine has come about: another process sent what the stream waits
    /// for. `ready` is asked with the machine held; [`crate::machine::wake`] has it asked again.
    #[must_use]
    pub fn after(self, ready: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self { ready: Some(Arc::new(ready)), ..self }
    }

    fn is_ready(&self) -> bool {
        self.ready.as_ref().is_none_or(|ready| ready())
    }
}

impl std::fmt::Debug for Action {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Action")
    }
}

/// A piece of work on a stream.
pub enum Work {
    /// Does something.
    Run(Action),
    /// Sets a signal.
    Record(Arc<Signal>),
    /// Waits for a signal.
    Wait(Arc<Signal>),
}

impl std::fmt::Debug for Work {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Run(_) => "Run",
            Self::Record(_) => "Record",
            Self::Wait(_) => "Wait",
        })
    }
}

#[derive(Debug)]
struct Stream {
    device: usize,
    /// Whether it keeps order with the legacy default stream.
    blocking: bool,
    /// What the program asked for; it changes nothing.
    priority: i32,
    /// Each with its place in the order of all enqueuing.
    work: VecDeque<(u64, Work)>,
    /// The place of the piece that some thread does now.
    running: Option<u64>,
}

impl Stream {
    /// Whether all work that was enqueued before `place` is done.
    fn is_past(&self, place: u64) -> bool {
        let front = self.work.front().map(|(front, _)| *front);
        self.running.into_iter().chain(front).all(|pending| pending > place)
    }

    #[cfg(test)]
    fn is_idle(&self) -> bool {
        self.running.is_none() && self.work.is_empty()
    }
}

/// The streams of all devices.
#[derive(Debug)]
pub struct Queues {
    streams: BTreeMap<StreamId, Stream>,
    created: u64,
    enqueued: u64,
    random: Random,
}

impl Queues {
    /// The null streams of so many devices; `random` decides between streams.
    pub fn new(devices: usize, random: Random) -> Self {
        let null = |device| {
            (
                StreamId::Null(device),
                Stream { device, blocking: false, priority: 0, work: VecDeque::new(), running: None },
            )
        };
        Self { streams: (0..devices).map(null).collect(), created: 0, enqueued: 0, random }
    }

    /// Makes a stream; a blocking one keeps order with the null stream of its device.
    pub fn create(&mut self, device: usize, blocking: bool) -> StreamId {
        self.created += 1;
        let id = StreamId::Created(self.created);
        self.streams.insert(id, Stream { device, blocking, priority: 0, work: VecDeque::new(), running: None });
        id
    }

    /// Forgets a stream. Its work must be done.
    pub fn destroy(&mut self, id: StreamId) {
        self.streams.remove(&id);
    }

    /// Notes a stream's priority.
    pub fn set_priority(&mut self, id: StreamId, priority: i32) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.priority = priority;
        }
    }

    /// Whether a stream keeps order with the null stream, and its priority.
    pub fn properties(&self, id: StreamId) -> Option<(bool, i32)> {
        self.streams.get(&id).map(|stream| (stream.blocking, stream.priority))
    }

    /// The device of a stream, or none if there is no such stream.
    pub fn device_of(&self, id: StreamId) -> Option<usize> {
        self.streams.get(&id).map(|stream| stream.device)
    }

    /// Adds work to a stream that exists.
    pub fn enqueue(&mut self, id: StreamId, work: Work) {
        self.enqueued += 1;
        let place = self.enqueued;
        self.streams.get_mut(&id).expect("callers look streams up").work.push_back((place, work));
    }

    /// Pieces of work that wait on a stream.
    pub fn backlog(&self, id: StreamId) -> usize {
        self.streams.get(&id).map_or(0, |stream| stream.work.len())
    }

    /// The place in the order of all enqueuing that was given last.
    pub fn last_place(&self) -> u64 {
        self.enqueued
    }

    /// Whether all work that a stream got up to `place` is done, and what the null stream's rules put before it.
    pub fn is_past(&self, id: StreamId, place: u64) -> bool {
        let past = |id| self.streams.get(&id).is_none_or(|stream: &Stream| stream.is_past(place));
        let before_null = |device| {
            self.streams
                .values()
                .filter(|other| other.blocking && other.device == device)
                .all(|other| other.is_past(place))
        };
        past(id)
            && match id {
                StreamId::Null(device) => before_null(device),
                StreamId::Created(_) => true,
            }
    }

    /// Whether all work of a device up to `place` is done.
    pub fn is_device_past(&self, device: usize, place: u64) -> bool {
        self.streams.values().filter(|stream| stream.device == device).all(|stream| stream.is_past(place))
    }

    /// Takes a piece of work that may run now, of a stream drawn at random. `finish` must follow.
    pub fn take(&mut self) -> Option<(StreamId, Work)> {
        let runnable: Vec<_> = self.streams.keys().copied().filter(|&id| self.is_runnable(id)).collect();
        if runnable.is_empty() {
            return None;
        }
        let id = runnable[self.random.below(runnable.len() as u64) as usize];
        let stream = self.streams.get_mut(&id).expect("it is runnable");
        let (place, work) = stream.work.pop_front().expect("it is runnable");
        stream.running = Some(place);
        Some((id, work))
    }

    /// Notes that the work taken from a stream is done.
    pub fn finish(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.running = None;
        }
    }

    /// Whether some thread does a piece of work now.
    pub fn is_busy(&self) -> bool {
        self.streams.values().any(|stream| stream.running.is_some())
    }

    /// Whether what some stream does next depends on what comes from outside of the machine; it may have come by now.
    pub fn expects_others(&self) -> bool {
        let outside =
            |stream: &Stream| matches!(stream.work.front(), Some((_, Work::Run(action))) if action.ready.is_some());
        self.streams.values().any(outside)
    }

    /// A seed for the order inside of a kernel.
    pub fn draw(&mut self) -> Random {
        Random::new(self.random.bits())
    }

    /// Drops all work of a device after a fault. What waits for it elsewhere goes on.
    pub fn abandon(&mut self, device: usize) {
        for stream in self.streams.values_mut().filter(|stream| stream.device == device) {
            for (_, work) in stream.work.drain(..) {
                if let Work::Record(signal) = work {
                    signal.abandoned.store(true, Ordering::Release);
                }
            }
        }
    }

    fn is_runnable(&self, id: StreamId) -> bool {
        let stream = &self.streams[&id];
        let Some((place, work)) = stream.work.front() else { return false };
        let ready = match work {
            Work::Wait(signal) => signal.is_set(),
            Work::Run(action) => action.is_ready(),
            Work::Record(_) => true,
        };
        let same_device = |other: &&Stream| other.device == stream.device;
        let in_order = match id {
            StreamId::Null(_) => self
                .streams
                .values()
                .filter(same_device)
                .filter(|other| other.blocking)
                .all(|other| other.is_past(*place)),
            StreamId::Created(_) => !stream.blocking || self.streams[&StreamId::Null(stream.device)].is_past(*place),
        };
        stream.running.is_none() && ready && in_order
    }

    /// Whether nothing waits anywhere.
    #[cfg(test)]
    fn is_idle(&self) -> bool {
        self.streams.values().all(Stream::is_idle)
    }
}

/// Does a piece of work.
///
/// # Errors
/// The report of a fault.
pub fn perform(work: Work) -> Result<(), Report> {
    match work {
        Work::Run(action) => (action.function)(),
        Work::Record(signal) => {
            let _ = signal.reached.set(Instant::now());
            Ok(())
        }
        Work::Wait(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    type Log = Arc<Mutex<Vec<&'static str>>>;

    fn note(log: &Log, name: &'static str) -> Work {
        let log = Arc::clone(log);
        Work::Run(Action::new(move || {
            log.lock().unwrap().push(name);
            Ok(())
        }))
    }

    fn drain(queues: &mut Queues) {
        while let Some((id, work)) = queues.take() {
            perform(work).unwrap();
            queues.finish(id);
        }
        assert!(queues.is_idle(), "work is left that can never run");
    }

    /// The orders in which work runs, over many seeds.
    fn orders(build: impl Fn(&mut Queues, &Log)) -> std::collections::BTreeSet<Vec<&'static str>> {
        let run = |seed| {
            let (mut queues, log) = (Queues::new(2, Random::new(seed)), Log::default());
            build(&mut queues, &log);
            drain(&mut queues);
            log.lock().unwrap().clone()
        };
        (0..50).map(run).collect()
    }

    #[test]
    fn streams_interleave_and_each_keeps_its_order() {
        let seen = orders(|queues, log| {
            let (a, b) = (queues.create(0, true), queues.create(0, true));
            for (stream, name) in [(a, "a1"), (a, "a2"), (b, "b1")] {
                queues.enqueue(stream, note(log, name));
            }
        });
        let expected = [vec!["a1", "a2", "b1"], vec!["a1", "b1", "a2"], vec!["b1", "a1", "a2"]];
        assert_eq!(seen, expected.into_iter().collect());
    }

    #[test]
    fn the_null_stream_keeps_order_with_blocking_streams_of_its_device() {
        let seen = orders(|queues, log| {
            let stream = queues.create(0, true);
            queues.enqueue(stream, note(log, "before"));
            queues.enqueue(StreamId::Null(0), note(log, "null"));
            queues.enqueue(stream, note(log, "after"));
        });
        assert_eq!(seen, [vec!["before", "null", "after"]].into_iter().collect());
        for (device, blocking) in [(0, false), (1, true)] {
            let seen = orders(|queues, log| {
                let stream = queues.create(device, blocking);
                queues.enqueue(stream, note(log, "stream"));
                queues.enqueue(StreamId::Null(0), note(log, "null"));
            });
            assert_eq!(seen.len(), 2);
        }
    }

    #[test]
    fn a_place_is_passed_when_all_before_it_is_done() {
        let (mut queues, log) = (Queues::new(2, Random::new(5)), Log::default());
        let (blocking, free, other) = (queues.create(0, true), queues.create(0, false), queues.create(1, true));
        assert_eq!([blocking, free, other].map(|id| queues.device_of(id)), [Some(0), Some(0), Some(1)]);
        let past = |queues: &Queues, place| {
            let streams = [blocking, free, other, StreamId::Null(0), StreamId::Null(1)];
            let devices = [queues.is_device_past(0, place), queues.is_device_past(1, place)];
            (streams.map(|id| queues.is_past(id, place)), devices)
        };
        queues.enqueue(blocking, note(&log, "work"));
        let place = queues.last_place();
        assert_eq!(past(&queues, place - 1), ([true; 5], [true; 2]));
        assert_eq!(past(&queues, place), ([false, true, true, false, true], [false, true]));
        assert_eq!((queues.backlog(blocking), queues.is_busy()), (1, false));
        let (id, work) = queues.take().unwrap();
        assert_eq!((id, queues.backlog(blocking), queues.is_busy()), (blocking, 0, true));
        assert_eq!(past(&queues, place), ([false, true, true, false, true], [false, true]), "it runs still");
        assert!(queues.take().is_none());
        perform(work).unwrap();
        queues.finish(id);
        assert_eq!((past(&queues, place), queues.is_busy()), (([true; 5], [true; 2]), false));
        queues.enqueue(free, note(&log, "more"));
        let place = queues.last_place();
        assert_eq!(past(&queues, place), ([true, false, true, true, true], [false, true]));
        queues.destroy(free);
        assert_eq!((queues.device_of(free), queues.properties(free), queues.backlog(free)), (None, None, 0));
        assert_ne!(queues.create(0, true), other);
        queues.set_priority(other, -1);
        assert_eq!((queues.properties(other), queues.properties(blocking)), (Some((true, -1)), Some((true, 0))));
    }

    #[test]
    fn work_that_runs_keeps_what_must_follow_waiting() {
        let (mut queues, log) = (Queues::new(1, Random::new(5)), Log::default());
        let blocking = queues.create(0, true);
        queues.enqueue(StreamId::Null(0), note(&log, "null"));
        queues.enqueue(blocking, note(&log, "after"));
        let (null, _) = queues.take().unwrap();
        assert_eq!((null, queues.take().is_none()), (StreamId::Null(0), true));
        queues.finish(null);
        queues.enqueue(StreamId::Null(0), note(&log, "last"));
        assert_eq!(queues.take().map(|(id, _)| id), Some(blocking));
        assert!(queues.take().is_none());
        queues.finish(blocking);
        assert_eq!(queues.take().map(|(id, _)| id), Some(StreamId::Null(0)));
    }

    #[test]
    fn a_signal_is_set_by_its_record_or_by_a_fault_before_it() {
        let (reached, abandoned) = (Arc::new(Signal::default()), Arc::new(Signal::default()));
        assert!(!reached.is_set() && reached.time().is_none());
        let before = Instant::now();
        perform(Work::Record(Arc::clone(&reached))).unwrap();
        assert!(reached.is_set() && reached.time().is_some_and(|time| time >= before));
        let mut queues = Queues::new(1, Random::new(0));
        queues.enqueue(StreamId::Null(0), Work::Record(Arc::clone(&abandoned)));
        queues.abandon(0);
        assert!(abandoned.is_set() && abandoned.time().is_none() && queues.is_idle());
        let names =
            [note(&Log::default(), ""), Work::Record(abandoned), Work::Wait(reached)].map(|work| format!("{work:?}"));
        assert_eq!(names, ["Run", "Record", "Wait"]);
    }

    #[test]
    fn what_comes_from_outside_is_waited_for() {
        let (mut queues, log) = (Queues::new(1, Random::new(0)), Log::default());
        let (stream, other) = (queues.create(0, false), queues.create(0, false));
        let came = Arc::new(AtomicBool::new(false));
        let Work::Run(action) = note(&log, "after") else { unreachable!() };
        let ready = Arc::clone(&came);
        queues.enqueue(stream, Work::Run(action.after(move || ready.load(Ordering::Acquire))));
        queues.enqueue(other, note(&log, "other"));
        assert!(queues.expects_others());
        while let Some((id, work)) = queues.take() {
            perform(work).unwrap();
            queues.finish(id);
        }
        assert_eq!((log.lock().unwrap().as_slice(), queues.backlog(stream)), (["other"].as_slice(), 1));
        came.store(true, Ordering::Release);
        drain(&mut queues);
        assert!(!queues.expects_others());
        assert_eq!(*log.lock().unwrap(), ["other", "after"]);
    }

    #[test]
    fn a_wait_follows_the_record() {
        let seen = orders(|queues, log| {
            let (a, b) = (queues.create(0, false), queues.create(1, false));
            let signal = Arc::new(Signal::default());
            queues.enqueue(b, Work::Wait(Arc::clone(&signal)));
            queues.enqueue(b, note(log, "after"));
            queues.enqueue(a, note(log, "before"));
            queues.enqueue(a, Work::Record(signal));
        });
        assert_eq!(seen, [vec!["before", "after"]].into_iter().collect());
    }

    #[test]
    fn a_fault_lets_waits_on_other_devices_go_on() {
        let (mut queues, log) = (Queues::new(2, Random::new(0)), Log::default());
        let (a, b) = (queues.create(0, false), queues.create(1, false));
        let signal = Arc::new(Signal::default());
        queues.enqueue(a, note(&log, "never"));
        queues.enqueue(a, Work::Record(Arc::clone(&signal)));
        queues.enqueue(b, Work::Wait(signal));
        queues.enqueue(b, note(&log, "after"));
        queues.abandon(0);
        drain(&mut queues);
        assert_eq!(*log.lock().unwrap(), ["after"]);
    }
}
