//! Softmax along the last dimension.
use super::rows::{Dealt, Holding, Rows, Sharing};
use crate::rocm_backend::plan::table::{softmax as table, Element};
use crate::rocm_backend::plan::{
    Contiguous, Kernel, Launch, Launcher, Pointer, Teams, Tuning, PACK,
};

/// Writes exp(x) over the sum of exp(x) along the last dimension to `y`, contiguously.
pub(crate) fn softmax<L: Launcher>(
    launcher: &L,
    x: Contiguous<'_>,
    y: Pointer,
) -> Result<(), L::Error> {
    let softmax = Softmax {
        launcher,
        y,
        x: x.start,
        rows: Rows::of(x, y, &[]),
    };
    let (rows, types) = (&softmax.rows, [x.element]);
    if rows.count == 0 {
        return Ok(());
    }
    let (card, tuning) = (launcher.card(), launcher.tuning());
    let holding = holding(rows, tuning);
    let blocks = card.multiprocessors * table::BLOCKS_PER_PROCESSOR.on(tuning);
    let held = |teams: Teams| match x.element.size() == 2 && teams.width > card.wave_size {
        true => &table::SOFTMAX_PACKED,
        false => &table::SOFTMAX,
    };
    if rows.in_packs {
        return softmax.of_packs(table::SOFTMAX.form(table::FORM_SHORT, &types)?);
    }
    if rows.length >= table::UNITS {
        let (op, unit) = match rows.paired {
            true => (&table::SOFTMAX_PAIRED, 2),
            false => (&table::SOFTMAX, 1),
        };
        if let Some(teams) = rows.unit_teams(unit, &SHARING, holding, card) {
            let kernel = op.form(table::FORM_SINGLE, &types)?;
            return softmax.of_rows(kernel, teams, None);
        }
    }
    match rows.dealt(holding, card) {
        Dealt::Staged(teams, at_once) => {
            let kernel = table::SOFTMAX.form(table::FORM_STAGED, &types)?;
            softmax.of_rows(kernel, teams, Some(at_once))
        }
        Dealt::Held(teams) => {
            softmax.of_rows(held(teams).form(table::FORM_HELD, &types)?, teams, None)
        }
        Dealt::Unaligned(teams) => softmax.of_rows(
            held(teams).form(table::FORM_UNALIGNED, &types)?,
            teams,
            None,
        ),
        Dealt::Beyond => match chunks(rows, blocks) {
            Some(chunks) => {
                let totals = table::SOFTMAX.form(table::FORM_TOTALS, &types)?;
                let results = table::SOFTMAX.form(table::FORM_CHUNKS, &types)?;
                softmax.of_chunks(totals, results, &chunks)
            }
            None => {
                let kernel = table::SOFTMAX.form(table::FORM_STREAMED, &types)?;
                softmax.of_rows(kernel, rows.streamed_teams(holding, card), None)
            }
        },
    }
}

/// How lanes share a row that they read in units.
const SHARING: Sharing = Sharing {
    reads: table::UNIT_READS,
    least: table::LEAST_TEAM,
};

fn holding(rows: &Rows, tuning: Tuning) -> Holding {
    let (by_wave, by_block) = match rows.element {
        Element::F64 => (table::HELD_F64, table::HELD_F64),
        Element::F16 | Element::BF16 if rows.packed => (table::HELD_16, table::HELD_PACKED),
        Element::F16 | Element::BF16 => (table::HELD_16, table::UNALIGNED_PACKED),
        _ if rows.packed => (table::HELD.on(tuning), table::HELD.on(tuning)),
        _ => (table::UNALIGNED.on(tuning), table::UNALIGNED.on(tuning)),
    };
    Holding {
        by_wave,
        by_block,
        block: table::BLOCK,
        largest_block: table::LARGEST_BLOCK,
        stage: table::STAGE,
    }
}

/// The rows cut into chunks, as many as `blocks`, where they are long and too few to keep the card busy; `None` where
/// they are not.
fn chunks(rows: &Rows, blocks: usize) -> Option<Rows> {
    let in_row = (blocks / rows.count).min(rows.length.div_ceil(table::LEAST_CHUNK));
    if in_row < 2 {
        return None;
    }
    let lanes = PACK / rows.element.size();
    let length = rows.length.div_ceil(in_row * lanes) * lanes;
    Some(Rows {
        count: rows.count * rows.length.div_ceil(length),
        length,
        ..*rows
    })
}

/// The rows to compute, their input and the result.
struct Softmax<'a, L> {
    launcher: &'a L,
    y: Pointer,
    x: Pointer,
    rows: Rows,
}

impl<L: Launcher> Softmax<'_, L> {
    /// A pack with whole rows to each thread.
    fn of_packs(&self, kernel: Kernel) -> Result<(), L::Error> {
        let rows = &self.rows;
        let packs = (rows.count * rows.length * rows.element.size()).div_ceil(PACK);
        let blocks = packs
            .div_ceil(table::BLOCK)
            .min(self.launcher.limits().blocks);
        let (count, length) = (rows.count as u64, rows.length as u32);
        let launch = Launch::new(self.launcher, kernel).threads(blocks, table::BLOCK);
        let launch = launch.arg(&self.y).arg(&self.x).arg(&count).arg(&length);
        // SAFETY: the arguments of short kernels; x and y begin at packs, and have an element for each of the rows'.
        unsafe { launch.enqueue() }
    }

    /// A team to each row, `at_once` of those that a block has in LDS.
    fn of_rows(
        &self,
        kernel: Kernel,
        teams: Teams,
        at_once: Option<usize>,
    ) -> Result<(), L::Error> {
        let rows = self.rows.pack(teams);
        let blocks = self
            .rows
            .blocks(teams, at_once, self.launcher.limits().blocks);
        let at_once = at_once.map(|rows| rows as u32);
        let launch = Launch::new(self.launcher, kernel).threads(blocks, teams.block);
        let launch = launch.arg(&self.y).arg(&self.x).arg(&rows);
        let launch = at_once.iter().fold(launch, Launch::arg);
        // SAFETY: the arguments of held, staged and streamed kernels; x and y have an element for each of the rows', and
        // so many rows fit into a block's LDS.
        unsafe { launch.enqueue() }
    }

    /// A block to each chunk: first the largest element and the sum of every chunk, then the results.
    fn of_chunks(&self, totals: Kernel, results: Kernel, chunks: &Rows) -> Result<(), L::Error> {
        let launcher = self.launcher;
        let teams = Teams::of_blocks(table::CHUNK_BLOCK.on(launcher.tuning()));
        let blocks = teams.blocks(chunks.count, launcher.limits().blocks);
        let size = 2 * chunks.element.wide_size();
        let (_memory, total) = launcher.workspace(chunks.count * size)?;
        let length = self.rows.length as u64;
        let in_row = (chunks.count / self.rows.count) as u32;
        let packed = chunks.pack(teams);
        let launch = Launch::new(launcher, totals).threads(blocks, teams.block);
        let launch = launch.arg(&total).arg(&self.x);
        let launch = launch.arg(&length).arg(&in_row).arg(&packed);
        // SAFETY: the arguments of totals kernels; there is room for two numbers of every chunk.
        unsafe { launch.enqueue() }?;
        let launch = Launch::new(launcher, results).threads(blocks, teams.block);
        let launch = launch.arg(&self.y).arg(&self.x).arg(&total);
        let launch = launch.arg(&length).arg(&in_row).arg(&packed);
        // SAFETY: the arguments of chunks kernels; x and y have an element for each of the rows', and the workspace lasts
        // until the launches that are queued before its end.
        unsafe { launch.enqueue() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rocm_backend::plan::testing::Recorder;
    use crate::rocm_backend::plan::{Card, Limits, Refusal};

    /// A tensor of this shape at an aligned address.
    fn of(shape: &[usize], element: Element) -> Contiguous<'_> {
        Contiguous {
            start: Pointer::NULL,
            element,
            shape,
        }
    }

    /// The count and length of rows' chunks, where 16 blocks keep the card busy.
    fn chunked(shape: &[usize], element: Element) -> Option<(usize, usize)> {
        let chunks = chunks(&Rows::of(of(shape, element), Pointer::NULL, &[]), 16)?;
        Some((chunks.count, chunks.length))
    }

    #[test]
    fn few_long_rows_are_cut_into_whole_packs() {
        assert_eq!(
            chunked(&[1, table::LEAST_CHUNK], Element::F32),
            None,
            "short"
        );
        assert_eq!(chunked(&[9, 1 << 20], Element::F32), None, "many");
        assert_eq!(chunked(&[8, 1 << 20], Element::F32), Some((16, 1 << 19)));
        assert_eq!(chunked(&[1, 1 << 20], Element::F32), Some((16, 1 << 16)));
        assert_eq!(chunked(&[1, 32770], Element::F32), Some((3, 10924)));
        assert_eq!(chunked(&[1, 32770], Element::BF16), Some((3, 10928)));
    }

    /// A card of waves of 64 lanes.
    fn recorder(multiprocessors: usize) -> Recorder {
        Recorder::of(Card {
            wave_size: 64,
            multiprocessors,
        })
    }

    /// The symbols, blocks and threads of a block that the softmax of this shape takes.
    fn launched(
        recorder: &Recorder,
        element: Element,
        shape: &[usize],
    ) -> Result<Vec<(String, u32, u32)>, Refusal> {
        softmax(recorder, of(shape, element), Pointer::NULL)?;
        let launches = recorder.launches.take();
        assert!(launches.iter().all(|launch| launch.grid[1..] == [1, 1]));
        Ok(launches
            .into_iter()
            .map(|launch| (launch.symbol, launch.grid[0], launch.block[0]))
            .collect())
    }

    /// The symbols that the softmax of a row takes on a large card.
    fn kernels(element: Element, length: usize) -> Result<Vec<String>, Refusal> {
        let launches = launched(&recorder(104), element, &[1, length])?;
        Ok(launches.into_iter().map(|(symbol, ..)| symbol).collect())
    }

    #[test]
    fn kernels_suit_the_rows() -> Result<(), Refusal> {
        use Element::{BF16, F16, F32, F64};
        // A pack has such rows, up to a row of its own.
        for length in [1, 2, 8] {
            assert_eq!(kernels(F16, length)?, ["softmax_f16_short"]);
            assert_eq!(kernels(BF16, length)?, ["softmax_bf16_short"]);
        }
        assert_eq!(kernels(F32, 4)?, ["softmax_f32_short"]);
        assert_eq!(kernels(F64, 2)?, ["softmax_f64_short"]);
        assert_eq!(kernels(F32, 3)?, ["softmax_f32_staged"]);
        assert_eq!(kernels(F32, 8)?, ["softmax_f32_held"]);
        // A wave holds a row of a pack for each lane; more lanes are several waves, of which 16-bit floats have kernels
        // of their own.
        assert_eq!(kernels(F16, 64 * 8)?, ["softmax_f16_held"]);
        assert_eq!(kernels(F16, 64 * 8 + 8)?, ["softmax_packed_f16_held"]);
        assert_eq!(kernels(BF16, 64 * 16)?, ["softmax_packed_bf16_held"]);
        assert_eq!(kernels(F32, 64 * 8)?, ["softmax_f32_held"]);
        assert_eq!(kernels(F64, 64 * 8)?, ["softmax_f64_held"]);
        // No packs: in LDS if they are short, in units as long as a wave holds a row, then in registers as well.
        assert_eq!(kernels(F16, 31)?, ["softmax_f16_staged"]);
        assert_eq!(kernels(F16, 33)?, ["softmax_f16_single"]);
        assert_eq!(kernels(F16, 34)?, ["softmax_paired_f16_single"]);
        assert_eq!(kernels(F32, 511)?, ["softmax_f32_single"]);
        assert_eq!(kernels(F16, 1022)?, ["softmax_paired_f16_single"]);
        assert_eq!(kernels(F32, 766)?, ["softmax_paired_f32_single"]);
        assert_eq!(kernels(F32, 770)?, ["softmax_f32_unaligned"]);
        assert_eq!(kernels(F64, 257)?, ["softmax_f64_unaligned"]);
        assert_eq!(kernels(F16, 513)?, ["softmax_f16_unaligned"]);
        assert_eq!(kernels(F16, 1001)?, ["softmax_packed_f16_unaligned"]);
        assert_eq!(kernels(F32, 513)?, ["softmax_f32_unaligned"]);
        assert_eq!(kernels(F64, 8 * 1024 + 1)?, ["softmax_f64_unaligned"]);
        assert_eq!(kernels(F64, 8 * 1024 + 3)?, ["softmax_f64_streamed"]);
        // Rows longer than 1024 threads hold: in chunks, if they are few.
        let longest = 1024 * table::HELD.on(Tuning::of("any"));
        assert_eq!(kernels(F32, longest)?, ["softmax_f32_held"]);
        let chunks = ["softmax_f32_totals", "softmax_f32_chunks"];
        assert_eq!(kernels(F32, longest + 4)?, chunks);
        assert_eq!(kernels(F64, 8 * 1024)?, ["softmax_f64_held"]);
        assert_eq!(kernels(F64, 8 * 1024 + 2)?, ["softmax_f64_streamed"]);
        assert_eq!(kernels(F16, 64 * 1024)?, ["softmax_packed_f16_held"]);
        assert_eq!(kernels(F16, 64 * 1024 + 8)?[0], "softmax_f16_totals");
        for nothing in [[3, 0], [0, 3]] {
            assert_eq!(launched(&recorder(104), F32, &nothing)?, []);
        }
        assert!(kernels(Element::U8, 64).is_err());
        Ok(())
    }

    #[test]
    fn long_rows_of_many_are_streamed() -> Result<(), Refusal> {
        // Of two multiprocessors with four blocks each, five rows would get one block each.
        let long = 1 << 20;
        let few = launched(&recorder(2), Element::F32, &[4, long])?;
        assert_eq!(few[0], ("softmax_f32_totals".into(), 8, 256));
        let many = launched(&recorder(2), Element::F32, &[5, long])?;
        assert_eq!(many, [("softmax_f32_streamed".into(), 5, 1024)]);
        Ok(())
    }

    #[test]
    fn every_pack_has_a_thread() -> Result<(), Refusal> {
        let blocks = |shape: &[usize]| launched(&recorder(104), Element::F16, shape);
        let of = |blocks| [("softmax_f16_short".to_owned(), blocks, 256)];
        assert_eq!(blocks(&[1, 2])?, of(1));
        assert_eq!(blocks(&[1024, 2])?, of(1));
        assert_eq!(blocks(&[1025, 2])?, of(2));
        let mut recorder = recorder(104);
        recorder.limits = Limits {
            blocks: 50,
            ..Limits::USUAL
        };
        assert_eq!(launched(&recorder, Element::F16, &[1 << 20, 2])?, of(50));
        Ok(())
    }

    #[test]
    fn every_row_has_a_team() -> Result<(), Refusal> {
        // 11 packs are 16 lanes, and a block has 16 teams of these.
        let rows = launched(&recorder(104), Element::F32, &[1000, 44])?;
        assert_eq!(rows, [("softmax_f32_held".into(), 63, 256)]);
        // Blocks stride over the rest.
        let mut recorder = recorder(104);
        recorder.limits = Limits {
            blocks: 50,
            ..Limits::USUAL
        };
        let rows = launched(&recorder, Element::F32, &[1000, 44])?;
        assert_eq!(rows, [("softmax_f32_held".into(), 50, 256)]);
        Ok(())
    }

    #[test]
    fn a_chunk_has_room_for_two_numbers() -> Result<(), Refusal> {
        for (element, size) in [(Element::F32, 4), (Element::BF16, 4), (Element::F64, 8)] {
            let (recorder, chunks) = (recorder(104), 20);
            launched(&recorder, element, &[1, chunks * table::LEAST_CHUNK])?;
            assert_eq!(recorder.workspaces.take(), [chunks * 2 * size]);
        }
        Ok(())
    }
}
