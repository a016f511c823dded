//! Who wrote which word of device memory during the running launch.

/// A write by a thread, packed. A word's cell holds the last one; zero is none.
///
/// Bits: 0-3 bytes of the word, 4 atomic, 5-14 thread, 15-24 barriers, 25-50 block, 51-62 launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Write(u64);

const ATOMIC: u64 = 1 << 4;
const BARRIERS: u64 = 0x3ff;
const BLOCKS: u64 = 0x3ff_ffff;

/// Launches are numbered 1 to this; then all cells are forgotten and numbers start again.
pub const MAX_LAUNCH: u64 = 0xfff;

impl Write {
    /// No write.
    pub const NONE: Self = Self(0);

    /// The writes of a thread in a launch, without bytes.
    pub fn by(launch: u64, block: u64, barriers: u32, thread: u32) -> Self {
        // The last count stands for itself and all that follow: those are never taken for unordered.
        let barriers = u64::from(barriers).min(BARRIERS);
        Self(launch << 51 | (block & BLOCKS) << 25 | barriers << 15 | u64::from(thread) << 5)
    }

    /// The same writer with bytes of a word.
    #[inline(always)]
    pub fn of_bytes(self, mask: u64) -> Self {
        Self(self.0 | mask)
    }

    /// The same write as an atomic one.
    pub fn atomic(self) -> Self {
        Self(self.0 | ATOMIC)
    }

    /// Whether the earlier write is of the same launch and by someone else: the rare case that needs a closer look.
    #[inline(always)]
    pub fn is_by_another(self, earlier: Self) -> bool {
        let difference = self.0 ^ earlier.0;
        difference >> 51 == 0 && difference >> 5 != 0
    }

    /// What the cell holds after this write: a writer's bytes add up.
    #[inline(always)]
    pub fn after(self, earlier: Self) -> Self {
        if self.0 >> 5 == earlier.0 >> 5 && (self.0 ^ earlier.0) & ATOMIC == 0 {
            Self(self.0 | earlier.0)
        } else {
            self
        }
    }

    /// The writer's thread, counted within its block.
    pub fn thread(self) -> u32 {
        (self.0 >> 5 & 0x3ff) as u32
    }

    /// The writer's block, counted within the grid.
    pub fn block(self) -> u64 {
        self.0 >> 25 & BLOCKS
    }

    /// Whether it was an atomic operation.
    pub fn is_atomic(self) -> bool {
        self.0 & ATOMIC != 0
    }

    /// Whether nothing orders the earlier write and this access of the same launch.
    pub fn races_with(self, earlier: Self) -> bool {
        if self.0 & earlier.0 & 0xf == 0 {
            return false;
        }
        if self.block() != earlier.block() {
            return true;
        }
        let barriers = |write: Self| write.0 >> 15 & BARRIERS;
        self.thread() != earlier.thread() && barriers(self) == barriers(earlier) && barriers(self) != BARRIERS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORD: u64 = 0xf;

    #[test]
    fn blocks_are_never_ordered() {
        let earlier = Write::by(1, 0, 3, 5).of_bytes(WORD);
        assert!(Write::by(1, 1, 4, 5).of_bytes(WORD).races_with(earlier));
        assert!(!Write::by(1, 0, 4, 6).of_bytes(WORD).races_with(earlier));
        assert!(Write::by(1, 0, 3, 6).of_bytes(WORD).races_with(earlier));
        assert!(!Write::by(1, 0, 3, 5).of_bytes(WORD).races_with(earlier));
    }

    #[test]
    fn different_bytes_of_a_word_do_not_race() {
        let earlier = Write::by(1, 0, 0, 5).of_bytes(0b0011);
        assert!(!Write::by(1, 1, 0, 5).of_bytes(0b1100).races_with(earlier));
        assert!(Write::by(1, 1, 0, 5).of_bytes(0b0110).races_with(earlier));
    }

    #[test]
    fn earlier_launches_are_over() {
        let earlier = Write::by(1, 0, 0, 5).of_bytes(WORD);
        assert!(!Write::by(2, 1, 0, 5).is_by_another(earlier));
        assert!(Write::by(1, 1, 0, 5).is_by_another(earlier));
        assert!(!Write::by(1, 0, 0, 5).is_by_another(earlier));
    }

    #[test]
    fn many_barriers_are_not_taken_for_none() {
        let late = |thread| Write::by(1, 0, 5000, thread).of_bytes(WORD);
        assert!(!late(1).races_with(late(2)));
    }

    #[test]
    fn bytes_of_one_writer_add_up() {
        let writer = Write::by(1, 0, 0, 5);
        assert_eq!(writer.of_bytes(1).after(writer.of_bytes(2)), writer.of_bytes(3));
        assert_eq!(writer.of_bytes(1).after(Write::by(1, 0, 0, 6).of_bytes(2)), writer.of_bytes(1));
    }
}
