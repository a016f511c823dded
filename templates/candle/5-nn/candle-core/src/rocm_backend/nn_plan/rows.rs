//! Contiguous rows that teams of threads take: the host's side of `candle_rocm/rows.h`.
use crate::rocm_backend::plan::table::Element;
use crate::rocm_backend::plan::{Argument, Card, Contiguous, Pointer, Teams, PACK};

/// Contiguous rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rows {
    pub(super) count: usize,
    pub(super) length: usize,
    pub(super) element: Element,
    /// Whether every row of all operands begins and ends at a 16-byte boundary.
    pub(super) packed: bool,
    /// Whether a pack of 16 bytes, of which the first of all operands begins at a boundary, has whole rows and no other.
    pub(super) in_packs: bool,
    /// Whether every row begins and ends at a boundary of two elements, and so does every result.
    pub(super) paired: bool,
    /// Whether a row's result begins as far behind such a boundary as the row.
    pub(super) alike: bool,
}

/// `candle::Rows`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct KernelRows {
    count: u64,
    length: u64,
    width: u32,
}

// SAFETY: the same fields in the same order, with C's layout on both sides.
unsafe impl Argument for KernelRows {}

/// What a family's kernels hold, and how large their blocks are: numbers of the kernel table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Holding {
    /// Elements of a row that a thread keeps in registers where a wave or less shares it.
    pub(super) by_wave: usize,
    /// The same where a block does.
    pub(super) by_block: usize,
    pub(super) block: usize,
    pub(super) largest_block: usize,
    /// Bytes of short rows that a block has in LDS.
    pub(super) stage: usize,
}

/// Who takes the rows, and with kernels of which kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dealt {
    /// Short rows that begin anywhere: a block has so many of them in LDS at once.
    Staged(Teams, usize),
    /// Packed rows that registers hold.
    Held(Teams),
    /// Rows that registers hold and that begin anywhere.
    Unaligned(Teams),
    /// Rows that are too long for that, or whose results lie otherwise.
    Beyond,
}

/// How lanes share a row that they read in units of a few elements: numbers of the kernel table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sharing {
    /// Units that a lane reads at most where more lanes can share the row.
    pub(super) reads: usize,
    /// Lanes that share a row at least, for each byte of an element.
    pub(super) least: usize,
}

/// Bytes of a row's units that a member keeps in registers, if a unit is one element of the type that it computes in:
/// `candle::UNITS_HELD`.
const UNITS_BYTES: usize = 32;
/// Bytes of a row that a member reads at most: more are better read in whole packs.
const READ_BYTES: usize = 48;
/// Bytes of a row in LDS that a member keeps in registers, in the type that it computes in: `candle::STAGED`.
const STAGED_BYTES: usize = 32;
/// Blocks of a multiprocessor that rows in LDS are dealt to, where rows are few.
const BLOCKS_FOR_STAGES: usize = 4;

impl Rows {
    /// The rows along the last dimension of `x`. Their results begin at `y`, and parameters as long as a row at `others`;
    /// all are contiguous.
    pub(super) fn of(x: Contiguous<'_>, y: Pointer, others: &[Pointer]) -> Self {
        let length = x.shape.last().copied().unwrap_or(1);
        let mut starts = others.iter().chain([&x.start, &y]);
        let aligned = starts.all(|start| start.is_multiple_of(PACK));
        let bytes = length * x.element.size();
        Self {
            count: x.shape.iter().rev().skip(1).product::<usize>() * length.min(1),
            length,
            element: x.element,
            packed: aligned && bytes.is_multiple_of(PACK),
            in_packs: aligned && bytes != 0 && PACK.is_multiple_of(bytes),
            paired: length.is_multiple_of(2)
                && [x.start, y]
                    .iter()
                    .all(|start| start.is_multiple_of(2 * x.element.size())),
            alike: x.start.lies_like(y, PACK),
        }
    }

    /// As kernels take them.
    pub(super) fn pack(&self, teams: Teams) -> KernelRows {
        KernelRows {
            count: self.count as u64,
            length: self.length as u64,
            width: teams.width as u32,
        }
    }

    /// How the rows are dealt.
    pub(super) fn dealt(&self, holding: Holding, card: Card) -> Dealt {
        if let Some((teams, at_once)) = self.staged_teams(holding, card) {
            return Dealt::Staged(teams, at_once);
        }
        match self.held_teams(holding, card) {
            Some(teams) if self.packed => Dealt::Held(teams),
            Some(teams) => Dealt::Unaligned(teams),
            None => Dealt::Beyond,
        }
    }

    /// Blocks for all rows, which have so many `at_once` or a row to each team; `most` stride over the rest.
    pub(super) fn blocks(&self, teams: Teams, at_once: Option<usize>, most: usize) -> usize {
        match at_once {
            Some(rows) => self.count.div_ceil(rows).min(most),
            None => teams.blocks(self.count, most),
        }
    }

    /// Teams whose registers hold a row; `None` if rows are too long for a block, or their results lie otherwise.
    ///
    /// Of rows that are not packed, members have an element beside whole packs: those that `staged_teams` leaves are long
    /// enough for that.
    ///
    /// Where rows are many, a member holds as much as it can if more than a wave is needed: it has many loads under
    /// way. Where they do not fill the card, a member takes as few packs as it can while all rows are worked at at once.
    fn held_teams(&self, holding: Holding, card: Card) -> Option<Teams> {
        if !self.alike {
            return None;
        }
        let packs = (self.length * self.element.size() / PACK).max(1);
        let most = |held: usize| held * self.element.size() / PACK;
        let (of_wave, of_block) = (most(holding.by_wave), most(holding.by_block));
        let few = card.is_idle_with(self.count, holding.block);
        if packs <= card.wave_size * if few { 1 } else { of_wave } {
            return Some(Teams::of_lanes(packs, card, holding.block));
        }
        let least = packs.div_ceil(of_block).next_power_of_two();
        let mut width = if few {
            packs.next_power_of_two()
        } else {
            least
        };
        while width > least && self.count * width > card.multiprocessors * 2 * holding.largest_block
        {
            width /= 2;
        }
        let width = width.max(2 * card.wave_size).min(holding.largest_block);
        (packs <= width * of_block).then_some(Teams::of_blocks(width))
    }

    /// Teams for rows that begin anywhere, of which a block has many in LDS, and how many it has at once;
    /// `None` if the rows are packed or if the registers of a wave do not hold one.
    fn staged_teams(&self, holding: Holding, card: Card) -> Option<(Teams, usize)> {
        let held = STAGED_BYTES / self.element.wide_size();
        let members = self.length.div_ceil(held).next_power_of_two();
        if self.packed || members > card.wave_size {
            return None;
        }
        let fit = holding.stage / (self.length * self.element.size());
        // Few rows are dealt to all multiprocessors.
        let share = self
            .count
            .div_ceil(card.multiprocessors * BLOCKS_FOR_STAGES);
        let at_once = fit.min(share).max(1);
        // Where rows are few, more lanes share one.
        let width = members.max((holding.block / at_once).next_power_of_two());
        let teams = Teams::of_lanes(width, card, holding.block);
        let in_block = teams.block / teams.width;
        let rounds = (at_once / in_block).max(1);
        Some((teams, at_once.min(rounds * in_block)))
    }

    /// Teams for rows that begin anywhere, whose members read `unit` elements at a time; `None` if the rows are packed or if
    /// the registers of a wave do not hold one. Where rows are few, each member reads as little as it can.
    pub(super) fn unit_teams(
        &self,
        unit: usize,
        sharing: &Sharing,
        holding: Holding,
        card: Card,
    ) -> Option<Teams> {
        let held = UNITS_BYTES / self.element.wide_size();
        let held = held.min(READ_BYTES / (unit * self.element.size()));
        let units = self.length.div_ceil(unit);
        if self.packed || units > card.wave_size * held {
            return None;
        }
        let reads = match card.is_idle_with(self.count, holding.block) {
            true => 1,
            false => sharing.reads.min(held),
        };
        let least = sharing.least * self.element.size();
        let width = units.div_ceil(reads).max(least);
        Some(Teams::of_lanes(width, card, holding.block))
    }

    /// Teams that read their rows as often as they need them.
    pub(super) fn streamed_teams(&self, holding: Holding, card: Card) -> Teams {
        let steps = (self.length * self.element.size()).div_ceil(PACK);
        if steps <= card.wave_size * 4 {
            return Teams::of_lanes(steps, card, holding.block);
        }
        Teams::of_blocks(if steps >= 4 * holding.largest_block {
            holding.largest_block
        } else {
            holding.block
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CARD: Card = Card {
        wave_size: 64,
        multiprocessors: 104,
    };

    const HOLDING: Holding = Holding {
        by_wave: 16,
        by_block: 16,
        block: 256,
        largest_block: 1024,
        stage: 16384,
    };

    fn floats(start: Pointer, shape: &[usize]) -> Contiguous<'_> {
        Contiguous {
            start,
            element: Element::F32,
            shape,
        }
    }

    fn rows(shape: &[usize]) -> Rows {
        Rows::of(floats(Pointer::NULL, shape), Pointer::NULL, &[])
    }

    #[test]
    fn rows_lie_along_the_last_dimension() {
        for (dims, count, length) in [
            (&[3, 5, 8][..], 15, 8),
            (&[7], 1, 7),
            (&[3, 0], 0, 0),
            (&[0, 4], 0, 4),
        ] {
            let rows = rows(dims);
            assert_eq!((rows.count, rows.length), (count, length), "{dims:?}");
        }
        assert!(rows(&[3, 8]).packed);
        assert!(!rows(&[3, 7]).packed);
        let in_packs = |length| rows(&[3, length]).in_packs;
        assert_eq!(
            [0, 1, 2, 3, 4, 8].map(in_packs),
            [false, true, true, false, true, false]
        );
        let (even, odd) = (Pointer::NULL, Pointer::NULL.offset(4));
        for (start, other) in [(even, odd), (odd, even)] {
            let of = |y, others: &[Pointer]| Rows::of(floats(start, &[3, 8]), y, others);
            assert!(!of(other, &[]).packed);
            let pairs = Rows::of(floats(start, &[3, 2]), other, &[]);
            assert!(!pairs.in_packs);
            assert!(!of(start, &[other]).packed);
            assert!(of(start, &[]).alike && !of(other, &[]).alike);
            assert!(of(start.offset(32), &[]).alike);
        }
    }

    #[test]
    fn registers_hold_rows_that_are_not_too_long() {
        let held = |dims: &[usize]| {
            let teams = rows(dims).held_teams(HOLDING, CARD)?;
            Some(teams.width)
        };
        // Elements before and behind the packs do not count.
        assert_eq!(held(&[1000, 1027]), Some(64));
        assert_eq!(held(&[10, 16387]), Some(1024));
        assert_eq!(held(&[1000, 128]), Some(32));
        assert_eq!(held(&[1000, 1024]), Some(64));
        assert_eq!(held(&[1000, 1028]), Some(128));
        assert_eq!(held(&[10, 1024]), Some(256));
        assert_eq!(held(&[10, 16384]), Some(1024));
        assert_eq!(held(&[10, 16388]), None);
        // All rows at once: 104 multiprocessors have room for 208 blocks of 1024 threads.
        assert_eq!(held(&[208, 4096]), Some(1024));
        assert_eq!(held(&[209, 4096]), Some(512));
        assert_eq!(held(&[417, 4096]), Some(256), "many");
        // At least two waves: rows of 65 packs, of which a thread of a block holds four, but one of a wave just one.
        let short = Holding {
            by_wave: 4,
            ..HOLDING
        };
        let teams = rows(&[1000, 260]).held_teams(short, CARD);
        assert_eq!(teams, Some(Teams::of_blocks(128)));
    }

    #[test]
    fn blocks_have_as_many_short_rows_at_once_as_fit() {
        let staged = |dims: &[usize]| {
            let found = rows(dims).staged_teams(HOLDING, CARD);
            found.map(|(teams, at_once)| (teams.width, at_once))
        };
        // 4096 elements: a thread to a row of up to eight, and then two, four and so on.
        assert_eq!(staged(&[1 << 20, 3]), Some((1, 1280)));
        assert_eq!(staged(&[1 << 20, 7]), Some((1, 512)));
        assert_eq!(staged(&[1 << 20, 9]), Some((2, 384)));
        assert_eq!(staged(&[1 << 20, 58]), Some((8, 64)));
        // 11 rows of 361 elements, for four waves: two rounds. A wave of 64 lanes holds 512 elements.
        assert_eq!(staged(&[1 << 20, 361]), Some((64, 8)));
        assert_eq!(staged(&[1 << 20, 511]), Some((64, 8)));
        assert_eq!(staged(&[1 << 20, 513]), None);
        assert_eq!(staged(&[1 << 20, 12]), None, "in packs");
        // Few rows: 416 blocks.
        assert_eq!(staged(&[416, 9]), Some((64, 1)));
        assert_eq!(staged(&[8 * 416, 9]), Some((32, 8)));
        assert_eq!(staged(&[8 * 416 + 1, 9]), Some((32, 8)));
    }

    #[test]
    fn lanes_share_rows_of_units_evenly() {
        let sharing = Sharing { reads: 6, least: 2 };
        let shared = |dims: &[usize], unit| {
            let teams = rows(dims).unit_teams(unit, &sharing, HOLDING, CARD)?;
            Some(teams.width)
        };
        let many = 1 << 20;
        assert_eq!(shared(&[many, 13], 1), Some(8));
        assert_eq!(shared(&[many, 25], 1), Some(8));
        assert_eq!(shared(&[many, 97], 1), Some(32));
        assert_eq!(shared(&[many, 98], 2), Some(16));
        assert_eq!(shared(&[many, 12], 1), None, "in packs");
        // A lane holds eight units, and a wave has 64 lanes.
        assert_eq!(shared(&[many, 511], 1), Some(64));
        assert_eq!(shared(&[many, 513], 1), None);
        // Pairs are read six times at most.
        assert_eq!(shared(&[many, 766], 2), Some(64));
        assert_eq!(shared(&[many, 770], 2), None);
        // Few rows: an element to a lane, as far as there are lanes.
        assert_eq!(shared(&[10, 25], 1), Some(32));
        assert_eq!(shared(&[10, 97], 1), Some(64));
    }

    #[test]
    fn pairs_begin_and_end_at_boundaries() {
        let odd = Pointer::NULL.offset(4);
        let paired = |start, y, length| Rows::of(floats(start, &[3, length]), y, &[]).paired;
        assert!(paired(Pointer::NULL, Pointer::NULL, 6));
        assert!(!paired(Pointer::NULL, Pointer::NULL, 7));
        assert!(!paired(odd, Pointer::NULL, 6) && !paired(Pointer::NULL, odd, 6));
        assert!(paired(odd.offset(4), Pointer::NULL, 6));
    }

    #[test]
    fn longer_rows_are_streamed_by_more_threads() {
        let streamed = |dims: &[usize]| rows(dims).streamed_teams(HOLDING, CARD).width;
        assert_eq!(streamed(&[10, 7]), 2);
        assert_eq!(streamed(&[10, 255]), 64);
        assert_eq!(streamed(&[10, 257]), 64);
        assert_eq!(streamed(&[10, 1024]), 64);
        assert_eq!(streamed(&[10, 1028]), 256);
        assert_eq!(streamed(&[10, 16380]), 256);
        assert_eq!(streamed(&[10, 16384]), 1024);
    }
}
