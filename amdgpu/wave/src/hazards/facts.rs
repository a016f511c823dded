//! What of an instruction hazards are about: what kind it is, what it reads, and what it writes.

use isa::decode::{Behind, Instruction};
use isa::operand::{Operand, Special};
use isa::table::InstructionSet;

use crate::registers::Registers;

/// Who executes an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Scalar registers.
    Scalar,
    /// Vector registers (VALU), those of matrices too.
    Vector,
    /// Memory, by addresses in vector registers.
    Memory,
    /// LDS.
    Lds,
    /// Anything else.
    Other,
}

/// Which unit multiplies matrices. Each has times of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Product {
    /// The one for short types (XDL); on CDNA2, for floats of 32 bits too.
    Short,
    /// Floats of 32 bits.
    Single,
    /// Doubles, 4 rows and columns.
    Double4,
    /// Doubles, 16 rows and columns.
    Double16,
    /// RDNA's (WMMA).
    Wave,
}

/// What hazards are about.
#[derive(Clone, Debug)]
pub struct Facts {
    /// AMD's name, without that of the encoding.
    pub name: &'static str,
    /// Who executes it.
    pub unit: Unit,
    /// Registers that it reads.
    pub reads: Registers,
    /// Registers that it writes at some time.
    pub writes: Registers,
    /// Its first two sources.
    pub factors: Registers,
    /// Its third source, or the destination that is one.
    pub sum: Registers,
    /// Scalar registers that it reads, but for masks of lanes.
    pub constants: Registers,
    /// What it stores.
    pub stored: Registers,
    /// The product of matrices that it is, and how many passes that takes.
    pub product: Option<(Product, u8)>,
    /// Which lanes are on, it writes.
    pub writes_exec: bool,
    /// M0, it writes.
    pub writes_m0: bool,
    /// M0, it reads without naming it.
    pub uses_m0: bool,
    /// Whether VCC is zero is a source.
    pub reads_vccz: bool,
    /// Whether EXEC is zero is a source.
    pub reads_execz: bool,
    /// It moves values from lane to lane by its encoding.
    pub moves_lanes: bool,
    /// It leaves the other part of the register that it writes.
    pub writes_part: bool,
    /// It writes a half of a register that is named as such: the other is not concerned.
    pub writes_half: bool,
    /// The number of the hardware's register that it sets or gets.
    pub mode: Option<u32>,
    /// Wait states that it takes; of RDNA, vector instructions that it is.
    pub states: u32,
    /// Whether all vector instructions before have ended when it begins.
    pub awaits_vectors: bool,
}

impl Facts {
    /// By the instruction; of RDNA, in waves of 32.
    pub fn of(set: &InstructionSet, instruction: &Instruction) -> Self {
        let (name, format) = (instruction.opcode.stem(), instruction.format.name);
        let unit = unit_of(format);
        let behind = instruction.behind;
        let moves_lanes = matches!(behind, Behind::Dpp16 | Behind::Dpp8 { .. });
        let is_setter = name.starts_with("S_SETREG");
        let mut facts = Self {
            name,
            unit,
            reads: Registers::default(),
            writes: Registers::default(),
            factors: Registers::default(),
            sum: Registers::default(),
            constants: Registers::default(),
            stored: Registers::default(),
            product: product_of(set, name),
            writes_exec: unit == Unit::Vector && name.starts_with("V_CMPX"),
            writes_m0: false,
            uses_m0: uses_m0(name) || instruction.is_set("gds") || (format == "MUBUF" && instruction.is_set("lds")),
            reads_vccz: false,
            reads_execz: false,
            moves_lanes,
            writes_part: writes_part(instruction),
            writes_half: instruction.declared("vdst").is_some_and(|to| instruction.names_halves(set, to.bits)),
            mode: (is_setter || name == "S_GETREG_B32").then(|| instruction.number("simm16") & 63),
            states: match name {
                _ if set.is_rdna() => u32::from(unit == Unit::Vector),
                "S_NOP" => (instruction.number("simm16") & 15) + 1,
                _ => 1,
            },
            awaits_vectors: matches!(unit, Unit::Memory | Unit::Lds)
                || (name == "S_WAITCNT_DEPCTR" && instruction.number("simm16") >> 12 & 15 == 0),
        };
        let preserves = instruction.bits("dst_unused") == Some(PRESERVED);
        let wide = instruction.bits("soffset").is_none() || !offsets_by_register(set, instruction);
        for (field, used) in instruction.all_used(set, 32) {
            let is_memory = matches!(unit, Unit::Memory | Unit::Lds);
            let is_result = ["vdst", "vdstx", "vdsty", "sdst", "sdata"].contains(&field)
                || (field == "vdata" && instruction.returns(set));
            // What is compared with a constant, or put into a register of the hardware, is only read.
            let is_result = is_result && !is_setter && !name.starts_with("S_CMPK");
            let of_half = if field == "vdsty" { instruction.second.map_or(name, |second| second.stem()) } else { name };
            let also_reads = preserves || reads_destination(of_half);
            if is_result {
                facts.writes.add(used.operand, used.bits);
                facts.writes_m0 |= unit == Unit::Scalar && used.operand == Operand::Special(Special::M0);
                let of_lanes = [Operand::Special(Special::Exec), Operand::Special(Special::ExecHigh)];
                facts.writes_exec |= unit == Unit::Vector && of_lanes.contains(&used.operand);
            }
            if !is_result || also_reads || (field == "vdata" && !instruction.is_load()) {
                facts.reads.add(used.operand, used.bits);
            }
            let is_mask = instruction.declared(field).is_some_and(|declared| declared.format == "M64");
            if field.contains("src") && !is_mask {
                facts.constants.add(used.operand, used.bits);
            }
            match field {
                "src0" | "src1" | "vsrc1" => facts.factors.add(used.operand, used.bits),
                "src2" => facts.sum.add(used.operand, used.bits),
                "vdst" if also_reads => facts.sum.add(used.operand, used.bits),
                "data" | "vdata" | "vsrc" if is_memory && !instruction.is_load() && used.bits > 64 && wide => {
                    facts.stored.add(used.operand, used.bits);
                }
                _ => {}
            }
            facts.reads_vccz |= unit == Unit::Vector && used.operand == Operand::Special(Special::Vccz);
            facts.reads_execz |= unit == Unit::Vector && used.operand == Operand::Special(Special::Execz);
        }
        facts.constants = facts.constants.scalars();
        facts.add_unnamed(set, instruction);
        facts
    }

    /// The mask that instructions read and write without naming it.
    fn add_unnamed(&mut self, set: &InstructionSet, instruction: &Instruction) {
        let vcc = (Operand::Special(Special::Vcc), if set.is_rdna() { 32 } else { 64 });
        let (name, format) = (self.name, instruction.format.name);
        let carries = format == "VOP2" && name.contains("_CO_");
        let compares = format == "VOPC" && instruction.destination_behind(set).is_none();
        if carries || (compares && !(set.is_rdna() && name.starts_with("V_CMPX"))) {
            self.writes.add(vcc.0, vcc.1);
        }
        let takes_carry = ["V_ADDC_", "V_SUBB_", "V_SUBBREV_"].iter().any(|start| name.starts_with(start));
        let takes_carry = carries && (takes_carry || name.contains("_CI_"));
        if takes_carry || (format == "VOP2" && name.starts_with("V_CNDMASK")) || name.starts_with("V_DIV_FMAS") {
            self.reads.add(vcc.0, vcc.1);
        }
        if name == "V_SWAP_B32" {
            self.writes = self.writes.with(self.reads);
        }
    }

    /// Whether it is a vector instruction, but no product of matrices.
    pub fn is_plain(&self) -> bool {
        self.unit == Unit::Vector && self.product.is_none()
    }

    /// Whether it loads or stores, memory or LDS.
    pub fn is_transfer(&self) -> bool {
        matches!(self.unit, Unit::Memory | Unit::Lds)
    }

    /// Whether it is a product of doubles.
    pub fn is_double(&self) -> bool {
        matches!(self.product, Some((Product::Double4 | Product::Double16, _)))
    }

    /// Whether it is a product of few short numbers that is added to a third.
    pub fn is_dot(&self) -> bool {
        self.name.starts_with("V_DOT")
    }

    /// Whether it is one of the functions that a unit of its own computes.
    pub fn is_transcendental(&self) -> bool {
        let function = self.name.strip_prefix("V_").and_then(|name| name.rsplit_once("_F"));
        function.is_some_and(|(function, _)| TRANSCENDENTAL.contains(&function))
    }
}

/// Passes that a product of matrices takes at most.
pub const MOST_PASSES: u8 = 16;
/// Functions of a unit of its own.
const TRANSCENDENTAL: [&str; 10] =
    ["EXP", "LOG", "RCP", "RCP_IFLAG", "RSQ", "SQRT", "SIN", "COS", "EXP_LEGACY", "LOG_LEGACY"];
/// What an instruction says that leaves the parts of a word that it does not make (SDWA).
const PRESERVED: u32 = 2;
/// A whole word, likewise.
const WHOLE: u32 = 6;

fn unit_of(format: &str) -> Unit {
    match format {
        "SOP1" | "SOP2" | "SOPC" | "SOPK" => Unit::Scalar,
        "FLAT" | "GLOBAL" | "SCRATCH" | "MUBUF" | "MTBUF" | "MIMG" | "VFLAT" | "VGLOBAL" | "VSCRATCH" | "VBUFFER" => {
            Unit::Memory
        }
        "DS" => Unit::Lds,
        _ if format.starts_with("VOP") => Unit::Vector,
        _ => Unit::Other,
    }
}

fn uses_m0(name: &str) -> bool {
    let starts = ["S_SENDMSG", "S_TTRACEDATA", "S_MOVREL", "DS_GWS_"];
    starts.iter().any(|start| name.starts_with(start)) || name.contains("_ADDTID_") || name.contains("_LOAD_LDS_")
}

/// Whether an instruction writes one part of a register, by its own choice.
fn writes_part(instruction: &Instruction) -> bool {
    match instruction.bits("dst_sel") {
        Some(part) => part != WHOLE,
        None => instruction.format.name == "VOP3" && instruction.number("opsel") & 8 != 0,
    }
}

fn reads_destination(name: &str) -> bool {
    ["MAC_", "V_DOT2C_", "V_DOT4C_", "V_DOT8C_", "V_WRITELANE", "V_SWAP_"].iter().any(|part| name.contains(part))
}

fn offsets_by_register(set: &InstructionSet, instruction: &Instruction) -> bool {
    let offset = instruction.operand(set, "soffset");
    matches!(offset, Some(Operand::Scalar(_) | Operand::Special(Special::M0 | Special::Vcc | Special::VccHigh)))
}

/// The unit and the passes of a product of matrices (V_MFMA_F32_16X16X4_4B_F16).
fn product_of(set: &InstructionSet, name: &str) -> Option<(Product, u8)> {
    if name.starts_with("V_WMMA_") {
        return Some((Product::Wave, 0));
    }
    let mut sizes = name.strip_prefix("V_MFMA_")?.split_once('_')?.1.splitn(3, 'X');
    let side: u32 = sizes.next()?.parse().ok()?;
    let end = sizes.nth(1)?;
    let digits = end.find(|each: char| !each.is_ascii_digit())?;
    let depth: u32 = end[..digits].parse().ok()?;
    let is_newer = set.name == "cdna3";
    let product = match (side, end.ends_with("F64")) {
        (4, true) => Product::Double4,
        (_, true) => Product::Double16,
        (_, false) if is_newer && end.ends_with("F32") && !end.ends_with("XF32") => Product::Single,
        _ => Product::Short,
    };
    let passes = match (side, depth) {
        (4, _) if product == Product::Double4 => 4,
        (4, _) => 2,
        (16, 8..) if is_newer => 4,
        (16, _) => 8,
        (_, 8..) if is_newer => 8,
        (_, 4) if end.ends_with("XF32") => 8,
        _ => 16,
    };
    Some((product, passes))
}
