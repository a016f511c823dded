//! Sets of registers.

use std::fmt;

use isa::operand::{ACCUMULATORS, Operand, Special};

/// Where scalar registers begin among the bits of [`Registers`], behind vector and accumulation registers.
const SCALARS: u32 = 2 * ACCUMULATORS;
/// The number of the lane mask among scalar registers.
const VCC: u32 = 106;
const WORDS: usize = 10;

/// A set of registers, a bit for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers([u64; WORDS]);

/// A register of a wave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Register {
    /// Of vectors; accumulation registers from [`ACCUMULATORS`] on.
    Vector(usize),
    /// Of scalars.
    Scalar(usize),
    /// The lane mask that comparisons make: the first 32 lanes, or the others.
    Mask(u32),
}

impl Registers {
    /// Adds what an operand of so many bits names.
    pub fn add(&mut self, operand: Operand, bits: u32) {
        let first = match operand {
            Operand::Vector(register) => register,
            Operand::Scalar(register) => SCALARS + register,
            Operand::Special(Special::Vcc) => SCALARS + VCC,
            Operand::Special(Special::VccHigh) => SCALARS + VCC + 1,
            _ => return,
        };
        for register in first..first + bits.div_ceil(32) {
            self.0[register as usize / 64] |= 1 << (register % 64);
        }
    }

    /// Those of either.
    pub fn with(self, other: Self) -> Self {
        Self(std::array::from_fn(|word| self.0[word] | other.0[word]))
    }

    /// Those that both have.
    pub fn both(self, other: Self) -> Self {
        Self(std::array::from_fn(|word| self.0[word] & other.0[word]))
    }

    /// Those that the other does not have.
    pub fn without(self, other: Self) -> Self {
        Self(std::array::from_fn(|word| self.0[word] & !other.0[word]))
    }

    /// The mask that comparisons make.
    pub fn vcc() -> Self {
        let mut vcc = Self::default();
        vcc.add(Operand::Special(Special::Vcc), 64);
        vcc
    }

    /// Those of vectors, accumulation registers too.
    pub fn vectors(self) -> Self {
        Self(std::array::from_fn(|word| if word < SCALARS as usize / 64 { self.0[word] } else { 0 }))
    }

    /// Those of scalars, and the mask that comparisons make.
    pub fn scalars(self) -> Self {
        self.without(self.vectors())
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// The first, if there is one.
    pub fn first(self) -> Option<Register> {
        self.iter().next()
    }

    /// Each, in order.
    pub fn iter(self) -> impl Iterator<Item = Register> {
        let bits = self.0.into_iter().zip((0..).step_by(64)).flat_map(|(mut word, first)| {
            std::iter::from_fn(move || {
                let bit = (word != 0).then(|| word.trailing_zeros())?;
                word &= word - 1;
                Some(first + bit)
            })
        });
        bits.map(|number| match number.checked_sub(SCALARS) {
            None => Register::Vector(number as usize),
            Some(scalar) if scalar >= VCC => Register::Mask(scalar - VCC),
            Some(scalar) => Register::Scalar(scalar as usize),
        })
    }
}

impl FromIterator<Register> for Registers {
    fn from_iter<T: IntoIterator<Item = Register>>(registers: T) -> Self {
        let mut all = Self::default();
        for register in registers {
            let operand = match register {
                Register::Vector(number) => Operand::Vector(number as u32),
                Register::Scalar(number) => Operand::Scalar(number as u32),
                Register::Mask(0) => Operand::Special(Special::Vcc),
                Register::Mask(_) => Operand::Special(Special::VccHigh),
            };
            all.add(operand, 32);
        }
        all
    }
}

impl fmt::Display for Register {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Vector(number) => match number.checked_sub(ACCUMULATORS as usize) {
                Some(accumulator) => write!(f, "a{accumulator}"),
                None => write!(f, "v{number}"),
            },
            Self::Scalar(number) => write!(f, "s{number}"),
            Self::Mask(0) => f.write_str("vcc_lo"),
            Self::Mask(_) => f.write_str("vcc_hi"),
        }
    }
}
