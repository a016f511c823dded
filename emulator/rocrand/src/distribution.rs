//! Random words as numbers of a distribution.

use std::f64::consts::TAU;

use element::Format;

use crate::philox::Words;

/// A number of (0, 1]: rocRAND excludes zero and includes one
/// (<https://rocm.docs.amd.com/projects/rocRAND/en/latest/api-reference/cpp-api.html>, `rocrand_generate_uniform`).
///
/// It has as many random bits as `format` has digits, so that it rounds to no zero.
pub fn uniform(format: Format, words: &mut Words) -> f64 {
    let (bits, random) = match format {
        Format::F16 => (11, u64::from(words.word() >> 21)),
        Format::F64 => (53, words.double_word() >> 11),
        _ => (24, u64::from(words.word() >> 8)),
    };
    (random + 1) as f64 / (1u64 << bits) as f64
}

/// A number of the standard normal distribution, of four words (Box and Muller, 1958). The other half of the pair is
/// left out, so that no number needs another one's words.
pub fn normal(words: &mut Words) -> f64 {
    let radius = (-2.0 * uniform(Format::F64, words).ln()).sqrt();
    radius * (TAU * uniform(Format::F64, words)).cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uniform_numbers_are_in_range_and_fill_it() {
        for format in [Format::F16, Format::F32, Format::F64] {
            let mut words = Words::new(1, 0);
            let numbers: Vec<_> = (0..20_000).map(|_| uniform(format, &mut words)).collect();
            assert!(numbers.iter().all(|number| *number > 0.0 && *number <= 1.0), "{format:?}");
            let mean = numbers.iter().sum::<f64>() / numbers.len() as f64;
            // Five standard deviations of the mean: 5 / sqrt(12 * 20000).
            assert!((mean - 0.5).abs() < 0.0103, "{format:?}: {mean}");
        }
    }

    #[test]
    fn every_f16_of_the_grid_occurs_one_included() {
        let mut words = Words::new(3, 0);
        let seen: std::collections::BTreeSet<_> =
            (0..60_000).map(|_| (uniform(Format::F16, &mut words) * 2048.0) as u32).collect();
        assert_eq!((seen.first(), seen.last(), seen.len()), (Some(&1), Some(&2048), 2048));
    }
}
