//! What an operand's bits name.

use crate::decode::{Behind, Instruction};
use crate::table::{InstructionSet, Kind, Operand as Declared};

/// Where a value comes from or goes to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Operand {
    /// Vector registers from this one on.
    Vector(u32),
    /// Scalar registers from this one on.
    Scalar(u32),
    /// A register with a name.
    Special(Special),
    /// A number that the operand's bits are.
    Integer(i32),
    /// Likewise, as a floating-point number.
    Float(f32),
    /// 1 / (2 pi).
    InverseOfTwoPi,
    /// The word behind the instruction.
    Literal(u32),
}

/// Registers with names, by the number of their first word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names are AMD's")]
pub enum Special {
    FlatScratch,
    FlatScratchHigh,
    XnackMask,
    XnackMaskHigh,
    Vcc,
    VccHigh,
    Trap(u32),
    Null,
    M0,
    Exec,
    ExecHigh,
    SharedBase,
    SharedLimit,
    PrivateBase,
    PrivateLimit,
    Vccz,
    Execz,
    Scc,
}

/// The first vector register among the numbers of sources.
const FIRST_VECTOR: u32 = 256;
const LITERAL: u32 = 255;
const FLOATS: [f32; 8] = [0.5, -0.5, 1., -1., 2., -2., 4., -4.];

impl Instruction {
    /// What a field names. None if the instruction does not use it, or if the bits name nothing.
    pub fn operand(&self, set: &InstructionSet, name: &str) -> Option<Operand> {
        let field = self.format.field(name)?;
        let bits = self.bits(name)?;
        match field.kind {
            Kind::Bits | Kind::Opcode => None,
            Kind::Vector if self.declared(name).is_some_and(|declared| declared.is_scalar) => self.source(set, bits),
            Kind::Vector if self.behind == Behind::Sdwa && name == "vsrc1" && self.is_set("s1") => {
                self.source(set, bits)
            }
            Kind::Vector => Some(Operand::Vector(bits)),
            Kind::SecondVector => Some(Operand::Vector(bits << 1 | (self.number("vdstx") & 1 ^ 1))),
            Kind::Source | Kind::ScalarSource | Kind::Scalar => self.source(set, bits),
            Kind::ScalarPair => self.source(set, bits << 1),
            Kind::ScalarQuad => self.source(set, bits << 2),
        }
    }

    /// What the number of a source names.
    fn source(&self, set: &InstructionSet, number: u32) -> Option<Operand> {
        let rdna = set.is_rdna();
        let special = match number {
            0..=101 => return Some(Operand::Scalar(number)),
            102..=105 if rdna => return Some(Operand::Scalar(number)),
            102 => Special::FlatScratch,
            103 => Special::FlatScratchHigh,
            104 => Special::XnackMask,
            105 => Special::XnackMaskHigh,
            106 => Special::Vcc,
            107 => Special::VccHigh,
            108..=123 => Special::Trap(number - 108),
            124 if rdna => Special::Null,
            124 => Special::M0,
            125 if rdna => Special::M0,
            126 => Special::Exec,
            127 => Special::ExecHigh,
            128..=192 => return Some(Operand::Integer(number as i32 - 128)),
            193..=208 => return Some(Operand::Integer(192 - number as i32)),
            235 => Special::SharedBase,
            236 => Special::SharedLimit,
            237 => Special::PrivateBase,
            238 => Special::PrivateLimit,
            240..=247 => return Some(Operand::Float(FLOATS[number as usize - 240])),
            248 => return Some(Operand::InverseOfTwoPi),
            251 => Special::Vccz,
            252 => Special::Execz,
            253 => Special::Scc,
            LITERAL if self.behind == Behind::Literal => return Some(Operand::Literal(self.literal())),
            FIRST_VECTOR.. => return Some(Operand::Vector(number - FIRST_VECTOR)),
            _ => return None,
        };
        Some(Operand::Special(special))
    }

    /// What a field names that stands behind the instruction: the first source of lanes or of parts of words.
    pub fn source_behind(&self, set: &InstructionSet) -> Option<Operand> {
        let register = self.bits("vsrc0")?;
        if self.is_set("s0") { self.source(set, register) } else { Some(Operand::Vector(register)) }
    }

    /// Where a comparison of parts of words puts its result, if not where all do.
    pub fn destination_behind(&self, set: &InstructionSet) -> Option<Operand> {
        let register = self.bits("sdst").filter(|_| self.is_set("sd"))?;
        self.source(set, register)
    }

    /// What the table says of the operand that a field names. Of two in one, both halves are declared by the second's fields.
    pub fn declared(&self, name: &str) -> Option<&'static Declared> {
        match self.second {
            Some(second) if name.contains('y') => second.operand(name),
            Some(_) => self.opcode.operand(&name.replace('x', "y")),
            None => self.opcode.operand(name),
        }
    }
}
