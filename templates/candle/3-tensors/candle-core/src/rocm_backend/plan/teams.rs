//! How launches deal rows to teams of threads: the host's side of `candle_rocm/rows.h`.
use super::launcher::Card;

/// `width` threads to a row; a block has several teams, or is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Teams {
    pub(crate) width: usize,
    pub(crate) block: usize,
}

impl Teams {
    /// A block to each row.
    pub(crate) fn of_blocks(block: usize) -> Self {
        Self {
            width: block,
            block,
        }
    }

    /// As many lanes of a wave as a row has use for, when a lane takes a step at a time.
    pub(crate) fn of_lanes(steps: usize, card: Card, block: usize) -> Self {
        Self {
            width: steps.next_power_of_two().min(card.wave_size),
            block,
        }
    }

    /// Blocks for a team to each row, or `most`, which stride over the rest.
    pub(crate) fn blocks(self, rows: usize, most: usize) -> usize {
        (rows * self.width).div_ceil(self.block).min(most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_a_team() {
        let card = Card {
            wave_size: 64,
            multiprocessors: 104,
        };
        let teams = |steps| Teams::of_lanes(steps, card, 256);
        for (steps, width) in [(0, 1), (1, 1), (3, 4), (64, 64), (65, 64), (1000, 64)] {
            assert_eq!(teams(steps).width, width, "{steps} steps");
        }
        assert_eq!(teams(3).blocks(1, 100), 1);
        assert_eq!(teams(3).blocks(65, 100), 2);
        assert_eq!(Teams::of_blocks(256).blocks(99, 100), 99);
        assert_eq!(Teams::of_blocks(256).blocks(usize::MAX / 256, 100), 100);
    }
}
