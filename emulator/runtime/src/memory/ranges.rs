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

    #[test]
    fn the_smallest_fitting_range_is_used() {
        let mut ranges = FreeRanges::new(0..10);
        ranges.give(100, 4);
        assert_eq!(ranges.take(4), Some(100));
        assert_eq!(ranges.take(5), Some(0));
    }
}
