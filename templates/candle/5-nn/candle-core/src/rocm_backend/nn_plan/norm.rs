//! Normalisations along the last dimension.
use super::rows::{Dealt, Holding, Rows};
use crate::rocm_backend::plan::table::{norm as table, Element};
use crate::rocm_backend::plan::{Contiguous, Launch, Launcher, Op, Pointer, Tuning};

/// Writes x's rows, normalized by `op`, to `y`, contiguously. `parameters` are those of the op, vectors as long as a row;
/// a null pointer stands for ones, or zeros where they are added.
pub(crate) fn norm<L: Launcher>(
    launcher: &L,
    op: &Op,
    x: Contiguous<'_>,
    parameters: &[Pointer],
    eps: f32,
    y: Pointer,
) -> Result<(), L::Error> {
    let rows = Rows::of(x, y, parameters);
    if rows.count == 0 {
        return Ok(());
    }
    let card = launcher.card();
    let holding = holding(x.element, launcher.tuning());
    let (form, teams, at_once) = match rows.dealt(holding, card) {
        Dealt::Staged(teams, at_once) => (table::FORM_STAGED, teams, Some(at_once)),
        Dealt::Held(teams) => (table::FORM_HELD, teams, None),
        Dealt::Unaligned(teams) => (table::FORM_UNALIGNED, teams, None),
        Dealt::Beyond => {
            let teams = rows.streamed_teams(holding, card);
            (table::FORM_STREAMED, teams, None)
        }
    };
    let kernel = op.form(form, &[x.element])?;
    let packed = rows.pack(teams);
    let blocks = rows.blocks(teams, at_once, launcher.limits().blocks);
    let at_once = at_once.map(|rows| rows as u32);
    let launch = Launch::new(launcher, kernel).threads(blocks, teams.block);
    let launch = launch.arg(&y).arg(&x.start);
    let launch = parameters
        .iter()
        .fold(launch, |launch, vector| launch.arg(vector));
    let launch = launch.arg(&eps).arg(&packed);
    let launch = at_once.iter().fold(launch, Launch::arg);
    // SAFETY: the arguments of the op's kernels; x and y have an element for each of the rows', and the parameters are as
    // long as a row. Of rows that a block has in LDS, so many fit there.
    unsafe { launch.enqueue() }
}

/// x + other to `sum`, and the sum's rows, normalized by their root of the mean square and times `alpha`, to `y`; all are
/// contiguous. False, and nothing is launched, for rows that do not lie at boundaries of 16 bytes or that a block's
/// registers do not hold.
pub(crate) fn add_rms_norm<L: Launcher>(
    launcher: &L,
    x: Contiguous<'_>,
    [other, alpha]: [Pointer; 2],
    eps: f32,
    [sum, y]: [Pointer; 2],
) -> Result<bool, L::Error> {
    let rows = Rows::of(x, y, &[other, alpha, sum]);
    if rows.count == 0 {
        return Ok(true);
    }
    let card = launcher.card();
    let Dealt::Held(teams) = rows.dealt(holding(x.element, launcher.tuning()), card) else {
        return Ok(false);
    };
    let kernel = table::ADD_RMS_NORM.form(table::FORM_HELD, &[x.element])?;
    let blocks = rows.blocks(teams, None, launcher.limits().blocks);
    let packed = rows.pack(teams);
    let launch = Launch::new(launcher, kernel).threads(blocks, teams.block);
    let launch = launch.arg(&y).arg(&sum).arg(&x.start).arg(&other);
    let launch = launch.arg(&alpha).arg(&eps).arg(&packed);
    // SAFETY: the arguments of the op's kernels; x, other, sum and y have an element for each of the rows', and alpha is as
    // long as a row.
    unsafe { launch.enqueue() }?;
    Ok(true)
}

fn holding(element: Element, tuning: Tuning) -> Holding {
    let held = match element {
        Element::F64 => table::HELD_F64,
        Element::F16 | Element::BF16 => table::HELD_16.on(tuning),
        _ => table::HELD,
    };
    Holding {
        by_wave: held,
        by_block: held,
        block: table::BLOCK,
        largest_block: table::LARGEST_BLOCK,
        stage: table::STAGE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rocm_backend::plan::testing::Recorder;
    use crate::rocm_backend::plan::{Card, Refusal};

    const CARD: Card = Card {
        wave_size: 64,
        multiprocessors: 104,
    };

    /// The kernel that normalizes one row of so many elements, where the parameter begins at an address.
    fn kernel_at(element: Element, length: usize, parameter: usize) -> Result<String, Refusal> {
        let recorder = Recorder::of(CARD);
        let x = Contiguous {
            start: Pointer::NULL,
            element,
            shape: &[1, length],
        };
        let alpha = Pointer::NULL.offset(parameter);
        norm(&recorder, &table::RMS_NORM, x, &[alpha], 1e-5, x.start)?;
        let launches = recorder.launches.take();
        assert_eq!(launches.len(), 1);
        Ok(launches[0].symbol.clone())
    }

    #[test]
    fn registers_hold_a_row_of_each_type() -> Result<(), Refusal> {
        let narrow = table::HELD_16.on(Tuning::of("any"));
        for (element, held, pack) in [
            (Element::F64, table::HELD_F64, 2),
            (Element::F32, table::HELD, 4),
            (Element::F16, narrow, 8),
            (Element::BF16, narrow, 8),
        ] {
            let longest = held * table::LARGEST_BLOCK;
            let name = element.name();
            let of = |form| format!("rms_norm_{name}_{form}");
            let (held, streamed) = (of("held"), of("streamed"));
            let kernel = |length| kernel_at(element, length, 0);
            assert_eq!(kernel(longest)?, held);
            assert_eq!(kernel(longest + pack)?, streamed);
            assert_eq!(kernel(2 * pack)?, held);
            assert_eq!(kernel(2 * pack + 1)?, of("staged"));
            let of_wave = CARD.wave_size * 32 / element.wide_size();
            assert_eq!(kernel(of_wave - 1)?, of("staged"));
            assert_eq!(kernel(of_wave + 1)?, of("unaligned"));
            assert_eq!(kernel(longest + 1)?, of("unaligned"));
            assert_eq!(kernel(longest + pack + 1)?, streamed);
        }
        Ok(())
    }

    #[test]
    fn parameters_are_read_in_packs_as_well() -> Result<(), Refusal> {
        for (at, form) in [(16, "held"), (4, "staged")] {
            let found = kernel_at(Element::F32, 64, at)?;
            assert_eq!(found, format!("rms_norm_f32_{form}"), "at {at}");
        }
        Ok(())
    }
}
