//! Plans of launches on a device, and what operations ask of devices, GPUs and storages to launch kernels.
#[cfg(feature = "rocm-miopen")]
use super::blas_kernels;
use super::blas_kernels::Multiplier;
use super::gpu::Gpu;
use super::hip::HipResult;
use super::kernels::{Function, Loader};
use super::memory::DeviceMemory;
use super::plan::{Card, Kernel, Launch, Launcher, Limits, Pointer, Refusal, Tuning};
use super::{RocmDevice, RocmError, RocmStorage};

/// In the crate's own tests launches are cut early and kernels stride soon, so that small tensors take many launches.
const LIMITS: Limits = if cfg!(test) {
    Limits {
        elements: 1 << 12,
        blocks: 1 << 5,
        blocks_y: 5,
        packed_products: 1 << 16,
        launch_time: 0,
        ..Limits::USUAL
    }
} else {
    Limits::USUAL
};
#[cfg(test)]
pub(super) const MAX_LAUNCH: usize = LIMITS.elements;
#[cfg(test)]
pub(super) const MAX_GRID_Y: usize = LIMITS.blocks_y;

impl Launcher for RocmDevice {
    type Error = RocmError;
    type Workspace = DeviceMemory;

    fn card(&self) -> Card {
        let properties = self.gpu().properties();
        Card {
            wave_size: properties.wave_size,
            multiprocessors: properties.multiprocessors,
        }
    }

    fn tuning(&self) -> Tuning {
        self.gpu().kernels().tuning()
    }

    fn limits(&self) -> Limits {
        LIMITS
    }

    fn workspace(&self, bytes: usize) -> HipResult<(DeviceMemory, Pointer)> {
        let mut memory = DeviceMemory::alloc(bytes, self)?;
        let start = Pointer(memory.as_mut_ptr());
        Ok((memory, start))
    }

    fn zeros(&self, bytes: usize) -> HipResult<(DeviceMemory, Pointer)> {
        let (mut memory, start) = self.workspace(bytes)?;
        memory.fill_zero()?;
        Ok((memory, start))
    }

    unsafe fn enqueue(&self, mut launch: Launch<'_, Self>) -> HipResult<()> {
        #[cfg(test)]
        super::testing::record(super::testing::Launched {
            kernel: launch.kernel.symbol(),
            grid: launch.grid,
            block: launch.block,
            lds: launch.lds,
        });
        let (grid, [x, y], lds) = (launch.grid, launch.block, launch.lds);
        let function = self.function(launch.kernel)?;
        let stream = self.stream().handle();
        // SAFETY: the stream is the current device's; for the rest the caller answers.
        unsafe { function.enqueue(stream, grid, [x, y, 1], lds, launch.addresses()) }
    }
}

impl From<Refusal> for RocmError {
    fn from(refusal: Refusal) -> Self {
        refusal.0.into()
    }
}

impl From<Refusal> for crate::Error {
    fn from(refusal: Refusal) -> Self {
        RocmError::from(refusal).into()
    }
}

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

    /// The code that multiplies matrices; decided at the first product.
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
    /// A kernel's code, loaded on the device's GPU, which is the current one then.
    fn function(&self, kernel: Kernel) -> HipResult<Function> {
        let gpu = self.gpu();
        gpu.make_current()?;
        self.queue().with_room(|| gpu.kernels().function(kernel))
    }
}

impl RocmStorage {
    /// The address of the memory, for kernels that read it.
    pub(super) fn pointer(&self) -> Pointer {
        Pointer(self.memory().as_ptr().cast_mut())
    }

    /// The address of the memory, for kernels that write it: they come after copies of it to other streams.
    pub(super) fn pointer_mut(&mut self) -> Pointer {
        Pointer(self.memory_mut().as_mut_ptr())
    }
}
