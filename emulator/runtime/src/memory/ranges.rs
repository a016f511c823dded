//! Which addresses of a segment are free.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Free address ranges, neighbours merged, found by best fit.
#[derive(Debug, Default)]
pub struct FreeRanges {
    by_start: BTreeMap<usize, usize>,
    by_length: BTreeSet<(usize, usize)>,
}

impl FreeRanges {
    /// Everything in `range` is free.
    pub fn new(range: Range<usize>) -> Self {
        let mut ranges = Self::default();
        ranges.insert(range.start, range.len());
        ranges
    }

    /// Takes `length` addresses out of the smallest range that has them.
    pub fn take(&mut self, length: usize) -> Option<usize> {
        let &(found, start) = self.by_length.range((length, 0)..).next()?;
        self.remove(start, found);
        if found > length {
            self.insert(start + length, found - length);
        }
        Some(start)
    }

    /// Gives addresses back.
    pub fn give(&mut self, mut start: usize, mut length: usize) {
        if let Some((&before, &before_length)) = self.by_start.range(..start).next_back()
            && before + before_length == start
        {
            self.remove(before, before_length);
            (start, length) = (before, before_length + length);
        }
        if let Some(&after_length) = self.by_start.get(&(start + length)) {
            self.remove(start + length, after_length);
            length += after_length;
        }
        self.insert(start, length);
    }

    fn insert(&mut self, start: usize, length: usize) {
        self.by_start.insert(start, length);
        self.by_length.insert((length, start));
    }

    fn remove(&mut self, start: usize, length: usize) {
        self.by_start.remove(&start);
        self.by_length.remove(&(length, start));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_back_merges_with_both_neighbours() {
        let mut ranges = FreeRanges::new(0..100);
        let taken: Vec<_> = (0..4).map(|_| ranges.take(25).unwrap()).collect();
        assert_eq!(ranges.take(1), None);
        for index in [0, 2, 1, 3] {
            ranges.give(taken[index], 25);
        }
        assert_eq!(ranges.take(100), Some(0));
    }

    /// Against a table of every address, over many ways to take and give.
    #[test]
    fn ranges_are_the_runs_of_free_addresses() {
        use crate::random::Random;
        const SIZE: usize = 64;
        for seed in 0..200 {
            let mut random = Random::new(seed);
            let (mut ranges, mut free, mut taken) = (FreeRanges::new(0..SIZE), [true; SIZE], Vec::new());
            for _ in 0..60 {
                if random.below(2) == 0 || taken.is_empty() {
                    let length = 1 + random.below(9) as usize;
                    let runs: Vec<_> = runs(&free);
                    let best = runs.iter().filter(|run| run.len() >= length).map(Range::len).min();
                    let found = ranges.take(length);
                    assert_eq!(found.is_some(), best.is_some(), "seed {seed}");
                    let Some(start) = found else { continue };
                    assert!(runs.iter().any(|run| run.start == start && Some(run.len()) == best), "seed {seed}");
                    free[start..start + length].fill(false);
                    taken.push(start..start + length);
                } else {
                    let given: Range<usize> = taken.swap_remove(random.below(taken.len() as u64) as usize);
                    ranges.give(given.start, given.len());
                    free[given].fill(true);
                }
                let known: Vec<_> = ranges.by_start.iter().map(|(start, length)| *start..start + length).collect();
                assert_eq!(known, runs(&free), "seed {seed}");
                let lengths: BTreeSet<_> = known.iter().map(|run| (run.len(), run.start)).collect();
                assert_eq!(ranges.by_length, lengths, "seed {seed}");
            }
        }
    }

    fn runs(free: &[bool]) -> Vec<Range<usize>> {
        let starts = (0..free.len()).filter(|&at| free[at] && (at == 0 || !free[at - 1]));
        starts.map(|start| start..(start..free.len()).find(|&at| !free[at]).unwrap_or(free.len())).collect()
    }

    #[test]
    fn the_smallest_fitting_range_is_used() {
        let mut ranges = FreeRanges::new(0..10);
        ranges.give(100, 4);
        assert_eq!(ranges.take(4), Some(100));
        assert_eq!(ranges.take(5), Some(0));
    }
}
