//! A device in disguise.
use crate::rocm_backend::hip::HipResult;
use crate::rocm_backend::memory::DeviceMemory;
use crate::rocm_backend::plan::{Card, Launch, Launcher, Limits, Pointer, Tuning};
use crate::rocm_backend::{RocmDevice, RocmError};

/// A device that plans take for another card, or that has other limits.
pub(crate) struct Disguised<'a> {
    pub(crate) device: &'a RocmDevice,
    pub(crate) card: Card,
    pub(crate) limits: Limits,
}

impl<'a> Disguised<'a> {
    /// With the limits that users have.
    pub(crate) fn as_usual(device: &'a RocmDevice) -> Self {
        Self {
            device,
            card: device.card(),
            limits: Limits::USUAL,
        }
    }
}

impl Launcher for Disguised<'_> {
    type Error = RocmError;
    type Workspace = DeviceMemory;

    fn tuning(&self) -> Tuning {
        self.device.tuning()
    }

    fn card(&self) -> Card {
        self.card
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    fn workspace(&self, bytes: usize) -> HipResult<(DeviceMemory, Pointer)> {
        self.device.workspace(bytes)
    }

    fn zeros(&self, bytes: usize) -> HipResult<(DeviceMemory, Pointer)> {
        self.device.zeros(bytes)
    }

    unsafe fn enqueue(&self, launch: Launch<'_, Self>) -> HipResult<()> {
        // SAFETY: the caller answers.
        unsafe { self.device.enqueue(launch.through(self.device)) }
    }
}
