//! Results that are under way. Memory answers late: a program counts what it has asked for, and waits until few enough
//! answers are missing. What it uses before that may be the result or what was there before; hardware does not say which.
//!
//! RDNA3 counts loads of vector registers, which are answered in order, and, together, what is asked of LDS, which is
//! too, and loads of scalar registers, which are answered in any order. (AMD, "RDNA3 Instruction Set Architecture", on
//! S_WAITCNT.) CDNA3 counts stores with the loads of vector registers, and RDNA4 all kinds apart.

use std::collections::VecDeque;

use isa::constants::Waits as Counts;
use isa::decode::Instruction;
use isa::table::InstructionSet;

use crate::registers::Registers;

/// Who answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Vector,
    Lds,
    Scalar,
    /// By an address that may be of either. Here it is one of memory: both counters count it, and that of loads says when
    /// the answer is there. AMD's own copies of memory wait for no more.
    Flat,
}

/// What an instruction has to do with waiting.
#[derive(Clone, Debug)]
pub struct Awaited {
    /// What it reads, and what it writes at once.
    pub used: Registers,
    /// What it asks for, and of whom.
    asked: Option<(Source, Registers)>,
    /// How many answers may be missing behind it.
    allowed: Allowed,
}

/// How many answers may be missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Allowed {
    /// Of loads of vector registers.
    vector: Option<u32>,
    /// Of LDS alone.
    lds: Option<u32>,
    /// Of scalar loads alone.
    scalar: Option<u32>,
    /// Of LDS and scalar loads together.
    both: Option<u32>,
}

impl Allowed {
    fn of(set: &InstructionSet, instruction: &Instruction) -> Self {
        let number = instruction.number("simm16");
        let (nothing, some) = (Self::default(), Some(number));
        match instruction.opcode.name {
            "S_WAITCNT" => {
                let counts = Counts::of(set, number as u16);
                Self { vector: Some(counts.vector.into()), both: Some(counts.lds.into()), ..nothing }
            }
            "S_WAITCNT_VMCNT" | "S_WAIT_LOADCNT" => Self { vector: some, ..nothing },
            "S_WAITCNT_LGKMCNT" => Self { both: some, ..nothing },
            "S_WAIT_DSCNT" => Self { lds: some, ..nothing },
            "S_WAIT_KMCNT" => Self { scalar: some, ..nothing },
            "S_WAIT_LOADCNT_DSCNT" => Self { vector: Some(number >> 8 & 63), lds: Some(number & 63), ..nothing },
            "S_WAIT_STORECNT_DSCNT" => Self { lds: Some(number & 63), ..nothing },
            _ => nothing,
        }
    }
}

impl Awaited {
    /// All that it reads and writes.
    pub fn touched(&self) -> Registers {
        self.asked.map_or(self.used, |(_, asked)| self.used.with(asked))
    }

    /// By the instruction; of RDNA, in waves of 32.
    pub fn of(set: &InstructionSet, instruction: &Instruction) -> Self {
        let source = match instruction.format.name {
            "GLOBAL" | "VGLOBAL" | "MUBUF" => Some(Source::Vector),
            "FLAT" | "VFLAT" => Some(Source::Flat),
            "DS" => Some(Source::Lds),
            "SMEM" => Some(Source::Scalar),
            _ => None,
        };
        let (mut used, mut asked) = (Registers::default(), Registers::default());
        // Of more lanes, the upper half of a mask is a register that may be somebody else's in waves of 32.
        for (field, operand) in instruction.all_used(set, 32) {
            // What an atomic operation takes and what was there have the same registers.
            let is_result = matches!(field, "vdst" | "sdata") || (field == "vdata" && instruction.is_load());
            let is_both = field == "vdata" && instruction.returns(set);
            if source.is_some() && (is_result || is_both) {
                asked.add(operand.operand, operand.bits);
            }
            if source.is_none() || !is_result {
                used.add(operand.operand, operand.bits);
            }
        }
        // Stores are answered, too, by nothing that is used. Those of LDS count with its loads; RDNA has a counter for others.
        let is_store = set.is_rdna() && asked == Registers::default();
        let source = match source {
            Some(Source::Vector | Source::Scalar) if is_store => None,
            Some(Source::Flat) if is_store => Some(Source::Lds),
            source => source,
        };
        Self { used, asked: source.map(|source| (source, asked)), allowed: Allowed::of(set, instruction) }
    }
}

/// What a wave has asked for and not waited for.
#[derive(Debug, Default)]
pub struct Waits {
    vector: VecDeque<Registers>,
    /// None for what is only counted.
    lds: VecDeque<Option<Registers>>,
    scalar: Vec<Registers>,
    /// All of these.
    missing: Registers,
}

impl Waits {
    /// Notes an instruction that is about to be executed.
    ///
    /// # Errors
    /// If it uses what is under way.
    pub fn note(&mut self, awaited: &Awaited) -> Result<(), String> {
        let too_early = |register| Err(format!("{register} is used before the program has waited for it"));
        if let Some(register) = self.missing.both(awaited.used).first() {
            return too_early(register);
        }
        if let Some((source, asked)) = awaited.asked {
            // Answers of the same kind come in order.
            let others = match source {
                Source::Vector => union(self.lds.iter().flatten().chain(&self.scalar)),
                Source::Lds => union(self.vector.iter().chain(&self.scalar)),
                Source::Scalar | Source::Flat => self.missing,
            };
            if let Some(register) = others.both(asked).first() {
                return too_early(register);
            }
            match source {
                Source::Vector => self.vector.push_back(asked),
                Source::Lds => self.lds.push_back(Some(asked)),
                Source::Scalar => self.scalar.push(asked),
                Source::Flat => {
                    self.vector.push_back(asked);
                    self.lds.push_back(None);
                }
            }
            self.missing = self.missing.with(asked);
        }
        if awaited.allowed != Allowed::default() {
            self.wait(awaited.allowed);
        }
        Ok(())
    }

    /// Whether the program has not waited for a store to LDS.
    pub fn stores_to_lds(&self) -> bool {
        self.lds.contains(&Some(Registers::default()))
    }

    fn wait(&mut self, allowed: Allowed) {
        if let Some(allowed) = allowed.vector {
            drain(&mut self.vector, allowed);
        }
        if let Some(allowed) = allowed.lds {
            drain(&mut self.lds, allowed);
        }
        if let Some(allowed) = allowed.both {
            // Those that have come may all be scalar.
            drain(&mut self.lds, allowed);
        }
        if allowed.scalar == Some(0) || allowed.both == Some(0) {
            self.scalar.clear();
        }
        self.missing = union(self.vector.iter().chain(self.lds.iter().flatten()).chain(&self.scalar));
    }
}

/// The last ones to come are those that are still allowed to be missing.
fn drain<T>(come: &mut VecDeque<T>, allowed: u32) {
    come.drain(..come.len().saturating_sub(allowed as usize));
}

fn union<'a>(all: impl Iterator<Item = &'a Registers>) -> Registers {
    all.fold(Registers::default(), |all, registers| all.with(*registers))
}

#[cfg(test)]
mod tests {
    use isa::operand::{Operand, Special};

    use super::*;

    fn registers(operands: &[(Operand, u32)]) -> Registers {
        let mut registers = Registers::default();
        operands.iter().for_each(|(operand, bits)| registers.add(*operand, *bits));
        registers
    }

    fn vector(first: u32, bits: u32) -> Registers {
        registers(&[(Operand::Vector(first), bits)])
    }

    fn scalar(first: u32, bits: u32) -> Registers {
        registers(&[(Operand::Scalar(first), bits)])
    }

    fn uses(used: Registers) -> Awaited {
        Awaited { used, asked: None, allowed: Allowed::default() }
    }

    fn asks(source: Source, asked: Registers) -> Awaited {
        Awaited { asked: Some((source, asked)), ..uses(Registers::default()) }
    }

    fn waits(vector: Option<u32>, both: Option<u32>) -> Awaited {
        Awaited { allowed: Allowed { vector, both, ..Allowed::default() }, ..uses(Registers::default()) }
    }

    fn early(register: &str) -> Result<(), String> {
        Err(format!("{register} is used before the program has waited for it"))
    }

    #[test]
    fn loads_are_answered_in_order() {
        let mut wave = Waits::default();
        for first in [4, 6, 8] {
            assert_eq!(wave.note(&asks(Source::Vector, vector(first, 64))), Ok(()));
        }
        assert_eq!(wave.note(&uses(vector(3, 32))), Ok(()));
        assert_eq!(wave.note(&uses(vector(3, 64))), early("v4"));
        assert_eq!(wave.note(&waits(Some(2), None)), Ok(()));
        assert_eq!(wave.note(&uses(vector(4, 64))), Ok(()));
        assert_eq!(wave.note(&uses(vector(7, 32))), early("v7"));
        assert_eq!(wave.note(&waits(None, Some(0))), Ok(()), "that is somebody else's counter");
        assert_eq!(wave.note(&uses(vector(8, 32))), early("v8"));
        assert_eq!(wave.note(&waits(Some(0), None)), Ok(()));
        assert_eq!(wave.note(&uses(vector(4, 256))), Ok(()));
    }

    #[test]
    fn stores_to_lds_are_answered_with_its_loads() {
        let mut wave = Waits::default();
        for asked in [vector(1, 32), Registers::default(), vector(2, 32)] {
            assert_eq!(wave.note(&asks(Source::Lds, asked)), Ok(()));
        }
        assert_eq!(wave.note(&waits(None, Some(2))), Ok(()));
        assert_eq!(wave.note(&uses(vector(1, 32))), Ok(()));
        assert_eq!(wave.note(&waits(None, Some(1))), Ok(()));
        assert_eq!(wave.note(&uses(vector(2, 32))), early("v2"));
    }

    #[test]
    fn scalar_loads_are_answered_in_any_order() {
        let mut wave = Waits::default();
        for first in [0, 2] {
            assert_eq!(wave.note(&asks(Source::Scalar, scalar(first, 64))), Ok(()));
        }
        assert_eq!(wave.note(&waits(None, Some(1))), Ok(()));
        assert_eq!(wave.note(&uses(scalar(0, 32))), early("s0"));
        assert_eq!(wave.note(&asks(Source::Lds, vector(9, 32))), Ok(()));
        assert_eq!(wave.note(&asks(Source::Lds, vector(10, 32))), Ok(()));
        // One of four is missing: a scalar one perhaps, so that the last of LDS has not come for certain.
        assert_eq!(wave.note(&waits(None, Some(1))), Ok(()));
        assert_eq!(wave.note(&uses(vector(9, 32))), Ok(()));
        assert_eq!(wave.note(&uses(vector(10, 32))), early("v10"));
        assert_eq!(wave.note(&waits(None, Some(0))), Ok(()));
        assert_eq!(wave.note(&uses(scalar(0, 128))), Ok(()));
        assert_eq!(wave.note(&uses(vector(10, 32))), Ok(()));
    }

    #[test]
    fn a_load_by_a_flat_address_is_counted_twice_and_answered_once() {
        let mut wave = Waits::default();
        assert_eq!(wave.note(&asks(Source::Lds, vector(1, 32))), Ok(()));
        assert_eq!(wave.note(&asks(Source::Flat, vector(2, 32))), Ok(()));
        assert!(!wave.stores_to_lds());
        assert_eq!(wave.note(&waits(None, Some(1))), Ok(()));
        assert_eq!(wave.note(&uses(vector(1, 32))), Ok(()));
        assert_eq!(wave.note(&waits(None, Some(0))), Ok(()));
        assert_eq!(wave.note(&uses(vector(2, 32))), early("v2"), "it is one of memory");
        assert_eq!(wave.note(&waits(Some(0), None)), Ok(()));
        assert_eq!(wave.note(&uses(vector(2, 32))), Ok(()));
    }

    #[test]
    fn nothing_is_written_over_what_others_will_answer() {
        let mut wave = Waits::default();
        assert_eq!(wave.note(&asks(Source::Vector, vector(1, 32))), Ok(()));
        assert_eq!(wave.note(&asks(Source::Vector, vector(1, 32))), Ok(()), "the second comes second");
        assert_eq!(wave.note(&asks(Source::Lds, vector(1, 32))), early("v1"));
        assert_eq!(wave.note(&waits(Some(0), None)), Ok(()));
        assert_eq!(wave.note(&uses(vector(1, 32))), Ok(()));
        let vcc = registers(&[(Operand::Special(Special::Vcc), 64)]);
        assert_eq!(wave.note(&asks(Source::Scalar, vcc)), Ok(()));
        assert_eq!(wave.note(&uses(registers(&[(Operand::Special(Special::VccHigh), 32)]))), early("vcc_hi"));
    }
}
