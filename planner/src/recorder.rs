//! A launcher that writes launches down.
use crate::rocm_backend::plan::{Card, Launch, Launcher, Limits, Refusal, Tuning};
use serde::{Deserialize, Serialize};
use std::cell::RefCell;

/// The device that is planned for.
#[derive(Debug, Deserialize)]
pub(crate) struct Device {
    architecture: String,
    wave_size: usize,
    /// If not as many as usual.
    elements: Option<usize>,
    blocks: Option<usize>,
    blocks_y: Option<usize>,
    least_tiles: Option<usize>,
}

/// A launch as it is answered.
#[derive(Debug, Serialize)]
pub(crate) struct Recorded {
    family: &'static str,
    symbol: String,
    grid: [u32; 3],
    block: [u32; 2],
    lds: u32,
    /// The bytes of each argument in hexadecimal digits.
    arguments: Vec<String>,
}

pub(crate) struct Recorder {
    card: Card,
    tuning: Tuning,
    limits: Limits,
    launches: RefCell<Vec<Recorded>>,
}

impl Recorder {
    pub(crate) fn new(device: &Device) -> Self {
        let usual = Limits::USUAL;
        Self {
            card: Card {
                wave_size: device.wave_size,
            },
            tuning: Tuning::of(&device.architecture),
            limits: Limits {
                elements: device.elements.unwrap_or(usual.elements),
                blocks: device.blocks.unwrap_or(usual.blocks),
                blocks_y: device.blocks_y.unwrap_or(usual.blocks_y),
                least_tiles: device.least_tiles.unwrap_or(usual.least_tiles),
            },
            launches: RefCell::default(),
        }
    }

    pub(crate) fn launches(self) -> Vec<Recorded> {
        self.launches.into_inner()
    }
}

impl Launcher for Recorder {
    type Error = Refusal;

    fn card(&self) -> Card {
        self.card
    }

    fn tuning(&self) -> Tuning {
        self.tuning
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    unsafe fn enqueue(&self, mut launch: Launch<'_, Self>) -> Result<(), Refusal> {
        let sizes = launch.sizes().to_vec();
        let hex = |(address, size): (&mut *mut std::ffi::c_void, usize)| {
            // SAFETY: each argument is a value of so many bytes, which lives as long as the launch.
            let bytes = unsafe { std::slice::from_raw_parts(address.cast::<u8>(), size) };
            bytes.iter().map(|byte| format!("{byte:02x}")).collect()
        };
        let (symbol, grid, block, lds) = (
            launch.kernel.symbol(),
            launch.grid,
            launch.block,
            launch.lds,
        );
        let arguments = launch.addresses().iter_mut().zip(sizes).map(hex).collect();
        self.launches.borrow_mut().push(Recorded {
            family: launch.kernel.family().name,
            symbol,
            grid,
            block,
            lds,
            arguments,
        });
        Ok(())
    }
}
