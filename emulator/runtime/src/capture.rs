//! Captures: what is put on a stream meanwhile is recorded, and done when a graph of it is launched.
//!
//! What spoils a capture, and what becomes of the stream then, is what HIP 7.2 does (`libamdhip64` on a modelled GPU).

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
    /// `hipErrorStreamCaptureUnsupported` for a legacy default stream, `hipErrorIllegalState` for a stream that is captured,
    /// as one stays whose capture was spoilt. (HIP 7.2 takes such a stream, with which nothing can be done.)
    pub fn begin(&mut self, stream: StreamId, device: usize, mode: Mode) -> HipResult {
        if let StreamId::Null(_) = stream {
            return Err(HipError::STREAM_CAPTURE_UNSUPPORTED);
        }
        if self.holds(stream) {
            return Err(HipError::ILLEGAL_STATE);
        }
        let thread = thread::current().id();
        self.0.insert(stream, Capture { mode, thread, device, work: Some(Vec::new()) });
        Ok(())
    }

    /// Ends it, and returns what was recorded.
    ///
    /// # Errors
    /// `hipErrorIllegalState` for a stream that is not captured, `hipErrorStreamCaptureWrongThread` on another thread
    /// than that which began it, unless it is relaxed, `hipErrorStreamCaptureInvalidated` after a call that could not be
    /// captured: the stream can only be destroyed then.
    pub fn end(&mut self, stream: StreamId) -> HipResult<Vec<Action>> {
        let capture = self.0.get(&stream).ok_or(HipError::ILLEGAL_STATE)?;
        if capture.mode != Mode::Relaxed && capture.thread != thread::current().id() {
            return Err(HipError::STREAM_CAPTURE_WRONG_THREAD);
        }
        if capture.work.is_none() {
            return Err(HipError::STREAM_CAPTURE_INVALIDATED);
        }
        Ok(self.0.remove(&stream).and_then(|capture| capture.work).expect("it was found"))
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
    /// `hipErrorStreamCaptureInvalidated` after a call that could not be captured.
    pub fn record(&mut self, stream: StreamId, work: Work) -> HipResult<Option<Work>> {
        let Some(capture) = self.0.get_mut(&stream) else { return Ok(Some(work)) };
        let recorded = capture.work.as_mut().ok_or(HipError::STREAM_CAPTURE_INVALIDATED)?;
        match work {
            Work::Run(action) => recorded.push(action),
            Work::Record(signal) => signal.capture(),
            // What the stream itself has recorded comes before in any case. A wait for what is outside is forgotten.
            Work::Wait(_) => {}
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
    /// `hipErrorStreamCaptureUnsupported` if a capture refuses it, which is of no use then.
    pub fn allow(&mut self) -> HipResult {
        let caller = thread::current().id();
        let refuses = |capture: &Capture| match capture.mode {
            Mode::Global => true,
            Mode::ThreadLocal => capture.thread == caller,
            Mode::Relaxed => false,
        };
        self.spoil(refuses, HipError::STREAM_CAPTURE_UNSUPPORTED)
    }

    /// The caller wants to copy or fill on the default stream, and to go on when that is done.
    ///
    /// # Errors
    /// `hipErrorStreamCaptureImplicit` if any stream is captured, whose capture is of no use then.
    pub fn allow_waiting(&mut self) -> HipResult {
        self.spoil(|_| true, HipError::STREAM_CAPTURE_IMPLICIT)
    }

    /// Ends the use of captures; with an error if there are any.
    fn spoil(&mut self, which: impl Fn(&Capture) -> bool, error: HipError) -> HipResult {
        let mut spoilt = self.0.values_mut().filter(|capture| which(capture)).peekable();
        if spoilt.peek().is_none() {
            return Ok(());
        }
        spoilt.for_each(|capture| capture.work = None);
        Err(error)
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

    fn begun(mode: Mode) -> Captures {
        let mut captures = Captures::default();
        captures.begin(STREAM, 1, mode).unwrap();
        captures
    }

    #[test]
    fn work_of_the_stream_is_recorded_and_that_of_others_returned() {
        let mut captures = begun(Mode::Global);
        assert!(captures.holds(STREAM) && !captures.holds(StreamId::Created(4)));
        for other in [StreamId::Created(4), StreamId::Null(1)] {
            assert!(matches!(captures.record(other, nothing()), Ok(Some(Work::Run(_)))));
        }
        let (signal, outside) = (Arc::new(Signal::default()), Arc::default());
        for work in
            [nothing(), Work::Record(signal.clone()), Work::Wait(signal.clone()), Work::Wait(outside), nothing()]
        {
            assert!(matches!(captures.record(STREAM, work), Ok(None)));
        }
        assert!(signal.is_captured() && !signal.is_set());
        assert_eq!(captures.end(STREAM).unwrap().len(), 2);
        assert_eq!(captures.end(STREAM).err(), Some(HipError::ILLEGAL_STATE));
    }

    #[test]
    fn a_default_stream_and_a_captured_one_cannot_begin() {
        let mut captures = begun(Mode::Relaxed);
        assert_eq!(captures.begin(STREAM, 1, Mode::Relaxed), Err(HipError::ILLEGAL_STATE));
        let null = captures.begin(StreamId::Null(0), 0, Mode::Relaxed);
        assert_eq!(null, Err(HipError::STREAM_CAPTURE_UNSUPPORTED));
        captures.abandon(STREAM);
        assert!(captures.begin(STREAM, 1, Mode::Relaxed).is_ok());
    }

    #[test]
    fn what_cannot_be_captured_spoils_it_and_the_stream() {
        let waiting = |captures: &mut Captures| captures.allow_waiting().err();
        let asked = |captures: &mut Captures| captures.ask(|_, device| device == 1).err();
        for (spoil, error) in [
            (&waiting as &dyn Fn(&mut Captures) -> Option<HipError>, HipError::STREAM_CAPTURE_IMPLICIT),
            (&asked, HipError::STREAM_CAPTURE_UNSUPPORTED),
        ] {
            let mut captures = begun(Mode::Relaxed);
            assert_eq!(spoil(&mut captures), Some(error));
            let later = captures.record(STREAM, nothing()).err();
            assert_eq!(later, Some(HipError::STREAM_CAPTURE_INVALIDATED));
            for _ in 0..2 {
                assert_eq!(captures.end(STREAM).err(), Some(HipError::STREAM_CAPTURE_INVALIDATED));
            }
            assert!(captures.holds(STREAM));
            assert_eq!(captures.begin(STREAM, 1, Mode::Relaxed), Err(HipError::ILLEGAL_STATE));
            captures.abandon(STREAM);
            assert_eq!(captures.allow_waiting(), Ok(()));
        }
        let mut captures = begun(Mode::Relaxed);
        assert!(captures.record(StreamId::Null(0), nothing()).is_ok_and(|work| work.is_some()));
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
            let mut captures = begun(mode);
            thread::scope(|scope| {
                scope.spawn(|| {
                    assert_eq!(captures.allow().is_ok(), others, "{mode:?}");
                    assert_eq!(captures.end(STREAM).is_ok(), ends, "{mode:?}");
                });
            });
            assert_eq!(captures.end(STREAM).is_ok(), others && !ends);
            let mut captures = begun(mode);
            assert_eq!(captures.allow().is_ok(), own, "{mode:?}");
            assert_eq!(captures.end(STREAM).is_ok(), own, "{mode:?}");
        }
    }
}
