//! Random numbers by rocRAND, for programs with the feature `rocm-rocrand`.
use super::hip::{forget_last_error, HipResult};
use super::plan::Pointer;
use super::stream::RocmStream;
use super::{api, installation, RocmError};

/// rocRAND's numbers: the sequence of a seed, drawn on one stream.
///
/// It is of the type that rocRAND takes by default, as the CUDA backend has cuRAND's, so that its numbers are those of
/// other programs with the same seed and the same calls.
pub(super) struct Generator {
    handle: api::rocrand_generator,
    /// The `hipStream_t` that it draws on, as a number; `None` before it has one.
    stream: Option<usize>,
    /// Whose sequence it is in; `None` for one that starts with the next call.
    seed: Option<u64>,
}

// SAFETY: a generator may be used from any thread, by one at a time: calls take it by `&mut`.
unsafe impl Send for Generator {}

/// The type of the numbers that are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Precision {
    Single,
    Double,
}

impl Generator {
    /// Of the stream's GPU. rocRAND aborts the process where there is no GPU: that there is a stream says that
    /// there is one.
    pub(super) fn new(stream: &RocmStream) -> HipResult<Self> {
        stream.gpu().make_current()?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: `handle` lives through the call, and the stream's GPU is the current device.
        check("rocrand_create_generator", unsafe {
            api::rocrand_create_generator(&mut handle, api::ROCRAND_RNG_PSEUDO_DEFAULT)
        })?;
        Ok(Self {
            handle,
            stream: None,
            seed: None,
        })
    }

    /// Draws on this stream from now on, which outlives it and may have become another of HIP's.
    pub(super) fn draw_on(&mut self, stream: &RocmStream) -> HipResult<()> {
        let handle = stream.handle();
        if self.stream != Some(handle as usize) {
            // SAFETY: the generator is valid, and the stream is of the device that it was made for.
            check("rocrand_set_stream", unsafe {
                api::rocrand_set_stream(self.handle, handle)
            })?;
            self.stream = Some(handle as usize);
        }
        Ok(())
    }

    /// Lets the sequence start again with the next call.
    pub(super) fn restart(&mut self) {
        self.seed = None;
    }

    /// Goes to the beginning of a seed's sequence, or stays where it is if it is in it.
    pub(super) fn follow(&mut self, seed: u64) -> HipResult<()> {
        if self.seed != Some(seed) {
            // SAFETY: the generator is valid.
            check("rocrand_set_seed", unsafe {
                api::rocrand_set_seed(self.handle, seed)
            })?;
            self.seed = Some(seed);
        }
        Ok(())
    }

    /// Queues the drawing of `count` numbers, uniform in (0, 1].
    ///
    /// # Safety
    /// The stream's GPU is the current device, and `y` is to so many numbers on it, which stay allocated until the stream
    /// has come so far.
    pub(super) unsafe fn uniform(
        &mut self,
        y: Pointer,
        count: usize,
        precision: Precision,
    ) -> HipResult<()> {
        match precision {
            // SAFETY: the generator is valid, for the rest the caller answers.
            Precision::Single => check("rocrand_generate_uniform", unsafe {
                api::rocrand_generate_uniform(self.handle, y.0.cast(), count)
            }),
            // SAFETY: as above.
            Precision::Double => check("rocrand_generate_uniform_double", unsafe {
                api::rocrand_generate_uniform_double(self.handle, y.0.cast(), count)
            }),
        }
    }

    /// Queues the drawing of `count` numbers of a normal distribution; they are made in pairs, so `count` is even.
    ///
    /// # Safety
    /// As for `uniform`.
    pub(super) unsafe fn normal(
        &mut self,
        y: Pointer,
        count: usize,
        precision: Precision,
        [mean, deviation]: [f64; 2],
    ) -> HipResult<()> {
        match precision {
            // SAFETY: the generator is valid, for the rest the caller answers.
            Precision::Single => check("rocrand_generate_normal", unsafe {
                let (mean, deviation) = (mean as f32, deviation as f32);
                api::rocrand_generate_normal(self.handle, y.0.cast(), count, mean, deviation)
            }),
            // SAFETY: as above.
            Precision::Double => check("rocrand_generate_normal_double", unsafe {
                api::rocrand_generate_normal_double(self.handle, y.0.cast(), count, mean, deviation)
            }),
        }
    }
}

impl Drop for Generator {
    fn drop(&mut self) {
        // SAFETY: made by `new`, and nobody has it any more. A failure means that the runtime is gone, and the generator
        // with it.
        let _ = unsafe { api::rocrand_destroy_generator(self.handle) };
    }
}

/// `Ok` for success, otherwise an error that names `call`.
fn check(call: &'static str, status: api::rocrand_status) -> HipResult<()> {
    let name = match status {
        api::ROCRAND_STATUS_SUCCESS => return Ok(()),
        api::ROCRAND_STATUS_VERSION_MISMATCH => "ROCRAND_STATUS_VERSION_MISMATCH",
        api::ROCRAND_STATUS_NOT_CREATED => "ROCRAND_STATUS_NOT_CREATED",
        api::ROCRAND_STATUS_ALLOCATION_FAILED => "ROCRAND_STATUS_ALLOCATION_FAILED",
        api::ROCRAND_STATUS_TYPE_ERROR => "ROCRAND_STATUS_TYPE_ERROR",
        api::ROCRAND_STATUS_OUT_OF_RANGE => "ROCRAND_STATUS_OUT_OF_RANGE",
        api::ROCRAND_STATUS_LENGTH_NOT_MULTIPLE => "ROCRAND_STATUS_LENGTH_NOT_MULTIPLE",
        api::ROCRAND_STATUS_DOUBLE_PRECISION_REQUIRED => "ROCRAND_STATUS_DOUBLE_PRECISION_REQUIRED",
        api::ROCRAND_STATUS_LAUNCH_FAILURE => "ROCRAND_STATUS_LAUNCH_FAILURE",
        api::ROCRAND_STATUS_INTERNAL_ERROR => "ROCRAND_STATUS_INTERNAL_ERROR",
        _ => "an unknown status",
    };
    forget_last_error();
    if let Some(problem) = installation::problem("rocrand") {
        return Err(RocmError::MissingLibrary { call, problem });
    }
    Err(RocmError::Rocrand {
        call,
        status,
        name: name.to_string(),
    })
}
