//! Plans of launches on a device.
use super::hip::HipResult;
use super::plan::{Card, Launch, Launcher, Limits, Pointer, Refusal, Tuning};
use super::{DeviceMemory, RocmDevice, RocmError};

/// In the crate's own tests launches are cut early and kernels stride soon, so that small tensors take many launches.
const LIMITS: Limits = if cfg!(test) {
    Limits {
        elements: 1 << 12,
        blocks: 1 << 5,
        blocks_y: 5,
        ..Limits::USUAL
    }
} else {
    Limits::USUAL
};
pub(super) const MAX_LAUNCH: usize = LIMITS.elements;
pub(super) const MAX_GRID: usize = LIMITS.blocks;
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
        self.tuning()
    }

    fn limits(&self) -> Limits {
        LIMITS
    }

    fn workspace(&self, bytes: usize) -> HipResult<(DeviceMemory, Pointer)> {
        let mut memory = DeviceMemory::alloc(bytes, self)?;
        let start = Pointer(memory.as_mut_ptr());
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
