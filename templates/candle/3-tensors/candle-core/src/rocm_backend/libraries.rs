//! ROCm's other libraries on a queue's stream: each is loaded for the first caller.
use super::blas::Blas;
use super::gpu::lock;
use super::hip::HipResult;
#[cfg(feature = "rocm-miopen")]
use super::miopen::Miopen;
use super::queue::Queue;
#[cfg(feature = "rocm-rocrand")]
use super::rocrand::Generator;
use super::RocmDevice;
use crate::Result;
use std::ffi::c_void;
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

impl RocmDevice {
    /// Lets `run` use the device's `rocblas_handle`, whose stream is the device's, with the GPU as current device.
    /// rocBLAS is loaded for the first caller, and nobody else uses the handle meanwhile.
    ///
    /// It returns the handle to the state in which it got it: stream, workspace, modes of pointers, atomics and math.
    pub fn with_rocblas<T>(&self, run: impl FnOnce(*mut c_void) -> T) -> Result<T> {
        self.gpu().make_current()?;
        let mut run = Some(run);
        let result = self.queue().with_blas(|blas| {
            let run = run.take().expect("what cannot fail is not run again");
            Ok(run(blas.handle().cast()))
        });
        Ok(result?)
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
        generator.draw_on(self.stream())?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rocm_backend::testing::gpu;

    #[test]
    fn programs_get_the_handle_that_products_use() -> Result<()> {
        let Some(device) = gpu("programs_get_the_handle_that_products_use") else {
            return Ok(());
        };
        let handle = device.with_rocblas(|handle| handle as usize)?;
        assert_ne!(handle, 0);
        let own = device
            .queue()
            .with_blas(|blas| Ok(blas.handle() as usize))?;
        assert_eq!(handle, own);
        // Another stream has another one.
        let other = RocmDevice::new_with_stream(0)?;
        assert_ne!(other.with_rocblas(|handle| handle as usize)?, handle);
        Ok(())
    }
}
