//! ROCm's other libraries on a queue's stream: each is loaded for the first caller.
use super::blas::Blas;
use super::gpu::lock;
use super::hip::HipResult;
#[cfg(feature = "rocm-miopen")]
use super::miopen::Miopen;
use super::queue::Queue;
#[cfg(feature = "rocm-rocrand")]
use super::rocrand::Generator;
#[cfg(feature = "rocm-rocrand")]
use super::RocmDevice;
use std::sync::Mutex;

impl Queue {
    /// Lets `run` use rocBLAS, which is loaded for the first caller. It is run again if there was no memory for it.
    pub(super) fn with_blas<T>(
        &self,
        mut run: impl FnMut(&mut Blas) -> HipResult<T>,
    ) -> HipResult<T> {
        with(
            &self.parts.blas,
            || {
                let mut blas = self.with_room(|| Blas::new(self.stream()))?;
                self.give_workspace(&mut blas)?;
                Ok(blas)
            },
            |blas| self.with_room(|| run(blas)),
        )
    }

    /// rocBLAS works in memory of ours, so that it is in our figures, and within our limit.
    fn give_workspace(&self, blas: &mut Blas) -> HipResult<()> {
        let size = blas.workspace_size()?;
        if size > 0 {
            // SAFETY: the block has so many bytes, and is taken back after the handle has ended.
            unsafe { blas.work_in(self.allocate(size)?, size) }?;
        }
        Ok(())
    }

    /// Lets `run` use MIOpen, which is loaded for the first caller.
    #[cfg(feature = "rocm-miopen")]
    pub(super) fn with_miopen<T>(
        &self,
        mut run: impl FnMut(&mut Miopen) -> HipResult<T>,
    ) -> HipResult<T> {
        with(
            &self.parts.miopen,
            || self.with_room(|| Miopen::new(self.stream())),
            |miopen| self.with_room(|| run(miopen)),
        )
    }
}

#[cfg(feature = "rocm-rocrand")]
impl RocmDevice {
    /// Lets `run` draw from the sequence of the device's seed, with the GPU as current device. rocRAND is loaded for the
    /// first caller.
    pub(super) fn with_rocrand<T>(
        &self,
        mut run: impl FnMut(&mut Generator) -> HipResult<T>,
    ) -> HipResult<T> {
        self.gpu().make_current()?;
        let mut random = lock(&self.random);
        let seed = random.seed;
        let generator = match random.parts.generator.take() {
            Some(generator) => generator,
            None => self.queue().with_room(|| Generator::new(self.stream()))?,
        };
        let generator = random.parts.generator.insert(generator);
        generator.follow(seed)?;
        self.queue().with_room(|| run(generator))
    }
}

/// Lets `run` use what is loaded for the first caller.
fn with<L, T>(
    loaded: &Mutex<Option<L>>,
    load: impl FnOnce() -> HipResult<L>,
    run: impl FnOnce(&mut L) -> HipResult<T>,
) -> HipResult<T> {
    let mut loaded = lock(loaded);
    let library = match loaded.take() {
        Some(library) => library,
        None => load()?,
    };
    run(loaded.insert(library))
}
