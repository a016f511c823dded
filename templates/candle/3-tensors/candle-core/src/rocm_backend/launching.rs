//! What operations ask of devices, GPUs and storages to launch kernels.
#[cfg(feature = "rocm-miopen")]
use super::blas_kernels;
use super::blas_kernels::Multiplier;
use super::gpu::Gpu;
use super::hip::HipResult;
use super::kernels::{Kernel, Launch, Loader, Pointer, Tuning};
use super::{RocmDevice, RocmStorage};

impl Gpu {
    /// The kernels that have been loaded, and how to load others.
    pub(super) fn kernels(&self) -> &Loader {
        &self.parts.kernels
    }

    /// Whether rocBLAS has kernels for the GPU.
    #[cfg(feature = "rocm-miopen")]
    pub(super) fn rocblas_serves(&self) -> bool {
        let serves = || blas_kernels::serves(&self.properties().gcn_arch_name).is_ok();
        *self.parts.rocblas_serves.get_or_init(serves)
    }

    /// Who multiplies matrices; found out for the first that are.
    pub(super) fn multiplier(&self) -> HipResult<Multiplier> {
        let known = &self.parts.multiplier;
        if let Some(multiplier) = known.get() {
            return Ok(*multiplier);
        }
        let found = Multiplier::of(&self.properties().gcn_arch_name)?;
        Ok(*known.get_or_init(|| found))
    }
}

impl RocmDevice {
    /// A launch of a kernel on the device's stream.
    pub(super) fn launch<'a>(&self, kernel: Kernel) -> HipResult<Launch<'a>> {
        let gpu = self.gpu();
        gpu.make_current()?;
        let function = self.queue().with_room(|| gpu.kernels().function(kernel))?;
        let launch = Launch::new(function, self.stream().handle());
        #[cfg(test)]
        let launch = launch.named(kernel.symbol());
        Ok(launch)
    }

    /// Whose numbers the kernel table has for this device.
    pub(super) fn tuning(&self) -> Tuning {
        self.gpu().kernels().tuning()
    }
}

impl RocmStorage {
    /// The address of the memory, for kernels that read it.
    pub(super) fn pointer(&self) -> Pointer {
        Pointer(self.hip_memory().as_ptr().cast_mut())
    }

    /// The address of the memory, for kernels that write it: they come after copies of it to other streams.
    pub(super) fn pointer_mut(&mut self) -> Pointer {
        Pointer(self.hip_memory_mut().as_mut_ptr())
    }
}
