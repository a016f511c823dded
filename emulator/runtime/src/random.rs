//! Seeded orders: which stream, block, wave or lane goes next.

/// A small random sequence (SplitMix64), the same for the same seed on every machine.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence of a seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number below `bound`, which is not zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }
}

/// An order of 0..count that needs no memory: i -> (i * step + start) mod count, with step coprime to count.
#[derive(Clone, Copy, Debug)]
pub struct Order {
    count: u64,
    next: u64,
    step: u64,
    left: u64,
}

impl Order {
    /// An order of 0..count drawn from `random`.
    pub fn new(count: u64, random: &mut Random) -> Self {
        if count <= 1 {
            return Self { count, next: 0, step: 0, left: count };
        }
        let mut step = 1 + random.below(count - 1);
        while greatest_common_divisor(step, count) != 1 {
            step = if step + 1 == count { 1 } else { step + 1 };
        }
        Self { count, next: random.below(count), step, left: count }
    }

    /// An order of nothing.
    pub const EMPTY: Self = Self { count: 0, next: 0, step: 0, left: 0 };
}

impl Iterator for Order {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        let current = self.next;
        // Both terms are below count, which is below 2^63 for every grid there is.
        self.next = current + self.step;
        if self.next >= self.count {
            self.next -= self.count;
        }
        Some(current)
    }
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_visits_everything_once() {
        for count in [0, 1, 2, 3, 32, 63, 64, 1009] {
            for seed in 0..20 {
                let mut visited: Vec<_> = Order::new(count, &mut Random::new(seed)).collect();
                visited.sort_unstable();
                assert_eq!(visited, (0..count).collect::<Vec<_>>());
            }
        }
    }

    /// The first numbers of the sequence as its authors give them (Vigna, splitmix64.c).
    #[test]
    fn the_sequence_is_that_of_splitmix64() {
        let mut random = Random::new(1_234_567);
        let found: Vec<_> = (0..5).map(|_| random.bits()).collect();
        let expected = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn numbers_below_a_bound_are_spread_evenly() {
        let mut random = Random::new(3);
        let mut counts = [0u32; 6];
        (0..60_000).for_each(|_| counts[random.below(6) as usize] += 1);
        assert!(counts.iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
    }

    #[test]
    fn steps_of_an_order_are_coprime_to_its_length() {
        let divisor = |a: u64, b: u64| {
            (1..=a.max(b)).filter(|d| a.is_multiple_of(*d) && b.is_multiple_of(*d)).max().unwrap_or_default()
        };
        for (a, b) in (1..40).flat_map(|a| (1..40).map(move |b| (a, b))) {
            assert_eq!(greatest_common_divisor(a, b), divisor(a, b), "{a} {b}");
        }
        assert_eq!(greatest_common_divisor(7, 0), 7);
    }

    #[test]
    fn a_seed_decides_the_order() {
        let order = |seed| Order::new(1009, &mut Random::new(seed)).collect::<Vec<_>>();
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
    }
}
