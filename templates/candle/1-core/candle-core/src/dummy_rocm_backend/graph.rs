//! Work of a stream that was captured, where there is no stream.
use super::stream::RocmStream;
use super::RocmError;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamCaptureMode {
    Global,
    ThreadLocal,
    Relaxed,
}

#[derive(Debug)]
pub enum RocmGraph {}

impl RocmStream {
    pub fn begin_capture(&self, _: StreamCaptureMode) -> Result<(), RocmError> {
        match *self {}
    }

    pub fn end_capture(&self) -> Result<Option<RocmGraph>, RocmError> {
        match *self {}
    }

    pub fn is_capturing(&self) -> bool {
        match *self {}
    }
}

impl RocmGraph {
    pub fn launch(&self) -> Result<(), RocmError> {
        match *self {}
    }
}
