//! Who touched which byte of a block's LDS since the last barrier.

/// One access, packed. A byte's cell holds the last one; zero is none.
///
/// Bits: 0-9 thread, 10 atomic, 11 several threads of a wave, 12 several waves, 16-31 the wave's synchronisations,
/// 32-61 the block's barriers, 63 set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touch(u64);

const ATOMIC: u64 = 1 << 10;
const SEVERAL_LANES: u64 = 1 << 11;
const SEVERAL_WAVES: u64 = 1 << 12;
const SEVERAL: u64 = 3 << 11;

impl Touch {
    /// No access.
    pub const NONE: Self = Self(0);

    /// An access by a thread after so many barriers of the block and synchronisations of the wave.
    pub fn new(thread: u32, barriers: u32, wave_synchronisations: u32, atomic: bool) -> Self {
        let atomic = if atomic { ATOMIC } else { 0 };
        let epochs = u64::from(barriers & 0x3fff_ffff) << 32 | u64::from(wave_synchronisations & 0xffff) << 16;
        Self(1 << 63 | epochs | atomic | u64::from(thread))
    }

    /// The same access as an atomic one.
    pub fn as_atomic(self) -> Self {
        Self(self.0 | ATOMIC)
    }

    /// Whether there was an access at all.
    pub fn exists(self) -> bool {
        self.0 != 0
    }

    /// The thread, counted within its block.
    pub fn thread(self) -> u32 {
        (self.0 & 0x3ff) as u32
    }

    fn is_atomic(self) -> bool {
        self.0 & ATOMIC != 0
    }

    fn barriers(self) -> u64 {
        self.0 >> 32 & 0x3fff_ffff
    }

    fn wave_synchronisations(self) -> u64 {
        self.0 >> 16 & 0xffff
    }

    /// Whether nothing orders this earlier access and a later one, of which at least one writes.
    #[inline]
    pub fn races_with(self, later: Self, wave_size: u32) -> bool {
        if !self.exists() || self.barriers() != later.barriers() || (self.is_atomic() && later.is_atomic()) {
            return false;
        }
        if self.0 & SEVERAL_WAVES != 0 {
            return true;
        }
        let synchronised =
            self.is_of_wave(later, wave_size) && self.wave_synchronisations() != later.wave_synchronisations();
        let same_thread = self.thread() == later.thread() && self.0 & SEVERAL_LANES == 0;
        !synchronised && !same_thread
    }

    /// Whether both are by threads of one wave, whose size is a power of two.
    fn is_of_wave(self, other: Self, wave_size: u32) -> bool {
        (self.thread() ^ other.thread()) < wave_size
    }

    /// This earlier read together with a later one.
    #[inline]
    pub fn and_also(self, later: Self, wave_size: u32) -> Self {
        if !self.exists()
            || self.barriers() != later.barriers()
            || self.thread() == later.thread() && self.0 & SEVERAL == 0
        {
            return later;
        }
        let before = self.0 & SEVERAL;
        let several = match self.is_of_wave(later, wave_size) {
            true if self.wave_synchronisations() != later.wave_synchronisations() => before & SEVERAL_WAVES,
            true => before | SEVERAL_LANES,
            false => before | SEVERAL_WAVES,
        };
        // The later one is a single access: these bits of it are zero.
        Self(later.0 + several)
    }
}

/// The last write and the last reads of each byte.
#[derive(Debug, Default)]
pub struct Touches {
    /// Last write of each byte; a byte without one is uninitialised.
    pub writes: Vec<Touch>,
    /// Last read of each byte.
    pub reads: Vec<Touch>,
}

impl Touches {
    /// Forgets everything, for a block with so many bytes of LDS.
    pub fn reset(&mut self, bytes: usize) {
        for touches in [&mut self.writes, &mut self.reads] {
            touches.clear();
            touches.resize(bytes, Touch::NONE);
        }
    }

    /// Notes an access to bytes that all have the same past, as those of one number mostly have. False if they do not,
    /// or if something is amiss with the access, which then is not noted.
    #[inline(always)]
    pub fn note_alike<const BYTES: usize, const WRITE: bool>(
        &mut self,
        start: usize,
        own: Touch,
        wave_size: u32,
    ) -> bool {
        let (Some(writes), Some(reads)) =
            (self.writes[start..].first_chunk_mut::<BYTES>(), self.reads[start..].first_chunk_mut::<BYTES>())
        else {
            return false;
        };
        let (write, read) = (writes[0], reads[0]);
        if *writes != [write; BYTES] || *reads != [read; BYTES] || write.races_with(own, wave_size) {
            return false;
        }
        if WRITE {
            if read.races_with(own, wave_size) {
                return false;
            }
            *writes = [own; BYTES];
        } else {
            if !write.exists() {
                return false;
            }
            *reads = [read.and_also(own, wave_size); BYTES];
        }
        true
    }

    /// The same of words of four bytes, each with a past of its own: a thread reads in one go what several have written.
    /// Where it is false, words before the one with something amiss are noted.
    #[inline]
    pub fn note_words<const BYTES: usize, const WRITE: bool>(
        &mut self,
        start: usize,
        own: Touch,
        wave_size: u32,
    ) -> bool {
        (start..start + BYTES).step_by(4).all(|word| self.note_alike::<4, WRITE>(word, own, wave_size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn plain(thread: u32, barriers: u32) -> Touch {
        Touch::new(thread, barriers, 0, false)
    }

    #[test]
    fn a_barrier_orders() {
        assert!(plain(1, 0).races_with(plain(2, 0), 32));
        assert!(!plain(1, 0).races_with(plain(2, 1), 32));
        assert!(!plain(1, 0).races_with(plain(1, 0), 32));
        assert!(!Touch::NONE.races_with(plain(1, 0), 32));
    }

    #[test]
    fn a_wave_synchronisation_orders_its_own_wave_only() {
        let later = |thread| Touch::new(thread, 0, 1, false);
        assert!(!plain(1, 0).races_with(later(2), 32));
        assert!(plain(1, 0).races_with(later(40), 32));
    }

    #[test]
    fn atomics_race_with_plain_accesses_only() {
        let atomic = |thread| Touch::new(thread, 0, 0, true);
        assert!(!atomic(1).races_with(atomic(2), 32));
        assert!(atomic(1).races_with(plain(2, 0), 32));
        assert!(plain(1, 0).races_with(atomic(2), 32));
    }

    #[test]
    fn what_is_packed_is_found_again() {
        for (thread, barriers, synchronisations, atomic) in
            [(1023, 0, 0, false), (0, 0x3fff_ffff, 0, true), (0, 0, 0xffff, false), (682, 0x1555_5555, 0xaaaa, true)]
        {
            let touch = Touch::new(thread, barriers, synchronisations, atomic);
            let (barriers, synchronisations) = (u64::from(barriers), u64::from(synchronisations));
            assert_eq!((touch.thread(), touch.barriers()), (thread, barriers));
            assert_eq!((touch.wave_synchronisations(), touch.is_atomic()), (synchronisations, atomic));
            assert!(touch.exists() && touch.as_atomic().as_atomic().is_atomic());
            assert_eq!(touch.as_atomic(), Touch::new(thread, touch.barriers() as u32, synchronisations as u32, true));
        }
        assert!(!Touch::NONE.exists());
        let mut touches = Touches { writes: vec![plain(1, 0); 3], reads: Vec::new() };
        touches.reset(2);
        assert_eq!((touches.writes, touches.reads), (vec![Touch::NONE; 2], vec![Touch::NONE; 2]));
    }

    /// An access that is not packed.
    #[derive(Clone, Copy)]
    struct Plain {
        thread: u32,
        barriers: u32,
        synchronisations: u32,
    }

    impl Plain {
        fn packed(self) -> Touch {
            Touch::new(self.thread, self.barriers, self.synchronisations, false)
        }

        fn comes_before(self, later: Self, wave: u32) -> bool {
            let waits = self.thread / wave == later.thread / wave && self.synchronisations < later.synchronisations;
            self.thread == later.thread || self.barriers < later.barriers || waits
        }
    }

    /// A cell keeps one access for many: it must say of every writer what a list of all reads says.
    #[test]
    fn a_cell_says_what_the_list_of_all_reads_says() {
        const WAVE: u32 = 4;
        for seed in 0..3000 {
            let mut random = Random::new(seed);
            let (mut cell, mut reads) = (Touch::NONE, Vec::<Plain>::new());
            let (mut barriers, mut synchronisations) = (0, [0; 3]);
            for _ in 0..8 {
                let thread = random.below(12) as u32;
                let wave = (thread / WAVE) as usize;
                match random.below(8) {
                    0 => barriers += 1,
                    1 | 2 => synchronisations[wave] += 1,
                    _ => {
                        let read = Plain { thread, barriers, synchronisations: synchronisations[wave] };
                        cell = cell.and_also(read.packed(), WAVE);
                        reads.push(read);
                    }
                }
                for thread in 0..12 {
                    let write =
                        Plain { thread, barriers, synchronisations: synchronisations[(thread / WAVE) as usize] };
                    let expected = reads.iter().any(|read| !read.comes_before(write, WAVE));
                    assert_eq!(cell.races_with(write.packed(), WAVE), expected, "seed {seed}, writer {thread}");
                }
            }
        }
    }

    #[test]
    fn several_readers_are_remembered() {
        let lanes = plain(1, 0).and_also(plain(2, 0), 32);
        assert!(lanes.races_with(plain(2, 0), 32));
        assert!(!lanes.races_with(Touch::new(2, 0, 1, false), 32));
        let waves = plain(1, 0).and_also(plain(40, 0), 32);
        assert!(waves.races_with(Touch::new(40, 0, 1, false), 32));
        assert!(!waves.races_with(plain(40, 1), 32));
        assert!(!plain(1, 0).and_also(plain(1, 0), 32).races_with(plain(1, 0), 32));
    }
}
