//! LDS of a block, and who has used it since the last barrier: what one wave stores and another loads or stores without a
//! barrier between them has a value by chance.

use crate::memory::Memory;

/// As large is no block's LDS. Hardware answers loads beyond a block's with zeros, and AMD's own products of matrices get
/// their zeros from there; a load that misses by less is a mistake.
const LARGEST: u64 = 1 << 16;

/// Who has used a byte, and behind how many barriers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Use {
    /// None for several waves.
    wave: Option<u16>,
    barriers: u32,
    is_atomic: bool,
}

/// LDS of a block.
#[derive(Debug)]
pub struct Lds {
    bytes: Vec<u8>,
    stored: Vec<Use>,
    loaded: Vec<Use>,
    /// The wave that runs.
    pub wave: u16,
    /// How many barriers the block has passed, and 1: a byte that nobody has used has 0.
    pub barriers: u32,
    /// Whether what happens is part of an atomic operation.
    is_atomic: bool,
}

impl Lds {
    /// So many bytes, all bits of which are 1: what earlier blocks have left there is no zero either.
    pub fn new(bytes: usize) -> Self {
        let unused = vec![Use::default(); bytes];
        Self {
            bytes: vec![0xff; bytes],
            stored: unused.clone(),
            loaded: unused,
            wave: 0,
            barriers: 1,
            is_atomic: false,
        }
    }

    /// Bytes.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    fn place(&self, address: u64, count: usize) -> Result<std::ops::Range<usize>, String> {
        let place = address as usize;
        let is_there = place.checked_add(count).is_some_and(|end| end <= self.bytes.len());
        is_there.then(|| place..place + count).ok_or_else(|| format!("{count} bytes at {address:#x} are beyond LDS"))
    }

    fn this(&self) -> Use {
        Use { wave: Some(self.wave), barriers: self.barriers, is_atomic: self.is_atomic }
    }

    /// Whether another wave has used a byte so since the last barrier, and not both atomically.
    fn races(&self, with: Use) -> bool {
        with.barriers == self.barriers && with.wave != Some(self.wave) && !(with.is_atomic && self.is_atomic)
    }

    fn race(&self, place: usize, what: &str) -> String {
        format!("byte {place:#x} of LDS, which another wave {what} since the last barrier (this is wave {})", self.wave)
    }
}

impl Memory for Lds {
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), String> {
        if address > LARGEST && !self.is_atomic {
            bytes.fill(0);
            return Ok(());
        }
        let range = self.place(address, bytes.len())?;
        let this = self.this();
        for place in range.clone() {
            if self.races(self.stored[place]) {
                return Err(self.race(place, "has stored"));
            }
            let before = self.loaded[place];
            let is_shared = before.barriers == this.barriers && before.wave != this.wave;
            self.loaded[place] = if is_shared { Use { wave: None, ..this } } else { this };
        }
        bytes.copy_from_slice(&self.bytes[range]);
        Ok(())
    }

    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), String> {
        let range = self.place(address, bytes.len())?;
        for place in range.clone() {
            if self.races(self.stored[place]) {
                return Err(self.race(place, "has stored"));
            }
            if self.races(self.loaded[place]) {
                return Err(self.race(place, "has loaded"));
            }
            self.stored[place] = self.this();
        }
        self.bytes[range].copy_from_slice(bytes);
        Ok(())
    }

    fn set_atomic(&mut self, is_atomic: bool) {
        self.is_atomic = is_atomic;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(lds: &mut Lds, wave: u16, barriers: u32) -> &mut Lds {
        (lds.wave, lds.barriers) = (wave, barriers);
        lds
    }

    #[test]
    fn waves_meet_at_barriers() {
        let mut lds = Lds::new(8);
        let mut byte = [0];
        assert_eq!(at(&mut lds, 0, 1).write(4, &[7]), Ok(()));
        assert_eq!(lds.read(4, &mut byte), Ok(()), "its own");
        assert!(at(&mut lds, 1, 1).read(4, &mut byte).is_err_and(|why| why.contains("0x4")));
        assert!(lds.write(4, &[8]).is_err_and(|why| why.contains("has stored")));
        assert_eq!(at(&mut lds, 1, 2).read(4, &mut byte), Ok(()));
        assert_eq!(byte, [7]);
        assert!(at(&mut lds, 0, 2).write(4, &[9]).is_err_and(|why| why.contains("has loaded")));
        assert_eq!(at(&mut lds, 2, 2).read(4, &mut byte), Ok(()), "many may load");
        assert!(at(&mut lds, 1, 2).write(4, &[9]).is_err(), "the other has loaded it as well");
        assert_eq!(at(&mut lds, 0, 3).write(4, &[9]), Ok(()));
    }

    #[test]
    fn atomic_operations_do_not_race_with_each_other() {
        let mut lds = Lds::new(8);
        let mut byte = [0];
        for wave in 0..3 {
            at(&mut lds, wave, 1).is_atomic = true;
            assert_eq!(lds.read(0, &mut byte), Ok(()));
            assert_eq!(lds.write(0, &[1]), Ok(()));
        }
        lds.is_atomic = false;
        assert!(at(&mut lds, 1, 1).read(0, &mut byte).is_err());
        assert_eq!(at(&mut lds, 1, 2).read(0, &mut byte), Ok(()));
    }

    #[test]
    fn nothing_lies_beyond_the_end() {
        let mut lds = Lds::new(8);
        assert!(lds.read(6, &mut [0; 4]).is_err_and(|why| why.contains("beyond LDS")));
        assert!(lds.write(u64::MAX, &[0; 4]).is_err());
        assert_eq!(lds.read(4, &mut [0; 4]), Ok(()));
    }

    #[test]
    fn far_beyond_the_end_are_zeros() {
        let (mut lds, mut bytes) = (Lds::new(8), [7; 4]);
        assert_eq!(lds.read(0x00f0_0000, &mut bytes), Ok(()));
        assert_eq!(bytes, [0; 4]);
        assert!(lds.write(0x00f0_0000, &[0; 4]).is_err());
        assert!(lds.read(LARGEST, &mut bytes).is_err());
        lds.is_atomic = true;
        assert!(lds.read(0x00f0_0000, &mut bytes).is_err());
    }
}
