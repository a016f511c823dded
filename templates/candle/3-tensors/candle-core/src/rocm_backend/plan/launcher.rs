//! The card that launches are planned for, and the launcher that makes them.
use super::family::Tuning;
use super::launch::{Launch, Pointer};
use super::table::conv::{LAUNCH_TIME, PACKED_FROM};
use super::table::permute::LEAST_TILES;
use std::fmt;

/// Why nothing can be launched for an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal(pub(crate) String);

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refusal {}

/// Where the host cuts what kernels would not do at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Elements of a launch: a power of two, so that what follows a cut is aligned as before it.
    pub(crate) elements: usize,
    /// Blocks of a launch whose kernel strides over the rest.
    pub(crate) blocks: usize,
    /// Blocks in the second and third dimension of a grid.
    pub(crate) blocks_y: usize,
    /// Tiles that are worth a permutation through LDS; fewer leave most of the card idle.
    pub(crate) least_tiles: usize,
    /// Products of numbers in a convolution that are worth packing its operands; with fewer, launches take longer.
    pub(crate) packed_products: usize,
    /// What a launch of a convolution costs, in nanoseconds: as much time as it has to save.
    pub(crate) launch_time: usize,
}

impl Limits {
    /// Kernels count elements in 31 bits, and HIP takes fewer than 2^32 threads in a dimension.
    pub(crate) const USUAL: Self = Self {
        elements: 1 << 30,
        blocks: 1 << 20,
        blocks_y: 65535,
        least_tiles: LEAST_TILES,
        packed_products: PACKED_FROM,
        launch_time: LAUNCH_TIME,
    };
}

/// Properties that decide how work is spread over a GPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Card {
    pub(crate) wave_size: usize,
    pub(crate) multiprocessors: usize,
}

impl Card {
    /// Whether so many rows, a wave to each, leave multiprocessors without a block.
    pub(crate) fn is_idle_with(self, rows: usize, block: usize) -> bool {
        rows * self.wave_size < self.multiprocessors * block
    }
}

/// The stream of a GPU, or whatever stands for one: all that a plan asks of its surroundings.
pub(crate) trait Launcher: Sized {
    type Error: From<Refusal>;

    /// Memory for launches that are queued before it is dropped.
    type Workspace;

    fn card(&self) -> Card;

    /// Which of the numbers of the kernel table the GPU has.
    fn tuning(&self) -> Tuning;

    fn limits(&self) -> Limits;

    /// So many bytes with unspecified contents, and where they are.
    fn workspace(&self, bytes: usize) -> Result<(Self::Workspace, Pointer), Self::Error>;

    /// As `workspace`, but all bytes are 0.
    fn zeros(&self, bytes: usize) -> Result<(Self::Workspace, Pointer), Self::Error>;

    /// Queues a launch.
    ///
    /// # Safety
    /// The arguments are those that the kernel takes, and what they point to on the device is large enough and stays
    /// allocated until the launch has run.
    unsafe fn enqueue(&self, launch: Launch<'_, Self>) -> Result<(), Self::Error>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_rows_leave_the_card_idle() {
        let card = Card {
            wave_size: 64,
            multiprocessors: 104,
        };
        assert!(card.is_idle_with(415, 256));
        assert!(!card.is_idle_with(416, 256));
    }
}
