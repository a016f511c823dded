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
        Self((launch << 51) + ((block & BLOCKS) << 25) + (barriers << 15) + (u64::from(thread) << 5))
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
    fn what_is_packed_is_found_again() {
        for (launch, block, barriers, thread) in
            [(MAX_LAUNCH, 0, 0, 0), (0, BLOCKS, 0, 0), (0, 0, 1022, 0), (0, 0, 0, 1023), (0x555, 0x2aa_aaaa, 341, 682)]
        {
            let write = Write::by(launch, block, barriers, thread);
            assert_eq!((write.block(), write.thread(), write.is_atomic()), (block, thread, false));
            assert!(write.atomic().is_atomic() && write.atomic().atomic().is_atomic());
            assert_eq!((write.atomic().block(), write.atomic().thread()), (block, thread));
            assert_eq!(write.of_bytes(0b0110).of_bytes(0b0010), write.of_bytes(0b0110));
            assert_ne!(write.of_bytes(0b0110), write.of_bytes(0b0100));
        }
        // Blocks beyond the last that fits are taken for others, and touch no other field.
        assert_eq!(Write::by(1, BLOCKS + 3, 0, 7), Write::by(1, 2, 0, 7));
    }

    /// Against what the fields themselves say, for all pairs of a few writers.
    #[test]
    fn writers_are_told_apart_by_every_field() {
        let fields = |number: u64| (1 + number % 2, number / 2 % 3, (number / 6 % 3) as u32, (number / 18 % 3) as u32);
        let writers = || (0..54).map(fields);
        for (one, other) in writers().flat_map(|one| writers().map(move |other| (one, other))) {
            let write = |(launch, block, barriers, thread)| Write::by(launch, block, barriers, thread).of_bytes(WORD);
            let (launch, block, barriers, thread) = other;
            let same_launch = one.0 == launch;
            assert_eq!(write(one).is_by_another(write(other)), same_launch && one != other, "{one:?} {other:?}");
            if same_launch {
                let races = one.1 != block || (one.3 != thread && one.2 == barriers);
                assert_eq!(write(one).races_with(write(other)), races, "{one:?} {other:?}");
            }
            let expected = if one == other { write(one) } else { Write::by(one.0, one.1, one.2, one.3).of_bytes(1) };
            assert_eq!(Write::by(one.0, one.1, one.2, one.3).of_bytes(1).after(write(other)), expected);
        }
        assert!(!Write::by(1, 0, 0, 1).is_by_another(Write::NONE));
    }

    #[test]
    fn atomic_and_plain_bytes_do_not_add_up() {
        let writer = Write::by(1, 2, 3, 4);
        assert_eq!(writer.atomic().of_bytes(1).after(writer.of_bytes(2)), writer.atomic().of_bytes(1));
        assert_eq!(writer.of_bytes(1).after(writer.atomic().of_bytes(2)), writer.of_bytes(1));
        assert_eq!(writer.atomic().of_bytes(3).after(writer.atomic().of_bytes(6)), writer.atomic().of_bytes(7));
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
