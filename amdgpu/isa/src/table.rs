//! What the generated tables are made of.

/// What one family of cards executes.
#[derive(Debug)]
pub struct InstructionSet {
    /// "rdna3" or "cdna".
    pub name: &'static str,
    /// All encodings.
    pub formats: &'static [Format],
}

/// An encoding and its instructions.
#[derive(Debug)]
pub struct Format {
    /// AMD's name: "VOP3".
    pub name: &'static str,
    /// 4, 8 or 12, without what may stand behind it.
    pub bytes: usize,
    /// The bits that tell the format.
    pub mask: u64,
    /// What they are.
    pub value: u64,
    /// The fields.
    pub fields: &'static [Field],
    /// The fields of a literal behind an instruction, if it can have one.
    pub literal: Option<&'static [Field]>,
    /// Likewise, of a word of lanes in rows of 16.
    pub dpp16: Option<&'static [Field]>,
    /// Likewise, of lanes in groups of 8.
    pub dpp8: Option<&'static [Field]>,
    /// Likewise, of parts of words.
    pub sdwa: Option<&'static [Field]>,
    /// The instructions, by number.
    pub opcodes: &'static [Opcode],
}

/// Bits of an instruction, bit 0 being the lowest of its first word.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// AMD's name: "vdst".
    pub name: &'static str,
    /// The highest bit.
    pub high: u32,
    /// The lowest bit.
    pub low: u32,
    /// What the bits name.
    pub kind: Kind,
}

/// How the bits of a field name what they stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number.
    Bits,
    /// The instruction.
    Opcode,
    /// Any register, an inline constant, or what stands behind the instruction.
    Source,
    /// Likewise, without vector registers.
    ScalarSource,
    /// A vector register.
    Vector,
    /// A scalar register.
    Scalar,
    /// A scalar register of even number.
    ScalarPair,
    /// A scalar register whose number is a multiple of four.
    ScalarQuad,
    /// A vector register whose lowest bit is not that of the first destination.
    SecondVector,
}

/// An instruction of a format.
#[derive(Debug)]
pub struct Opcode {
    /// What the format's opcode field is.
    pub number: u32,
    /// AMD's name in capitals, `_E32` or `_E64` included where there are both.
    pub name: &'static str,
    /// What it takes and makes.
    pub operands: &'static [Operand],
    /// Whether a literal stands behind it whatever its operands are.
    pub has_literal: bool,
}

/// A field that names registers or a constant.
#[derive(Debug)]
pub struct Operand {
    /// The field.
    pub field: &'static str,
    /// Bits of the value.
    pub bits: u32,
    /// What it is: "F32", "PK2_F16", "M64" for a mask of lanes (of 32 bits in waves of 32), "ANY".
    pub format: &'static str,
    /// Whether only scalar registers can have it.
    pub is_scalar: bool,
}

impl InstructionSet {
    /// Whether it is one of the sets for waves of 32.
    pub fn is_rdna(&self) -> bool {
        self.name.starts_with("rdna")
    }

    /// Whether some format has an instruction of that name.
    pub fn has(&self, name: &str) -> bool {
        self.formats.iter().flat_map(|format| format.opcodes).any(|opcode| opcode.name == name)
    }
}

impl Format {
    /// A field by its name.
    pub fn field(&self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// The instruction of that number.
    pub fn opcode(&self, number: u32) -> Option<&'static Opcode> {
        let place = self.opcodes.binary_search_by_key(&number, |opcode| opcode.number).ok()?;
        self.opcodes.get(place)
    }
}

impl Opcode {
    /// The name without that of its encoding.
    pub fn stem(&self) -> &'static str {
        self.name.strip_suffix("_E32").or_else(|| self.name.strip_suffix("_E64")).unwrap_or(self.name)
    }

    /// The operand that a field names, if the instruction has it.
    pub fn operand(&self, field: &str) -> Option<&'static Operand> {
        self.operands.iter().find(|operand| operand.field == field)
    }
}
