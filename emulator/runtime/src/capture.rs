//! Captures: what is put on a stream meanwhile is recorded, and done when a graph of it is launched.

use std::collections::BTreeMap;
use std::thread::{self, ThreadId};

use crate::error::{HipError, HipResult};
use crate::queue::{Action, StreamId, Work};

/// Whose calls a capture refuses because they might disturb it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Those of all threads.
    Global,
    /// Those of the thread that began it.
    ThreadLocal,
    /// Nobody's.
    Relaxed,
}

/// What a stream has been told since its capture began.
#[derive(Debug)]
struct Capture {
    mode: Mode,
    thread: ThreadId,
    device: usize,
    /// Whether the stream keeps order with the legacy default stream.
    blocking: bool,
    /// None once something was done that cannot be captured.
    work: Option<Vec<Action>>,
}

/// The streams that are captured now.
#[derive(Debug, Default)]
pub struct Captures(BTreeMap<StreamId, Capture>);

impl Captures {
    /// Begins to record.
    ///
    /// # Errors
    /// `hipErrorStreamCaptureUnsupported` for a legacy default stream, `hipErrorIllegalState` for a stream that is captured.
    pub fn begin(&mut self, stream: StreamId, device: usize, blocking: bool, mode: Mode) -> HipResult {
        if let StreamId::Null(_) = stream {
            return Err(HipError::STREAM_CAPTURE_UNSUPPORTED);
        }
        if self.holds(stream) {
            return Err(HipError::ILLEGAL_STATE);
        }
        let thread = thread::current().id();
        self.0.insert(stream, Capture { mode, thread, device, blocking, work: Some(Vec::new()) });
        Ok(())
    }

    /// Ends it, and returns what was recorded.
    ///
    /// # Errors
    /// `hipErrorIllegalState` for a stream that is not captured, `hipErrorStreamCaptureWrongThread` on another thread
    /// than that which began it, unless it is relaxed, `hipErrorStreamCaptureInvalidated` after a call that could not be
    /// captured.
    pub fn end(&mut self, stream: StreamId) -> HipResult<Vec<Action>> {
        let capture = self.0.get(&stream).ok_or(HipError::ILLEGAL_STATE)?;
        if capture.mode != Mode::Relaxed && capture.thread != thread::current().id() {
            return Err(HipError::STREAM_CAPTURE_WRONG_THREAD);
        }
        let capture = self.0.remove(&stream).expect("it was found");
        capture.work.ok_or(HipError::STREAM_CAPTURE_INVALIDATED)
    }

    /// Forgets a stream.
    pub fn abandon(&mut self, stream: StreamId) {
        self.0.remove(&stream);
    }

    /// Whether a stream is captured.
    pub fn holds(&self, stream: StreamId) -> bool {
        self.0.contains_key(&stream)
    }

    /// Records work of a stream that is captured. Returns that of another stream.
    ///
    /// # Errors
    /// `hipErrorStreamCaptureIsolation` for a wait for an event outside of the capture,
    /// `hipErrorStreamCaptureInvalidated` after a call that could not be captured, `hipErrorStreamCaptureImplicit` for a
    /// legacy default stream that would have to wait for a captured one. All but the last end the capture's use.
    pub fn record(&mut self, stream: StreamId, device: usize, work: Work) -> HipResult<Option<Work>> {
        let Some(capture) = self.0.get_mut(&stream) else {
            let waits = |capture: &&mut Capture| capture.blocking && capture.device == device;
            let Some(other) = self.0.values_mut().find(waits).filter(|_| matches!(stream, StreamId::Null(_))) else {
                return Ok(Some(work));
            };
            other.work = None;
            return Err(HipError::STREAM_CAPTURE_IMPLICIT);
        };
        let recorded = capture.work.as_mut().ok_or(HipError::STREAM_CAPTURE_INVALIDATED)?;
        match work {
            Work::Run(action) => recorded.push(action),
            Work::Record(signal) => signal.capture(),
            // What the stream itself has recorded comes before in any case.
            Work::Wait(signal) if signal.is_captured() => {}
            Work::Wait(_) => {
                capture.work = None;
                return Err(HipError::STREAM_CAPTURE_ISOLATION);
            }
        }
        Ok(None)
    }

    /// Somebody asks whether streams are done.
    ///
    /// # Errors
    /// `hipErrorStreamCaptureUnsupported` if one of them is captured, whose capture is of no use then.
    pub fn ask(&mut self, asked: impl Fn(StreamId, usize) -> bool) -> HipResult {
        let mut captured = self.0.iter_mut().filter(|(stream, capture)| asked(**stream, capture.device)).peekable();
        if captured.peek().is_none() {
            return Ok(());
        }
        captured.for_each(|(_, capture)| capture.work = None);
        Err(HipError::STREAM_CAPTURE_UNSUPPORTED)
    }

    /// The calling thread wants to do what may disturb captures, as allocating does.
    ///
    /// # Errors
    /// `hipErrorStreamCaptureUnsupported` if a capture refuses it.
    pub fn allow(&self) -> HipResult {
        let caller = thread::current().id();
        let refuses = |capture: &Capture| match capture.mode {
            Mode::Global => true,
            Mode::ThreadLocal => capture.thread == caller,
            Mode::Relaxed => false,
        };
        if self.0.values().any(refuses) { Err(HipError::STREAM_CAPTURE_UNSUPPORTED) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::queue::Signal;

    const STREAM: StreamId = StreamId::Created(3);

    fn nothing() -> Work {
        Work::Run(Action::new(|| Ok(())))
    }

    fn begun(blocking: bool, mode: Mode) -> Captures {
        let mut captures = Captures::default();
        captures.begin(STREAM, 1, blocking, mode).unwrap();
        captures
    }

    #[test]
    fn work_of_the_stream_is_recorded_and_that_of_others_returned() {
        let mut captures = begun(false, Mode::Global);
        assert!(captures.holds(STREAM) && !captures.holds(StreamId::Created(4)));
        for other in [StreamId::Created(4), StreamId::Null(1)] {
            assert!(matches!(captures.record(other, 1, nothing()), Ok(Some(Work::Run(_)))));
        }
        let signal = Arc::new(Signal::default());
        for work in [nothing(), Work::Record(signal.clone()), Work::Wait(signal.clone()), nothing()] {
            assert!(matches!(captures.record(STREAM, 1, work), Ok(None)));
        }
        assert!(signal.is_captured() && !signal.is_set());
        assert_eq!(captures.end(STREAM).unwrap().len(), 2);
        assert_eq!(captures.end(STREAM).err(), Some(HipError::ILLEGAL_STATE));
    }

    #[test]
    fn a_default_stream_and_a_captured_one_cannot_begin() {
        let mut captures = begun(false, Mode::Relaxed);
        assert_eq!(captures.begin(STREAM, 1, false, Mode::Relaxed), Err(HipError::ILLEGAL_STATE));
        let null = captures.begin(StreamId::Null(0), 0, false, Mode::Relaxed);
        assert_eq!(null, Err(HipError::STREAM_CAPTURE_UNSUPPORTED));
        captures.abandon(STREAM);
        assert!(captures.begin(STREAM, 1, false, Mode::Relaxed).is_ok());
    }

    #[test]
    fn what_cannot_be_captured_spoils_it() {
        let isolated = |captures: &mut Captures| captures.record(STREAM, 1, Work::Wait(Arc::default())).err();
        let implicit = |captures: &mut Captures| captures.record(StreamId::Null(1), 1, nothing()).err();
        let asked = |captures: &mut Captures| captures.ask(|_, device| device == 1).err();
        for (spoil, error) in [
            (&isolated as &dyn Fn(&mut Captures) -> Option<HipError>, HipError::STREAM_CAPTURE_ISOLATION),
            (&implicit, HipError::STREAM_CAPTURE_IMPLICIT),
            (&asked, HipError::STREAM_CAPTURE_UNSUPPORTED),
        ] {
            let mut captures = begun(true, Mode::Relaxed);
            assert_eq!(spoil(&mut captures), Some(error));
            let later = captures.record(STREAM, 1, nothing()).err();
            assert_eq!(later, Some(HipError::STREAM_CAPTURE_INVALIDATED));
            assert_eq!(captures.end(STREAM).err(), Some(HipError::STREAM_CAPTURE_INVALIDATED));
            assert!(!captures.holds(STREAM));
        }
        let mut captures = begun(true, Mode::Relaxed);
        assert!(captures.record(StreamId::Null(0), 0, nothing()).is_ok_and(|work| work.is_some()));
        assert_eq!(captures.ask(|stream, _| stream == StreamId::Created(4)), Ok(()));
        assert!(captures.end(STREAM).is_ok());
    }

    #[test]
    fn modes_say_whose_calls_are_refused_and_who_may_end() {
        for (mode, own, others, ends) in [
            (Mode::Global, false, false, false),
            (Mode::ThreadLocal, false, true, false),
            (Mode::Relaxed, true, true, true),
        ] {
            let mut captures = begun(false, mode);
            assert_eq!(captures.allow().is_ok(), own, "{mode:?}");
            thread::scope(|scope| {
                scope.spawn(|| {
                    assert_eq!(captures.allow().is_ok(), others, "{mode:?}");
                    assert_eq!(captures.end(STREAM).is_ok(), ends, "{mode:?}");
                });
            });
            assert_eq!(captures.end(STREAM).is_ok(), !ends);
            assert!(captures.allow().is_ok());
        }
    }
}
