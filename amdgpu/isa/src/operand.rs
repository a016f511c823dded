//! What an operand's bits name.

use crate::decode::{Behind, Instruction};
use crate::table::{InstructionSet, Kind, Operand as Declared};

/// Where a value comes from or goes to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Operand {
    /// Vector registers from this one on; accumulation registers, which only CDNA has, from [`ACCUMULATORS`] on.
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

/// What a field of an instruction names, and how many bits of that the instruction reads or writes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Used {
    /// Where the value comes from or goes to.
    pub operand: Operand,
    /// Of the value; more than 32 are in as many registers as they take.
    pub bits: u32,
}

/// The number of the first accumulation register among vector registers.
pub const ACCUMULATORS: u32 = 256;

/// The first vector register among the numbers of sources.
const FIRST_VECTOR: u32 = 256;
const LITERAL: u32 = 255;
const FLOATS: [f32; 8] = [0.5, -0.5, 1., -1., 2., -2., 4., -4.];

impl Instruction {
    /// What a field names. None if the instruction does not use it, or if the bits name nothing.
    pub fn operand(&self, set: &InstructionSet, name: &str) -> Option<Operand> {
        match self.plain_operand(set, name)? {
            Operand::Vector(register) if self.accumulates(name) => Some(Operand::Vector(ACCUMULATORS + register)),
            operand => Some(operand),
        }
    }

    /// Whether a vector register that a field names is an accumulation register.
    fn accumulates(&self, name: &str) -> bool {
        match (self.opcode.stem(), name) {
            ("V_ACCVGPR_READ", "src0") | ("V_ACCVGPR_WRITE", "vdst") | ("V_ACCVGPR_MOV_B32", _) => return true,
            _ => {}
        }
        match (self.format.name, name) {
            ("VOP3P_MFMA", "src0") => self.number("acc") & 1 != 0,
            ("VOP3P_MFMA", "src1") => self.number("acc") & 2 != 0,
            ("VOP3P_MFMA", "src2" | "vdst") => self.is_set("acc_cd"),
            (_, "vdata" | "vdst" | "data" | "data0" | "data1") => self.is_set("acc"),
            _ => false,
        }
    }

    fn plain_operand(&self, set: &InstructionSet, name: &str) -> Option<Operand> {
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

    /// What the instruction reads from, or writes to, by a field, in waves of so many lanes. None if it does neither.
    pub fn used(&self, set: &InstructionSet, name: &str, lanes: u32) -> Option<Used> {
        let declared = self.declared(name)?;
        if (name == "vdst" && self.drops_result(set)) || (name == "vaddr" && self.ignores(name)) {
            return None;
        }
        let bits = match (declared.format, self.format.name, name) {
            ("M64", ..) if set.is_rdna() => lanes,
            (_, "GLOBAL", "addr") | (_, "VGLOBAL", "vaddr") if self.has_scalar_address(set) => 32,
            // An index, an offset, or both.
            (_, "MUBUF", "vaddr") => 32 * (self.number("idxen") + self.number("offen")),
            // What was there; the data are two values.
            (_, _, "vdst") if self.opcode.name.contains("ATOMIC_CMPSWAP") => {
                self.declared("data").or_else(|| self.declared("vsrc"))?.bits / 2
            }
            _ => declared.bits,
        };
        let behind = match (name, self.behind) {
            ("src0", Behind::Dpp16 | Behind::Dpp8 { .. } | Behind::Sdwa) => self.source_behind(set),
            _ => None,
        };
        let operand = match behind.or_else(|| self.operand(set, name))? {
            Operand::Vector(register) if self.names_halves(set, bits) && self.format.bytes == 4 => {
                Operand::Vector(register & 127)
            }
            operand => operand,
        };
        Some(Used { operand, bits })
    }

    /// All that it reads from and writes to by its fields.
    pub fn all_used<'a>(
        &'a self,
        set: &'a InstructionSet,
        lanes: u32,
    ) -> impl Iterator<Item = (&'static str, Used)> + 'a {
        let fields = self.format.fields.iter().filter(|field| !self.ignores(field.name));
        let named = fields.filter_map(move |field| Some((field.name, self.used(set, field.name, lanes)?)));
        // Only sets with waves of 64 have such instructions.
        let behind = self.destination_behind(set).map(|operand| ("sdst", Used { operand, bits: 64 }));
        named.chain(behind)
    }

    /// The constant that an instruction of memory adds to its address.
    pub fn offset(&self) -> i32 {
        let signed = |number: u32, bits: u32| (number << (32 - bits)) as i32 >> (32 - bits);
        match (self.bits("ioffset"), self.format.name) {
            (Some(offset), _) => signed(offset, 24),
            (None, "SMEM") => signed(self.number("offset"), 21),
            (None, "MUBUF") => self.number("offset") as i32,
            (None, _) => signed(self.number("offset"), 13),
        }
    }

    /// Whether the instruction says that the bits of a field name nothing.
    pub fn ignores(&self, name: &str) -> bool {
        match name {
            "soffset" => self.bits("soffset_en") == Some(0),
            "vaddr" => self.format.name == "MUBUF" && !self.is_set("idxen") && !self.is_set("offen"),
            _ => false,
        }
    }

    /// Whether values of so many bits are halves of vector registers, of which it says which.
    pub fn names_halves(&self, set: &InstructionSet, bits: u32) -> bool {
        let format = self.format.name;
        bits == 16 && set.name == "rdna3" && format.starts_with("VOP") && format != "VOP3P"
    }

    /// Whether it is an atomic operation on memory that does not return what was there.
    pub fn drops_result(&self, set: &InstructionSet) -> bool {
        let atomic = self.opcode.name.contains("_ATOMIC_") && self.format.name != "DS";
        atomic
            && match set.name {
                "rdna4" => self.number("th") & 1 == 0,
                "rdna3" => !self.is_set("glc"),
                _ => !self.is_set("sc0"),
            }
    }

    /// Whether it loads vector registers from memory or LDS.
    pub fn is_load(&self) -> bool {
        self.opcode.name.contains("_LOAD_") || self.opcode.name.contains("_READ")
    }

    /// Whether it loads vector registers, or gets what was there before an atomic operation.
    pub fn returns(&self, set: &InstructionSet) -> bool {
        self.is_load() || (self.opcode.name.contains("_ATOMIC_") && !self.drops_result(set))
    }

    /// Whether it adds the address in vector registers to one in scalar registers.
    pub fn has_scalar_address(&self, set: &InstructionSet) -> bool {
        let nothing = [Operand::Special(Special::Null), Operand::Special(Special::ExecHigh)];
        self.operand(set, "saddr").is_some_and(|operand| !nothing.contains(&operand))
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
