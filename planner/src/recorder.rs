//! A launcher that writes launches down.
use crate::rocm_backend::plan::{Card, Launch, Launcher, Limits, Pointer, Refusal, Tuning};
use serde::{Deserialize, Serialize};
use std::cell::{Cell, RefCell};

/// Finds room for so many bytes, more than 0, which are all 0 if that is asked for; returns its address, or 0 if there is
/// none.
pub(crate) type Allocate = extern "C" fn(bytes: u64, zeroed: bool) -> u64;

/// Workspaces whose addresses are made up begin here, as far apart as those of real ones.
const FIRST: usize = 1 << 46;
const APART: usize = 256;

/// The device that is planned for.
#[derive(Debug, Deserialize)]
pub(crate) struct Device {
    architecture: String,
    wave_size: usize,
    multiprocessors: usize,
    /// If not as many as usual.
    elements: Option<usize>,
    blocks: Option<usize>,
    blocks_y: Option<usize>,
    least_tiles: Option<usize>,
    packed_products: Option<usize>,
    launch_time: Option<usize>,
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
    allocate: Option<Allocate>,
    /// The next address that is made up.
    next: Cell<usize>,
    launches: RefCell<Vec<Recorded>>,
}

impl Recorder {
    pub(crate) fn new(device: &Device, allocate: Option<Allocate>) -> Self {
        let usual = Limits::USUAL;
        Self {
            card: Card {
                wave_size: device.wave_size,
                multiprocessors: device.multiprocessors,
            },
            tuning: Tuning::of(&device.architecture),
            limits: Limits {
                elements: device.elements.unwrap_or(usual.elements),
                blocks: device.blocks.unwrap_or(usual.blocks),
                blocks_y: device.blocks_y.unwrap_or(usual.blocks_y),
                least_tiles: device.least_tiles.unwrap_or(usual.least_tiles),
                packed_products: device.packed_products.unwrap_or(usual.packed_products),
                launch_time: device.launch_time.unwrap_or(usual.launch_time),
            },
            allocate,
            next: Cell::new(FIRST),
            launches: RefCell::default(),
        }
    }

    fn room(&self, bytes: usize, zeroed: bool) -> Result<Pointer, Refusal> {
        let address = match self.allocate {
            _ if bytes == 0 => return Ok(Pointer::NULL),
            Some(allocate) => allocate(bytes as u64, zeroed) as usize,
            None => {
                let end = self.next.get() + bytes;
                self.next.replace(end.next_multiple_of(APART))
            }
        };
        if address == 0 {
            return Err(Refusal(format!("no workspace of {bytes} bytes")));
        }
        Ok(Pointer::NULL.offset(address))
    }

    pub(crate) fn launches(self) -> Vec<Recorded> {
        self.launches.into_inner()
    }
}

impl Launcher for Recorder {
    type Error = Refusal;
    type Workspace = ();

    fn card(&self) -> Card {
        self.card
    }

    fn tuning(&self) -> Tuning {
        self.tuning
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    fn workspace(&self, bytes: usize) -> Result<((), Pointer), Refusal> {
        Ok(((), self.room(bytes, false)?))
    }

    fn zeros(&self, bytes: usize) -> Result<((), Pointer), Refusal> {
        Ok(((), self.room(bytes, true)?))
    }

    unsafe fn enqueue(&self, launch: Launch<'_, Self>) -> Result<(), Refusal> {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let (symbol, grid, block, lds) = (
            launch.kernel.symbol(),
            launch.grid,
            launch.block,
            launch.lds,
        );
        let arguments = launch.bytes().map(hex).collect();
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

#[cfg(test)]
mod tests {
    use super::*;

    fn recorder(allocate: Option<Allocate>) -> Recorder {
        let device = r#"{"architecture": "gfx1100", "wave_size": 32, "multiprocessors": 8}"#;
        Recorder::new(&serde_json::from_str(device).unwrap(), allocate)
    }

    fn addresses(recorder: &Recorder, sizes: &[usize]) -> Vec<Result<usize, Refusal>> {
        let address = |&bytes| {
            let (_, start) = recorder.workspace(bytes)?;
            Ok(start.0 as usize)
        };
        sizes.iter().map(address).collect()
    }

    #[test]
    fn addresses_of_workspaces_are_made_up_where_nobody_allocates() {
        let found = addresses(&recorder(None), &[1, 0, 256, 257, 1 << 40, 1]);
        let behind = [0, 256, 512, 1024, 1024 + (1 << 40)].map(|bytes| Ok(FIRST + bytes));
        let [first, second, third, fourth, fifth] = behind;
        assert_eq!(found, [first, Ok(0), second, third, fourth, fifth]);
    }

    #[test]
    fn whoever_asks_allocates() {
        extern "C" fn room(bytes: u64, zeroed: bool) -> u64 {
            match bytes {
                0..=1000 => 0x7000 + bytes + u64::from(zeroed),
                _ => 0,
            }
        }
        let recorder = recorder(Some(room));
        let zeros = recorder.zeros(100).map(|(_, start)| start.0 as usize);
        assert_eq!(zeros, Ok(0x7000 + 100 + 1));
        let found = addresses(&recorder, &[1000, 0, 1001]);
        let refusal = Refusal("no workspace of 1001 bytes".to_string());
        assert_eq!(found, [Ok(0x7000 + 1000), Ok(0), Err(refusal)]);
    }
}
