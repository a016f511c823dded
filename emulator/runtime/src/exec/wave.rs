//! Operations among the lanes of a wave, once every lane of it waits or has returned.

use crate::module::abi::{Barrier, CrossLane};

/// What a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// All threads of the block.
    Barrier {
        /// What it returns.
        kind: Barrier,
        /// The thread's contribution.
        predicate: bool,
        /// Source line.
        line: u32,
    },
    /// The lanes of the wave.
    CrossLane(Exchange),
}

/// A lane's part in a shuffle or vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// What is asked.
    pub operation: CrossLane,
    /// The value that the lane offers; 0 or 1 for a vote.
    pub value: u64,
    /// Source lane, distance or mask of a shuffle.
    pub operand: i32,
    /// Lanes of a segment of the wave.
    pub width: i32,
    /// Lanes that the program expects to take part.
    pub mask: u64,
    /// Source line.
    pub line: u32,
}

/// Why an operation among lanes has no defined result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Divergence {
    /// Lanes wait for different operations, or for the same at different lines.
    Different(Exchange, Exchange),
    /// A lane reads from one that takes no part.
    InactiveSource {
        /// The lane that reads.
        lane: usize,
        /// The lane that it reads from.
        source: usize,
        /// What it asked.
        exchange: Exchange,
    },
    /// The mask of a `_sync` operation names a lane that takes no part.
    AbsentFromMask {
        /// That lane.
        lane: usize,
        /// What the others asked.
        exchange: Exchange,
    },
    /// The width is no power of two or more than a wave.
    Width(Exchange),
}

/// The results of all lanes that wait for an operation among lanes, by lane. `lanes` has what each lane asks; nothing
/// for one that waits at a barrier or has returned, which gets no result.
///
/// # Errors
/// When the lanes diverge.
pub fn resolve(lanes: &[Option<&Exchange>], wave_size: usize) -> Result<Vec<(usize, u64)>, Divergence> {
    let participants = || lanes.iter().enumerate().filter_map(|(lane, asked)| Some((lane, (*asked)?)));
    let Some((_, first)) = participants().next() else { return Ok(Vec::new()) };
    let (mut votes, mut active) = (0, 0);
    for (lane, asked) in participants() {
        if (asked.operation, asked.line) != (first.operation, first.line) {
            return Err(Divergence::Different(*first, *asked));
        }
        active |= 1 << lane;
        votes |= (asked.value & 1) << lane;
    }
    let of_wave = u64::MAX >> (u64::BITS as usize - wave_size);
    for (_, asked) in participants().filter(|(_, asked)| asked.mask != u64::MAX) {
        let absent = asked.mask & of_wave & !active;
        if absent != 0 {
            return Err(Divergence::AbsentFromMask { lane: absent.trailing_zeros() as usize, exchange: *asked });
        }
    }
    let result = |(lane, asked): (usize, &Exchange)| {
        let value = match asked.operation {
            CrossLane::Ballot => votes,
            CrossLane::Any => u64::from(votes != 0),
            CrossLane::All => u64::from(votes == active),
            CrossLane::Synchronize => 0,
            CrossLane::Shuffle | CrossLane::ShuffleUp | CrossLane::ShuffleDown | CrossLane::ShuffleXor => {
                let source = source_of(lane, asked, wave_size).ok_or(Divergence::Width(*asked))?;
                let read = lanes.get(source).copied().flatten();
                read.ok_or(Divergence::InactiveSource { lane, source, exchange: *asked })?.value
            }
        };
        Ok((lane, value))
    };
    let mut results = Vec::with_capacity(lanes.len());
    for participant in participants() {
        results.push(result(participant)?);
    }
    Ok(results)
}

/// The lane that a shuffle reads from, or none if the width has no meaning.
///
/// As HIP defines them: lanes outside of the segment of `width` lanes are never read; the lane's own value is.
fn source_of(lane: usize, exchange: &Exchange, wave_size: usize) -> Option<usize> {
    let width = usize::try_from(exchange.width).ok().filter(|width| width.is_power_of_two() && *width <= wave_size)?;
    let segment = lane & !(width - 1);
    let (lane, operand) = (lane as i64, i64::from(exchange.operand));
    let source = match exchange.operation {
        CrossLane::Shuffle => return Some(segment + (exchange.operand as usize & (width - 1))),
        CrossLane::ShuffleUp => lane - operand,
        CrossLane::ShuffleDown => lane + operand,
        _ => lane ^ operand,
    };
    let end = (segment + width) as i64;
    let below = exchange.operation != CrossLane::ShuffleXor && source < segment as i64;
    Some(if below || source >= end || source < 0 { lane } else { source } as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchange(operation: CrossLane, value: u64, operand: i32, width: i32) -> Exchange {
        Exchange { operation, value, operand, width, mask: u64::MAX, line: 1 }
    }

    /// `resolve` for lanes of which `None` takes no part.
    fn resolved(lanes: &[Option<Exchange>], wave_size: usize) -> Result<Vec<(usize, u64)>, Divergence> {
        resolve(&lanes.iter().map(Option::as_ref).collect::<Vec<_>>(), wave_size)
    }

    fn shuffle(operation: CrossLane, operand: i32, width: i32, wave_size: usize) -> Vec<u64> {
        let lanes: Vec<_> = (0..wave_size).map(|lane| Some(exchange(operation, lane as u64, operand, width))).collect();
        resolved(&lanes, wave_size).unwrap().into_iter().map(|(_, value)| value).collect()
    }

    #[test]
    fn shuffles_stay_inside_their_segment() {
        assert_eq!(shuffle(CrossLane::Shuffle, 3, 8, 32)[..10], [3, 3, 3, 3, 3, 3, 3, 3, 11, 11]);
        assert_eq!(shuffle(CrossLane::Shuffle, 35, 32, 32)[0], 3);
        assert_eq!(shuffle(CrossLane::ShuffleUp, 2, 4, 32)[..8], [0, 1, 0, 1, 4, 5, 4, 5]);
        assert_eq!(shuffle(CrossLane::ShuffleDown, 2, 4, 32)[..8], [2, 3, 2, 3, 6, 7, 6, 7]);
        assert_eq!(shuffle(CrossLane::ShuffleXor, 1, 32, 32)[..4], [1, 0, 3, 2]);
        assert_eq!(shuffle(CrossLane::ShuffleXor, 4, 4, 32)[..8], [0, 1, 2, 3, 0, 1, 2, 3]);
        assert_eq!(shuffle(CrossLane::ShuffleXor, 32, 64, 64)[0], 32);
    }

    /// The lanes from which a whole wave reads, segment by segment.
    fn read_from(operation: CrossLane, operand: i32, width: usize, wave_size: usize) -> Vec<u64> {
        let lanes: Vec<_> = (0..wave_size as i64).collect();
        let segments = lanes.chunks(width).flat_map(|segment| {
            segment.iter().enumerate().map(|(place, &own)| {
                let other = match operation {
                    CrossLane::Shuffle => segment.get(operand.rem_euclid(width as i32) as usize),
                    CrossLane::ShuffleUp => place.checked_sub(operand as usize).map(|from| &segment[from]),
                    CrossLane::ShuffleDown => segment.get(place + operand as usize),
                    // It may leave its segment downwards.
                    _ => lanes.iter().find(|&&lane| lane == own ^ i64::from(operand) && lane <= segment[width - 1]),
                };
                *other.unwrap_or(&own) as u64
            })
        });
        segments.collect()
    }

    #[test]
    fn every_lane_reads_from_the_lane_of_the_definition() {
        for wave_size in [32, 64] {
            for width in (0..=6).map(|power| 1 << power).filter(|width| *width <= wave_size) {
                for operand in [0, 1, 2, 3, 5, 7, 8, 15, 16, 31, 32, 33, 63] {
                    use CrossLane::{Shuffle, ShuffleDown, ShuffleUp, ShuffleXor};
                    for operation in [Shuffle, ShuffleUp, ShuffleDown, ShuffleXor] {
                        let expected = read_from(operation, operand, width, wave_size);
                        let found = shuffle(operation, operand, width as i32, wave_size);
                        assert_eq!(found, expected, "{operation:?} {operand} of {width} in {wave_size}");
                    }
                }
                for operand in [-1, -3, i32::MIN] {
                    let own: Vec<_> = (0..wave_size as u64).collect();
                    assert_eq!(shuffle(CrossLane::ShuffleXor, operand, width as i32, wave_size), own);
                }
                assert_eq!(shuffle(CrossLane::Shuffle, -1, width as i32, wave_size)[0], width as u64 - 1);
            }
        }
    }

    #[test]
    fn lanes_that_take_no_part_get_nothing() {
        let waits = Some(exchange(CrossLane::Synchronize, 7, 0, 0));
        assert_eq!(resolved(&[None, waits, None, waits], 32), Ok(vec![(1, 0), (3, 0)]));
        assert_eq!(resolved(&[None, None], 32), Ok(Vec::new()));
    }

    #[test]
    fn votes_count_active_lanes_only() {
        let vote = |operation, value| Some(exchange(operation, value, 0, 0));
        let lanes = |operation| [vote(operation, 1), None, vote(operation, 0), vote(operation, 1)];
        let results = |operation| resolved(&lanes(operation), 32).unwrap();
        assert_eq!(results(CrossLane::Ballot), [(0, 0b1001), (2, 0b1001), (3, 0b1001)]);
        assert_eq!(results(CrossLane::Any)[0].1, 1);
        assert_eq!(results(CrossLane::All)[0].1, 0);
        assert_eq!(resolved(&[vote(CrossLane::All, 1), None], 32).unwrap(), [(0, 1)]);
    }

    #[test]
    fn lanes_at_different_operations_diverge() {
        let xor = exchange(CrossLane::ShuffleXor, 0, 1, 32);
        let elsewhere = Exchange { line: 2, ..xor };
        assert_eq!(resolved(&[Some(xor), Some(elsewhere)], 32), Err(Divergence::Different(xor, elsewhere)));
        let other = Exchange { operation: CrossLane::ShuffleUp, ..xor };
        assert_eq!(resolved(&[Some(xor), Some(xor), Some(other)], 32), Err(Divergence::Different(xor, other)));
    }

    #[test]
    fn reading_a_lane_that_takes_no_part_is_reported() {
        let xor = exchange(CrossLane::ShuffleXor, 0, 1, 32);
        let expected = Divergence::InactiveSource { lane: 0, source: 1, exchange: xor };
        assert_eq!(resolved(&[Some(xor), None], 32), Err(expected));
    }

    #[test]
    fn a_mask_names_who_must_take_part() {
        let vote = Exchange { mask: 0b111, ..exchange(CrossLane::Ballot, 1, 0, 0) };
        let lanes = [Some(vote), Some(vote), None];
        assert_eq!(resolved(&lanes, 32), Err(Divergence::AbsentFromMask { lane: 2, exchange: vote }));
        // Lanes that the mask does not name may take part; beyond the wave it names nobody.
        for mask in [0b11, 0b01, 0b10 | 1 << 32] {
            let vote = Exchange { mask, ..vote };
            assert_eq!(resolved(&[Some(vote), Some(vote), None], 32), Ok(vec![(0, 0b11), (1, 0b11)]));
        }
        let vote = Exchange { mask: 0b101, ..vote };
        let absent = Err(Divergence::AbsentFromMask { lane: 0, exchange: vote });
        assert_eq!(resolved(&[None, Some(vote), Some(vote)], 32), absent);
    }

    #[test]
    fn a_width_is_a_power_of_two_up_to_the_wave() {
        for (width, wave_size) in [(0, 32), (24, 32), (64, 32), (-1, 64)] {
            let asked = exchange(CrossLane::Shuffle, 0, 0, width);
            assert_eq!(resolved(&[Some(asked)], wave_size), Err(Divergence::Width(asked)));
        }
    }
}
