//! How launches deal rows to teams of threads: the host's side of `candle_rocm/rows.h`.
use crate::rocm_backend::launcher::MAX_GRID;
use crate::rocm_backend::RocmDevice;

/// Bytes that a lane reads or writes at once.
pub(super) const PACK: usize = 16;

/// What decides how work is spread over a GPU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Card {
    pub(super) wave_size: usize,
    pub(super) multiprocessors: usize,
}

impl Card {
    pub(super) fn of(device: &RocmDevice) -> Self {
        let properties = device.gpu().properties();
        Self {
            wave_size: properties.wave_size,
            multiprocessors: properties.multiprocessors,
        }
    }

    /// Whether so many rows, a wave to each, leave multiprocessors without a block.
    pub(super) fn is_idle_with(self, rows: usize, block: usize) -> bool {
        rows * self.wave_size < self.multiprocessors * block
    }
}

/// `width` threads to a row; a block has several teams, or is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Teams {
    pub(super) width: usize,
    pub(super) block: usize,
}

impl Teams {
    /// A block to each row.
    pub(super) fn of_blocks(block: usize) -> Self {
        Self {
            width: block,
            block,
        }
    }

    /// As many lanes of a wave as a row has use for, when a lane takes a step at a time.
    pub(super) fn of_lanes(steps: usize, card: Card, block: usize) -> Self {
        Self {
            width: steps.next_power_of_two().min(card.wave_size),
            block,
        }
    }

    /// Blocks for a team to each row, or fewer that stride over the rest.
    pub(super) fn blocks(self, rows: usize) -> usize {
        (rows * self.width).div_ceil(self.block).min(MAX_GRID)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CARD: Card = Card {
        wave_size: 64,
        multiprocessors: 104,
    };

    #[test]
    fn every_row_has_a_team() {
        let teams = |steps| Teams::of_lanes(steps, CARD, 256);
        for (steps, width) in [(0, 1), (1, 1), (3, 4), (64, 64), (65, 64), (1000, 64)] {
            assert_eq!(teams(steps).width, width, "{steps} steps");
        }
        assert_eq!(teams(3).blocks(1), 1);
        assert_eq!(teams(3).blocks(65), 2);
        assert_eq!(Teams::of_blocks(256).blocks(MAX_GRID - 1), MAX_GRID - 1);
        assert_eq!(Teams::of_blocks(256).blocks(usize::MAX / 256), MAX_GRID);
    }

    #[test]
    fn few_rows_leave_the_card_idle() {
        assert!(CARD.is_idle_with(415, 256));
        assert!(!CARD.is_idle_with(416, 256));
    }
}
