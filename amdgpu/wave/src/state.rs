//! What a wave has: registers, and where it is.

use isa::operand::{ACCUMULATORS, Operand, Special};
use isa::table::InstructionSet;

use crate::hazards::Hazards;
use crate::waits::Waits;

/// Scalar registers of a wave.
pub const SCALARS: usize = 106;
/// Vector registers that an instruction can name, and as many accumulation registers on CDNA.
pub const VECTORS: usize = ACCUMULATORS as usize;
/// The traps' registers in which RDNA4 has the block's numbers.
pub const BLOCK_X: usize = 9;
/// Two of 16 bits.
pub const BLOCK_YZ: usize = 7;

/// What programs before have left in a register, for a lane. Not a pointer to a function: it is asked for each word of each
/// wave.
pub trait Left: Fn(usize, usize) -> u32 + Copy {}

impl<F: Fn(usize, usize) -> u32 + Copy> Left for F {}

/// All bits are 1: programs before have left no zeros.
pub fn ones(_: usize, _: usize) -> u32 {
    u32::MAX
}

/// Something else: no bit is the same, or, in every other register and lane, something that is neither less than 0 nor
/// near it.
pub fn others(register: usize, lane: usize) -> u32 {
    if (register + lane).is_multiple_of(2) { 0 } else { 0x7f5a_3c68 }
}

/// Registers of a wave.
#[derive(Debug)]
pub struct Wave {
    /// 32 or 64.
    pub lanes: usize,
    /// The instruction's place in the program, in words.
    pub place: usize,
    /// Lanes that are on.
    pub exec: u64,
    /// The lane mask that comparisons make.
    pub vcc: u64,
    /// The bit that scalar comparisons make.
    pub scc: bool,
    /// The register of that name.
    pub m0: u32,
    /// Registers of the traps' handler, in which RDNA4 has the block's number.
    pub traps: [u32; 16],
    /// Whether it has said that it is at a barrier, for which it has not waited.
    pub has_signalled: bool,
    /// Scalar registers.
    pub scalars: [u32; SCALARS],
    /// Vector registers, one word for each lane; behind [`VECTORS`], accumulation registers.
    pub vectors: Vec<[u32; 64]>,
    /// What it has not waited for.
    pub(crate) waits: Waits,
    /// What it has done last.
    pub(crate) hazards: Hazards,
}

impl Wave {
    /// A wave with all lanes on. Of registers with a number, the words are what was left there.
    pub fn new(set: &InstructionSet, lanes: usize, left: impl Left) -> Self {
        let vectors = if set.is_rdna() { VECTORS } else { 2 * VECTORS };
        Self {
            lanes,
            place: 0,
            exec: u64::MAX >> (64 - lanes),
            vcc: u64::MAX >> (64 - lanes),
            scc: true,
            m0: u32::MAX,
            traps: [0; 16],
            has_signalled: false,
            scalars: std::array::from_fn(|register| left(register, 0)),
            vectors: (0..vectors).map(|register| std::array::from_fn(|lane| left(register, lane))).collect(),
            waits: Waits::default(),
            hazards: Hazards::default(),
        }
    }

    /// A scalar value of 32 bits; of a vector register, that of the first lane that is on.
    pub fn word(&self, operand: Operand) -> u32 {
        self.value(operand, 32) as u32
    }

    /// A scalar value of so many bits.
    pub fn value(&self, operand: Operand, bits: u32) -> u64 {
        match operand {
            Operand::Scalar(register) => self.scalar(register as usize, bits),
            Operand::Special(special) => self.special(special, bits),
            constant => constant_of(constant, bits),
        }
    }

    fn scalar(&self, register: usize, bits: u32) -> u64 {
        let low = u64::from(self.scalars.get(register).copied().unwrap_or(0));
        match bits {
            64 => low | u64::from(self.scalars.get(register + 1).copied().unwrap_or(0)) << 32,
            16 => low & 0xffff,
            _ => low,
        }
    }

    fn special(&self, special: Special, bits: u32) -> u64 {
        let whole = match special {
            Special::Vcc => self.vcc,
            Special::VccHigh => self.vcc >> 32,
            Special::Exec => self.exec,
            Special::ExecHigh => self.exec >> 32,
            Special::M0 => self.m0.into(),
            Special::Scc => self.scc.into(),
            Special::Vccz => (self.vcc == 0).into(),
            Special::Execz => (self.exec == 0).into(),
            Special::Trap(number) => self.traps[number as usize].into(),
            _ => 0,
        };
        if bits >= 64 { whole } else { whole & ((1 << bits) - 1) }
    }

    /// Sets a scalar register, or two for 64 bits.
    pub fn set(&mut self, operand: Operand, bits: u32, value: u64) {
        let low = |old: u64| old & !0xffff_ffff | value & 0xffff_ffff;
        let high = |old: u64| old & 0xffff_ffff | value << 32;
        match operand {
            Operand::Scalar(register) => {
                let register = register as usize;
                self.scalars[register] = value as u32;
                if bits == 64 {
                    self.scalars[register + 1] = (value >> 32) as u32;
                }
            }
            Operand::Special(Special::Vcc) => self.vcc = if bits == 64 { value } else { low(self.vcc) },
            Operand::Special(Special::VccHigh) => self.vcc = high(self.vcc),
            Operand::Special(Special::Exec) => self.exec = if bits == 64 { value } else { low(self.exec) },
            Operand::Special(Special::ExecHigh) => self.exec = high(self.exec),
            Operand::Special(Special::M0) => self.m0 = value as u32,
            _ => {}
        }
    }

    /// Whether a lane is on.
    pub fn is_on(&self, lane: usize) -> bool {
        self.exec >> lane & 1 != 0
    }

    /// The lanes that are on.
    pub fn on(&self) -> impl Iterator<Item = usize> + use<> {
        let (lanes, exec) = (self.lanes, self.exec);
        (0..lanes).filter(move |lane| exec >> lane & 1 != 0)
    }

    /// The mask of all its lanes.
    pub fn all(&self) -> u64 {
        u64::MAX >> (64 - self.lanes)
    }

    /// The bits of a mask that lanes of this wave have.
    pub fn mask_bits(&self) -> u32 {
        self.lanes as u32
    }
}

/// Whether a register is one of a wave's.
pub fn is_known(set: &InstructionSet, special: Special) -> bool {
    use Special::{Exec, ExecHigh, Execz, M0, Null, Scc, Trap, Vcc, VccHigh, Vccz};
    match special {
        Trap(number) => set.name == "rdna4" && [BLOCK_X, BLOCK_YZ].contains(&(number as usize)),
        other => matches!(other, Vcc | VccHigh | Exec | ExecHigh | M0 | Scc | Vccz | Execz | Null),
    }
}

/// The bits of a constant in an operand of so many.
pub fn constant_of(operand: Operand, bits: u32) -> u64 {
    match operand {
        Operand::Integer(number) if bits == 64 => i64::from(number) as u64,
        Operand::Integer(number) => u64::from(number as u32) & (u64::MAX >> (64 - bits.min(32))),
        Operand::Float(number) => float_of(number.into(), bits),
        Operand::InverseOfTwoPi => match bits {
            16 => 0x3118,
            64 => 0x3fc4_5f30_6dc9_c882,
            _ => 0x3e22_f983,
        },
        Operand::Literal(word) if bits == 16 => u64::from(word & 0xffff),
        Operand::Literal(word) => word.into(),
        _ => 0,
    }
}

fn float_of(number: f64, bits: u32) -> u64 {
    match bits {
        16 => half::f16::from_f64(number).to_bits().into(),
        64 => number.to_bits(),
        _ => (number as f32).to_bits().into(),
    }
}
