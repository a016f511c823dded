//! The counter-based generator Philox4x32-10.
//!
//! Source: Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3" (SC 2011), section 3.3.

const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
/// The golden ratio and the square root of three less one, each as a fraction of 2^32.
const KEY_STEPS: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
const ROUNDS: usize = 10;

/// The four words that belong to a counter.
fn block(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    let product = |multiplier: u32, word: u32| {
        let product = u64::from(multiplier) * u64::from(word);
        ((product >> 32) as u32, product as u32)
    };
    for _ in 0..ROUNDS {
        let (high0, low0) = product(MULTIPLIERS[0], counter[0]);
        let (high1, low1) = product(MULTIPLIERS[1], counter[2]);
        counter = [high1 ^ counter[1] ^ key[0], low1, high0 ^ counter[3] ^ key[1], low0];
        key = [key[0].wrapping_add(KEY_STEPS[0]), key[1].wrapping_add(KEY_STEPS[1])];
    }
    counter
}

/// A sequence of words, from any place on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Words {
    key: [u32; 2],
    /// Words before the next one.
    position: u64,
}

impl Words {
    /// The sequence of a seed, from a place on.
    pub fn new(seed: u64, position: u64) -> Self {
        Self { key: [seed as u32, (seed >> 32) as u32], position }
    }

    /// Leaves words out.
    pub fn skip_words(&mut self, words: u64) {
        self.position = self.position.wrapping_add(words);
    }

    /// The next word.
    pub fn word(&mut self) -> u32 {
        let counter = self.position / 4;
        let words = block([counter as u32, (counter >> 32) as u32, 0, 0], self.key);
        let word = words[(self.position % 4) as usize];
        self.skip_words(1);
        word
    }

    /// The next two words as one.
    pub fn double_word(&mut self) -> u64 {
        let low = u64::from(self.word());
        u64::from(self.word()) << 32 | low
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The known answers that the authors publish with Random123 (kat_vectors, philox4x32 10).
    #[test]
    fn known_answers() {
        assert_eq!(block([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(block([u32::MAX; 4], [u32::MAX; 2]), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
        assert_eq!(
            block([0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344], [0xa409_3822, 0x299f_31d0]),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }

    #[test]
    fn a_place_is_reached_by_drawing_or_by_skipping() {
        let mut drawn = Words::new(7, 0);
        let words: Vec<_> = (0..11).map(|_| drawn.word()).collect();
        assert_eq!(Words::new(7, 10).word(), words[10]);
        assert_eq!(Words::new(7, 4).double_word(), u64::from(words[5]) << 32 | u64::from(words[4]));
    }
}
