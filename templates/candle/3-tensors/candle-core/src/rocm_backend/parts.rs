//! The parts of GPUs, queues and random numbers that depend on the phase.
use super::allocator::Block;
use super::blas::Blas;
use super::blas_kernels::Multiplier;
use super::gpu::{lock, Properties};
use super::hip::HipResult;
use super::kernels::Loader;
#[cfg(feature = "rocm-miopen")]
use super::miopen::Miopen;
use super::product_choice::Choices;
use super::queue::Queue;
#[cfg(feature = "rocm-rccl")]
use super::rccl;
#[cfg(feature = "rocm-rocrand")]
use super::rocrand::Generator;
use std::sync::{Mutex, OnceLock, Weak};

/// The state that all users of a GPU share.
pub(super) struct GpuParts {
    pub(super) queues: Mutex<Vec<Weak<Queue>>>,
    pub(super) kernels: Loader,
    pub(super) multiplier: OnceLock<Multiplier>,
    pub(super) choices: Choices,
    #[cfg(feature = "rocm-miopen")]
    pub(super) rocblas_serves: OnceLock<bool>,
}

impl GpuParts {
    pub(super) fn of(properties: &Properties) -> Self {
        Self {
            queues: Mutex::default(),
            kernels: Loader::new(&properties.gcn_arch_name),
            multiplier: OnceLock::new(),
            choices: Choices::default(),
            #[cfg(feature = "rocm-miopen")]
            rocblas_serves: OnceLock::new(),
        }
    }
}

/// Users of a queue's stream: ROCm's libraries, once they have been used.
#[derive(Default)]
pub(super) struct QueueParts {
    pub(super) blas: Mutex<Option<Blas>>,
    #[cfg(feature = "rocm-miopen")]
    pub(super) miopen: Mutex<Option<Miopen>>,
    /// Ranks of communicators that have the stream.
    #[cfg(feature = "rocm-rccl")]
    pub(super) ranks: Mutex<Vec<rccl::Listed>>,
}

impl QueueParts {
    /// Ends what works on the stream, and returns the memory that it had.
    pub(super) fn end(&self) -> Option<Block> {
        #[cfg(feature = "rocm-miopen")]
        drop(lock(&self.miopen).take());
        let blas = lock(&self.blas).take();
        blas.and_then(Blas::end)
    }

    /// A graph was queued.
    pub(super) fn launched(&self) -> HipResult<()> {
        #[cfg(feature = "rocm-rccl")]
        rccl::launched(&self.ranks)?;
        Ok(())
    }

    /// An error if what was queued cannot be relied on.
    pub(super) fn check(&self) -> HipResult<()> {
        #[cfg(feature = "rocm-rccl")]
        rccl::check_all(&self.ranks)?;
        Ok(())
    }
}

/// The generator of a device's random numbers.
#[derive(Default)]
pub(super) struct RandomParts {
    /// rocRAND's, once a number was asked of it.
    #[cfg(feature = "rocm-rocrand")]
    pub(super) generator: Option<Generator>,
}

impl RandomParts {
    /// Begins the sequence of a seed again.
    pub(super) fn restart(&mut self) {
        #[cfg(feature = "rocm-rocrand")]
        if let Some(generator) = &mut self.generator {
            generator.restart();
        }
    }
}
