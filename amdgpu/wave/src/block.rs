//! The waves of a block, which run until each is at a barrier, and then go on.

use crate::Fault;
use crate::lds::Lds;
use crate::memory::Memory;
use crate::program::{Program, Step};
use crate::role::Role;
use crate::state::Wave;
use crate::transfer;
use crate::twin::Twin;
use crate::{buffer, scalar, vector};

/// Instructions that a wave may execute: what takes longer does not end.
pub const PATIENCE: u64 = 50_000_000;

/// What has become of a wave.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Now {
    Runs,
    AtBarrier,
    HasEnded,
}

/// A block of waves and its LDS.
#[derive(Debug)]
pub struct Block<'a> {
    program: &'a Program,
    waves: Vec<Wave>,
    lds: Lds,
    /// One for each wave, or none.
    twins: Vec<Twin>,
    /// The twins' LDS, in which zeros were left.
    twins_lds: Vec<u8>,
    /// Instructions that were executed, each once for a wave.
    pub executed: u64,
    /// Instructions that a wave may execute from one barrier to the next.
    pub patience: u64,
}

impl<'a> Block<'a> {
    /// Waves that are about to begin.
    pub fn new(program: &'a Program, waves: Vec<Wave>, lds: usize) -> Self {
        let (lds, twins, twins_lds) = (Lds::new(lds), Vec::new(), Vec::new());
        Self { program, waves, lds, twins, twins_lds, executed: 0, patience: PATIENCE }
    }

    /// Compares its waves with others, for which something else was left in registers and LDS.
    pub fn compare_with(&mut self, others: Vec<Wave>) {
        self.twins = self.waves.iter().zip(others).map(|(wave, other)| Twin::new(wave, other)).collect();
        self.twins_lds = vec![0; self.lds.size()];
    }

    /// Runs all waves to their end.
    ///
    /// # Errors
    /// What is wrong, and where.
    pub fn run(&mut self, memory: &mut dyn Memory) -> Result<(), Fault> {
        let mut now = vec![Now::Runs; self.waves.len()];
        loop {
            for (index, now) in now.iter_mut().enumerate().filter(|(_, now)| **now == Now::Runs) {
                self.lds.wave = index as u16;
                *now = self.run_wave(index, memory)?;
            }
            if now.iter().all(|now| *now == Now::HasEnded) {
                return Ok(());
            }
            self.lds.barriers += 1;
            // Those that have ended do not count.
            now.iter_mut().filter(|now| **now == Now::AtBarrier).for_each(|now| *now = Now::Runs);
        }
    }

    /// Its waves, as they are now.
    pub fn waves(&self) -> &[Wave] {
        &self.waves
    }

    fn run_wave(&mut self, index: usize, memory: &mut dyn Memory) -> Result<Now, Fault> {
        let Self { program, waves, lds, twins, twins_lds, executed, patience } = self;
        let (wave, mut twin) = (&mut waves[index], twins.get_mut(index));
        for _ in 0..*patience {
            let place = wave.place;
            let fault = |what: String| Fault { what, place: program.start + 4 * place as u64 };
            let step = program.step(place).ok_or_else(|| fault("no instruction".into()))?;
            *executed += 1;
            let name = &*step.name;
            wave.place += step.instruction.bytes / 4;
            let spaced = wave.hazards.note(program, place, &step.spacing);
            spaced.map_err(|what| fault(format!("{name}: {what}")))?;
            match step.role {
                Role::End => return Ok(Now::HasEnded),
                Role::Barrier | Role::SignalAtBarrier if wave.waits.stores_to_lds() => {
                    return Err(fault(format!("{name}: a store to LDS is under way, which others may not see")));
                }
                Role::Barrier => return Ok(Now::AtBarrier),
                Role::AwaitBarrier if wave.has_signalled => {
                    wave.has_signalled = false;
                    return Ok(Now::AtBarrier);
                }
                _ => {}
            }
            let noted = match &step.refused {
                Some(why) => Err(why.clone()),
                None => wave.waits.note(&step.awaited),
            };
            let done = noted.and_then(|()| match &mut twin {
                Some(twin) => twin.execute((program, step), wave, (lds, twins_lds), memory),
                None => execute(program, step, wave, lds, memory),
            });
            done.map_err(|what| fault(format!("{name}: {what}")))?;
        }
        let place = program.start + 4 * wave.place as u64;
        Err(Fault { what: format!("does not end within {patience} instructions"), place })
    }
}

/// Executes an instruction of a wave, with the block's LDS and memory.
pub fn execute(
    program: &Program,
    step: &Step,
    wave: &mut Wave,
    lds: &mut dyn Memory,
    memory: &mut dyn Memory,
) -> vector::Done {
    match &step.role {
        Role::Branch { taken, words } => {
            if taken(wave) {
                wave.place = wave.place.wrapping_add_signed(*words);
            }
            Ok(())
        }
        Role::SignalAtBarrier => {
            wave.has_signalled = true;
            Ok(())
        }
        Role::AwaitBarrier => Err("nobody has said that it is at the barrier".into()),
        Role::Jump => jump(program, step, wave),
        Role::Scalar(prepared) => scalar::run(prepared, &step.name, wave),
        Role::ScalarLoad => transfer::scalar(program, step, wave, memory),
        Role::Lds => transfer::lds(program, step, wave, lds),
        Role::Memory => transfer::vector(program, step, wave, memory),
        Role::Buffer => buffer::run(program, step, wave, memory),
        Role::Vector => vector::run(program, step, wave),
        Role::Nothing | Role::End | Role::Barrier => Ok(()),
        Role::Unknown => Err("it is not known".into()),
    }
}

fn jump(program: &Program, step: &Step, wave: &mut Wave) -> vector::Done {
    let operand = |field| step.instruction.operand(program.set, field);
    let next = program.start + 4 * wave.place as u64;
    let target = operand("ssrc0").map_or(0, |operand| wave.value(operand, 64));
    let name = &*step.name;
    if name != "S_SETPC_B64" {
        wave.set(operand("sdst").ok_or("no destination")?, 64, next);
    }
    if name != "S_GETPC_B64" {
        wave.place = (target.wrapping_sub(program.start) / 4) as usize;
    }
    Ok(())
}
