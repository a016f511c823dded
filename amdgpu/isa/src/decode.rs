//! From words to instructions.

use std::fmt;

use crate::table::{Field, Format, InstructionSet, Kind, Opcode};

/// An instruction, as its bits say.
#[derive(Clone, Copy)]
pub struct Instruction {
    /// Its encoding.
    pub format: &'static Format,
    /// What it does.
    pub opcode: &'static Opcode,
    /// What it does besides, if it is two in one (VOPD).
    pub second: Option<&'static Opcode>,
    /// Its bits, the first word lowest.
    pub bits: u128,
    /// How many there are, what stands behind it included.
    pub bytes: usize,
    /// What stands behind it.
    pub behind: Behind,
}

/// What stands behind the words of an instruction's format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behind {
    /// The next instruction.
    Nothing,
    /// A constant of 32 bits.
    Literal,
    /// Which lanes of rows of 16 the first source is of.
    Dpp16,
    /// Which lanes of groups of 8; `fetch_inactive` says whether lanes that are off count.
    Dpp8 {
        /// Whether values of lanes that are off are taken.
        fetch_inactive: bool,
    },
    /// Which parts of words are taken.
    Sdwa,
}

/// Words that are no instruction of the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unknown(
    /// The first word.
    pub u32,
);

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#010x} is no instruction", self.0)
    }
}

impl fmt::Debug for Instruction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:#x}", self.opcode.name, self.bits)
    }
}

/// What a source names that stands behind the instruction.
const SDWA: u32 = 249;
const DPP16: u32 = 250;
const DPP8: u32 = 233;
const DPP8_FETCH_INACTIVE: u32 = 234;
const LITERAL: u32 = 255;

/// The instruction at the beginning of these words.
///
/// # Errors
/// If there is none, or not all of it.
pub fn decode(set: &'static InstructionSet, words: &[u32]) -> Result<Instruction, Unknown> {
    let first = *words.first().ok_or(Unknown(0))?;
    let low = u64::from(first) | words.get(1).map_or(0, |word| u64::from(*word) << 32);
    let mut fitting: Vec<_> = set.formats.iter().filter(|format| low & format.mask == format.value).collect();
    fitting.sort_by_key(|format| std::cmp::Reverse(format.mask.count_ones()));
    fitting.into_iter().find_map(|format| of_format(format, words)).ok_or(Unknown(first))
}

fn of_format(format: &'static Format, words: &[u32]) -> Option<Instruction> {
    let bits = words.iter().take(4).rev().fold(0, |bits, word| bits << 32 | u128::from(*word));
    let mut numbers = format.fields.iter().filter(|field| field.kind == Kind::Opcode);
    let opcode = match numbers.next() {
        Some(field) => format.opcode(extract(bits, field))?,
        None => return None,
    };
    let second = match numbers.next() {
        Some(field) => Some(format.opcode(extract(bits, field))?),
        None => None,
    };
    let has_literal = opcode.has_literal || second.is_some_and(|second| second.has_literal);
    let behind = if has_literal { Behind::Literal } else { behind(format, opcode, second, bits) };
    let bytes = format.bytes + if behind == Behind::Nothing { 0 } else { 4 };
    (words.len() * 4 >= bytes).then_some(Instruction {
        format,
        opcode,
        second,
        bits: bits & (u128::MAX >> (128 - 8 * bytes)),
        bytes,
        behind,
    })
}

/// What the sources say that stands behind.
fn behind(format: &Format, opcode: &Opcode, second: Option<&Opcode>, bits: u128) -> Behind {
    // The first half of two in one is declared by the second's fields.
    let used = |field: &&Field| second.is_some() || opcode.operand(field.name).is_some();
    let sources = format.fields.iter().filter(|field| matches!(field.kind, Kind::Source | Kind::ScalarSource));
    let mut found = Behind::Nothing;
    for (place, source) in sources.filter(used).enumerate() {
        let first = place == 0 && source.kind == Kind::Source;
        match extract(bits, source) {
            LITERAL if format.literal.is_some() => return Behind::Literal,
            DPP16 if first && format.dpp16.is_some() => found = Behind::Dpp16,
            DPP8 if first && format.dpp8.is_some() => found = Behind::Dpp8 { fetch_inactive: false },
            DPP8_FETCH_INACTIVE if first && format.dpp8.is_some() => found = Behind::Dpp8 { fetch_inactive: true },
            SDWA if first && format.sdwa.is_some() => found = Behind::Sdwa,
            _ => {}
        }
    }
    found
}

fn extract(bits: u128, field: &Field) -> u32 {
    (bits >> field.low) as u32 & (u32::MAX >> (31 - (field.high - field.low)))
}

impl Instruction {
    /// The bits of a field, of those behind the instruction too. None if it has no such field.
    pub fn bits(&self, name: &str) -> Option<u32> {
        self.field(name).map(|field| extract(self.bits, field))
    }

    /// As [`Instruction::bits`], 0 if it has none.
    pub fn number(&self, name: &str) -> u32 {
        self.bits(name).unwrap_or(0)
    }

    /// Whether a field of one bit is there and set.
    pub fn is_set(&self, name: &str) -> bool {
        self.number(name) != 0
    }

    /// The literal behind it, 0 if there is none.
    pub fn literal(&self) -> u32 {
        match self.behind {
            Behind::Literal => self.number("literal"),
            _ => 0,
        }
    }

    fn field(&self, name: &str) -> Option<&'static Field> {
        let more = match self.behind {
            Behind::Nothing => None,
            Behind::Literal => self.format.literal,
            Behind::Dpp16 => self.format.dpp16,
            Behind::Dpp8 { .. } => self.format.dpp8,
            Behind::Sdwa => self.format.sdwa,
        };
        let behind = more.into_iter().flatten().find(|field| field.name == name);
        // A scalar operation whose literal has no table.
        self.format.field(name).or(behind)
    }
}
