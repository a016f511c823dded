//! The waves of a block, which run until each is at a barrier, and then go on.

use crate::Fault;
use crate::lds::Lds;
use crate::memory::Memory;
use crate::program::{Program, Step};
use crate::state::Wave;
use crate::transfer;
use crate::{scalar, vector};

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
    /// Instructions that were executed, each once for a wave.
    pub executed: u64,
    /// Instructions that a wave may execute from one barrier to the next.
    pub patience: u64,
}

impl<'a> Block<'a> {
    /// Waves that are about to begin.
    pub fn new(program: &'a Program, waves: Vec<Wave>, lds: usize) -> Self {
        Self { program, waves, lds: Lds::new(lds), executed: 0, patience: PATIENCE }
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
        let Self { program, waves, lds, executed, patience } = self;
        let wave = &mut waves[index];
        for _ in 0..*patience {
            let place = wave.place;
            let fault = |what: String| Fault { what, place: program.start + 4 * place as u64 };
            let step = program.step(place).ok_or_else(|| fault("no instruction".into()))?;
            *executed += 1;
            let name = &*step.name;
            wave.place += step.instruction.bytes / 4;
            match name {
                "S_ENDPGM" => return Ok(Now::HasEnded),
                "S_BARRIER" | "S_BARRIER_SIGNAL" if wave.waits.stores_to_lds() => {
                    return Err(fault(format!("{name}: a store to LDS is under way, which others may not see")));
                }
                "S_BARRIER" => return Ok(Now::AtBarrier),
                "S_BARRIER_WAIT" if wave.has_signalled => {
                    wave.has_signalled = false;
                    return Ok(Now::AtBarrier);
                }
                _ => {}
            }
            let noted = match &step.refused {
                Some(why) => Err(why.clone()),
                None => wave.waits.note(&step.awaited),
            };
            let done = noted.and_then(|()| execute(program, step, wave, lds, memory));
            done.map_err(|what| fault(format!("{name}: {what}")))?;
        }
        let place = program.start + 4 * wave.place as u64;
        Err(Fault { what: format!("does not end within {patience} instructions"), place })
    }
}

fn execute(program: &Program, step: &Step, wave: &mut Wave, lds: &mut Lds, memory: &mut dyn Memory) -> vector::Done {
    let instruction = &step.instruction;
    match instruction.format.name {
        "SOPP" => control(step, wave),
        "SOP1" if step.name.contains("PC_B64") => jump(program, step, wave),
        "SOP1" | "SOP2" | "SOPC" | "SOPK" => match &*step.name {
            "S_WAITCNT_VSCNT" | "S_WAITCNT_VMCNT" | "S_WAITCNT_EXPCNT" | "S_WAITCNT_LGKMCNT" => Ok(()),
            "S_BARRIER_SIGNAL" => {
                wave.has_signalled = true;
                Ok(())
            }
            _ => scalar::run(program, step, wave),
        },
        "SMEM" => transfer::scalar(program, step, wave, memory),
        "DS" => transfer::lds(program, step, wave, lds),
        "VGLOBAL" if ["_INV", "_WB"].iter().any(|end| step.name.ends_with(end)) => Ok(()),
        "FLAT" | "GLOBAL" | "VFLAT" | "VGLOBAL" => transfer::vector(program, step, wave, memory),
        "MUBUF" if ["_INV", "_WBL2"].iter().any(|end| step.name.ends_with(end)) => Ok(()),
        _ => vector::run(program, step, wave),
    }
}

fn control(step: &Step, wave: &mut Wave) -> vector::Done {
    let name = &*step.name;
    let lanes = u64::MAX >> (64 - wave.lanes);
    let taken = match name {
        "S_BRANCH" => true,
        "S_CBRANCH_SCC0" => !wave.scc,
        "S_CBRANCH_SCC1" => wave.scc,
        "S_CBRANCH_VCCZ" => wave.vcc & lanes == 0,
        "S_CBRANCH_VCCNZ" => wave.vcc & lanes != 0,
        "S_CBRANCH_EXECZ" => wave.exec & lanes == 0,
        "S_CBRANCH_EXECNZ" => wave.exec & lanes != 0,
        "S_NOP"
        | "S_WAITCNT"
        | "S_DELAY_ALU"
        | "S_CLAUSE"
        | "S_SENDMSG"
        | "S_WAITCNT_DEPCTR"
        | "S_SLEEP"
        | "S_SET_INST_PREFETCH_DISTANCE"
        | "S_ICACHE_INV"
        | "S_SETPRIO" => false,
        "S_BARRIER_WAIT" => return Err("nobody has said that it is at the barrier".into()),
        _ if name.starts_with("S_WAIT_") => false,
        _ => return Err("it is not known".into()),
    };
    if taken {
        let distance = i64::from(step.instruction.number("simm16") as u16 as i16);
        wave.place = wave.place.wrapping_add_signed(distance as isize);
    }
    Ok(())
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
