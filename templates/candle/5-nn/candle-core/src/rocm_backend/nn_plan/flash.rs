//! What flash attention has beside other attention: windows, slopes, and entries of different lengths.
use super::sdpa::{KernelAttention, Sizes};
use crate::rocm_backend::plan::{Argument, Divisor, Pointer};

/// Which keys a query sees: so many before its own place among the keys, and so many behind it; `None` for all of them.
/// The last query's place is the last key's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) before: Option<usize>,
    pub(crate) after: Option<usize>,
}

/// A query that sees no key has zeros as its result.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flash {
    pub(crate) window: Window,
    /// f32: what a score loses for each place between query and key, for each head.
    pub(crate) slopes: Option<Pointer>,
    pub(crate) sequences: Option<Sequences>,
}

/// Batch entries of different lengths: their queries lie one behind another, and so do their keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sequences {
    /// u32: where the queries of each begin, and the end of the last ones.
    pub(crate) queries: Pointer,
    /// The same of keys; with pages, only the differences count.
    pub(crate) keys: Pointer,
    pub(crate) count: usize,
    /// Queries and keys of an entry at most.
    pub(crate) most: [usize; 2],
    pub(crate) pages: Option<Table>,
    pub(crate) groups: Option<Table>,
}

/// So many items of each entry: the pages of its keys, u32; or groups of neighbouring keys that see each other whatever
/// the window is, i32 (first key, key behind the last).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Table {
    pub(crate) start: Pointer,
    pub(crate) of_entry: usize,
}

impl Sequences {
    /// Entries, and their queries and keys at most. With pages, `keys` are those of a page.
    pub(super) fn sizes(&self, queries: usize, pages: usize, keys: usize) -> [usize; 3] {
        let keys = match self.pages {
            None => keys,
            Some(_) if pages == 0 => 0,
            Some(table) => table.of_entry * keys,
        };
        let [of_queries, of_keys] = self.most;
        [self.count, of_queries.min(queries), of_keys.min(keys)]
    }
}

impl Flash {
    /// Of an entry.
    pub(super) fn pages(&self) -> usize {
        let pages = self.sequences.and_then(|sequences| sequences.pages);
        pages.map_or(0, |pages| pages.of_entry)
    }

    /// How many keys some of so many queries see at most; `None` if that is not known.
    pub(super) fn reach(&self, queries: usize) -> Option<usize> {
        if self
            .sequences
            .is_some_and(|sequences| sequences.groups.is_some())
        {
            return None;
        }
        let both = self.window.before?.saturating_add(self.window.after?);
        Some(both.saturating_add(queries))
    }

    /// `rows` are those of all queries, and of all keys or a page of them.
    pub(super) fn pack(
        &self,
        attention: KernelAttention,
        sizes: &Sizes,
        rows: [usize; 2],
        pages: usize,
    ) -> KernelFlash {
        let sequences = self.sequences.as_ref();
        let paged = sequences.and_then(|sequences| sequences.pages);
        let groups = sequences.and_then(|sequences| sequences.groups);
        let start = |table: Option<Table>| table.map_or(Pointer::NULL, |table| table.start);
        let of_entry = |table: Option<Table>| table.map_or(0, |table| table.of_entry as u32);
        let extent = |starts: Option<Pointer>, total: usize, most: usize| Extent {
            starts: starts.unwrap_or(Pointer::NULL),
            total: total as u32,
            most: most as u32,
        };
        let keys = if paged.is_some() {
            u32::MAX as usize
        } else {
            rows[1]
        };
        let reach =
            |keys: Option<usize>| keys.map_or(u32::MAX, |keys| keys.try_into().unwrap_or(u32::MAX));
        // Results are contiguous: (batch, queries, heads, columns).
        let step = (sizes.heads * sizes.columns) as i64;
        let (attention, entry_step) = match sequences {
            None => (attention, rows[0] as i64 * step),
            Some(_) => (attention.without_steps(paged.is_some()), 0),
        };
        KernelFlash {
            attention,
            y: [entry_step, sizes.columns as i64, step],
            queries: extent(sequences.map(|s| s.queries), rows[0], sizes.queries),
            keys: extent(sequences.map(|s| s.keys), keys, sizes.keys),
            table: start(paged),
            groups: start(groups),
            slopes: self.slopes.unwrap_or(Pointer::NULL),
            pages_of_entry: of_entry(paged),
            pages: pages as u32,
            groups_of_entry: of_entry(groups),
            page: Divisor::of(rows[1].max(1)),
            before: reach(self.window.before),
            after: reach(self.window.after),
        }
    }
}

/// `candle::Extent`.
#[repr(C)]
struct Extent {
    starts: Pointer,
    total: u32,
    most: u32,
}

/// `candle::Flash`.
#[repr(C)]
pub(super) struct KernelFlash {
    attention: KernelAttention,
    y: [i64; 3],
    queries: Extent,
    keys: Extent,
    table: Pointer,
    groups: Pointer,
    slopes: Pointer,
    pages_of_entry: u32,
    pages: u32,
    groups_of_entry: u32,
    page: Divisor,
    before: u32,
    after: u32,
}

// SAFETY: the same fields in the same order, with C's layout on both sides.
unsafe impl Argument for KernelFlash {}

#[cfg(test)]
mod tests {
    use super::*;

    const SEQUENCES: Sequences = Sequences {
        queries: Pointer::NULL,
        keys: Pointer::NULL,
        count: 3,
        most: [5, 70],
        pages: None,
        groups: None,
    };
    const TABLE: Table = Table {
        start: Pointer::NULL,
        of_entry: 4,
    };

    #[test]
    fn a_sequence_has_no_more_rows_than_there_are() {
        assert_eq!(SEQUENCES.sizes(100, 1, 200), [3, 5, 70]);
        assert_eq!(SEQUENCES.sizes(4, 1, 60), [3, 4, 60]);
        let paged = Sequences {
            pages: Some(TABLE),
            ..SEQUENCES
        };
        assert_eq!(paged.sizes(100, 9, 32), [3, 5, 70]);
        assert_eq!(paged.sizes(100, 9, 16), [3, 5, 64]);
        assert_eq!(paged.sizes(100, 0, 16), [3, 5, 0], "no page to read from");
    }

    #[test]
    fn windows_bound_what_is_seen() {
        let flash = |before, after, groups| Flash {
            window: Window { before, after },
            slopes: None,
            sequences: Some(Sequences {
                groups,
                ..SEQUENCES
            }),
        };
        assert_eq!(flash(Some(9), Some(2), None).reach(4), Some(15));
        assert_eq!(
            flash(Some(usize::MAX), Some(2), None).reach(4),
            Some(usize::MAX)
        );
        assert_eq!(flash(None, Some(0), None).reach(4), None);
        assert_eq!(flash(Some(9), None, None).reach(4), None);
        assert_eq!(flash(Some(9), Some(2), Some(TABLE)).reach(4), None);
    }
}
