//! The backend's errors. Programs that match on them compile with and without the feature: the dummy backend has them.
use crate::DType;

/// An error of the ROCm backend.
#[derive(thiserror::Error, Debug)]
#[non_exhaustive]
pub enum RocmError {
    #[error("{call} failed with {name} ({code}): {message}")]
    Hip {
        call: &'static str,
        code: u32,
        name: String,
        message: String,
    },

    #[error("{call} failed with {message} ({code})")]
    Hiprtc {
        call: &'static str,
        code: u32,
        message: String,
    },

    #[error("{file} does not compile for {architecture}: {error}\n{log}")]
    Compile {
        file: String,
        architecture: String,
        error: Box<RocmError>,
        log: String,
    },

    #[error("no kernels of {file} for {architecture}: {reason}; {remedy}")]
    MissingKernels {
        file: String,
        architecture: String,
        reason: String,
        remedy: String,
    },

    #[error("{path} cannot be used: {problem}; {remedy}")]
    UnusableKernels {
        path: String,
        problem: String,
        remedy: String,
    },

    #[error("kernels for {architecture}, as CANDLE_ROCM_ARCH says, do not run on {gpu}: {error}")]
    OtherArchitecture {
        architecture: String,
        gpu: String,
        error: Box<RocmError>,
    },

    #[error("rocBLAS has no kernels for {architecture}: {reason}; {remedy}")]
    BlasWithoutKernels {
        architecture: String,
        reason: String,
        remedy: String,
    },

    #[error("{call} failed with {name} ({status})")]
    Blas {
        call: &'static str,
        status: u32,
        name: String,
    },

    #[error("{call} failed with {name} ({status})")]
    Miopen {
        call: &'static str,
        status: u32,
        name: String,
    },

    #[error("{call} failed with {name} ({status})")]
    Rocrand {
        call: &'static str,
        status: u32,
        name: String,
    },

    #[error("{call} of {whose} failed: {problem}")]
    Rccl {
        call: &'static str,
        whose: String,
        problem: String,
    },

    #[error("{0}")]
    UnusableRocm(String),

    #[error("{call} failed: {problem}")]
    MissingLibrary { call: &'static str, problem: String },

    #[error("ROCm device {ordinal} not found: {count} device(s) visible, counted from 0")]
    DeviceNotFound { ordinal: usize, count: usize },

    #[error("out of memory on ROCm: {requested} bytes requested, {free} of {total} free")]
    OutOfMemory {
        requested: usize,
        free: usize,
        total: usize,
    },

    #[error("memory limit on ROCm: {requested} bytes requested, {held} of at most {limit} held")]
    MemoryLimit {
        requested: usize,
        held: usize,
        limit: usize,
    },

    #[error("{call} cannot be captured: do it before `begin_capture` or after `end_capture`")]
    Captured { call: &'static str },

    #[error("{call}: {len} bytes from {offset} on, but the device memory has {size}")]
    OutOfRange {
        call: &'static str,
        offset: usize,
        len: usize,
        size: usize,
    },

    #[error("{call}: the device memory has {expected} bytes, the host memory {got}")]
    LengthMismatch {
        call: &'static str,
        expected: usize,
        got: usize,
    },

    #[error("{call}: {len} bytes do not fit into the {size} of the destination")]
    TooShort {
        call: &'static str,
        len: usize,
        size: usize,
    },

    #[error("{msg}, expected: {expected:?}, got: {got:?}")]
    UnexpectedDType {
        msg: &'static str,
        expected: DType,
        got: DType,
    },

    #[error("`{op}` is not available on ROCm yet: it comes with phase {phase} of candle-rocm, which this build does not have (`candle-rocm status CANDLE` on its tree says whether it can be applied)")]
    NotGenerated { op: &'static str, phase: u32 },

    #[error("{0}")]
    Other(String),

    /// An error of another library.
    #[error(transparent)]
    Foreign(Box<dyn std::error::Error + Send + Sync>),
}

impl From<String> for RocmError {
    fn from(message: String) -> Self {
        Self::Other(message)
    }
}

impl From<&str> for RocmError {
    fn from(message: &str) -> Self {
        Self::Other(message.to_string())
    }
}

impl From<Box<dyn std::error::Error + Send + Sync>> for RocmError {
    fn from(error: Box<dyn std::error::Error + Send + Sync>) -> Self {
        Self::Foreign(error)
    }
}

/// Makes Candle's error of an error of this backend, or of what becomes one.
pub trait WrapErr<O> {
    fn w(self) -> std::result::Result<O, crate::Error>;
}

impl<O, E: Into<RocmError>> WrapErr<O> for std::result::Result<O, E> {
    fn w(self) -> std::result::Result<O, crate::Error> {
        Ok(self.map_err(Into::into)?)
    }
}
