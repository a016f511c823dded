//! Instructions as text, as LLVM writes them.

use std::fmt::Write;

use crate::constants;
use crate::decode::{Behind, Instruction};
use crate::operand::{ACCUMULATORS, Operand, Special, Used};
use crate::table::InstructionSet;

/// An instruction's text, for waves of so many lanes.
pub fn text(set: &'static InstructionSet, instruction: &Instruction, lanes: u32) -> String {
    Text { set, instruction, lanes }.whole()
}

struct Text<'a> {
    set: &'static InstructionSet,
    instruction: &'a Instruction,
    lanes: u32,
}

impl Text<'_> {
    fn whole(&self) -> String {
        match self.format() {
            "VOPD" => self.two_in_one(),
            "SOPP" => self.with(self.constant().into_iter().collect()),
            _ => self.with(self.operands()) + &self.modifiers(),
        }
    }

    fn with(&self, operands: Vec<String>) -> String {
        let name = self.name();
        if operands.is_empty() { name } else { format!("{name} {}", operands.join(", ")) }
    }

    fn format(&self) -> &'static str {
        self.instruction.format.name
    }

    fn is_rdna(&self) -> bool {
        self.set.is_rdna()
    }

    fn two_in_one(&self) -> String {
        let half = |part: &str, name: &str| {
            let literal = |at_end: bool| {
                let wanted = if at_end { "AAK" } else { "AMK" };
                name.contains(wanted).then(|| format!("{:#x}", self.instruction.literal()))
            };
            let operands = [
                self.operand(&format!("vdst{part}")),
                self.operand(&format!("src{part}0")),
                literal(false),
                self.operand(&format!("vsrc{part}1")),
                literal(true),
            ];
            let operands: Vec<_> = operands.into_iter().flatten().collect();
            format!("{} {}", name.to_lowercase(), operands.join(", "))
        };
        let second = self.instruction.second.map_or("", |second| second.name);
        format!("{} :: {}", half("x", self.instruction.opcode.name), half("y", second))
    }

    fn name(&self) -> String {
        let stem = self.instruction.opcode.stem().replace("V_MAD_MIX", "V_FMA_MIX");
        let stem = if matches!(&*stem, "V_ACCVGPR_READ" | "V_ACCVGPR_WRITE") { stem + "_B32" } else { stem };
        let only_short = ONLY_SHORT.iter().any(|start| stem.starts_with(start));
        let has_short_form = !only_short && self.set.has(&format!("{stem}_E32"));
        let end = match self.instruction.behind {
            Behind::Dpp16 | Behind::Dpp8 { .. } => "_dpp",
            Behind::Sdwa => "_sdwa",
            _ if !has_short_form => "",
            _ if self.instruction.format.bytes == 8 => "_e64",
            _ => "_e32",
        };
        stem.to_lowercase() + end
    }

    /// The constant of an instruction that has nothing else.
    fn constant(&self) -> Option<String> {
        self.instruction.declared("simm16")?;
        constants::text(self.set, self.instruction.opcode.name, self.instruction.number("simm16") as u16)
    }

    /// The operands' fields, in LLVM's order.
    fn order(&self) -> &'static [&'static str] {
        match self.format() {
            "DS" => &["vdst", "addr", "data0", "data1"],
            "FLAT" | "GLOBAL" | "SCRATCH" => &["vdst", "addr", "data", "saddr"],
            "VFLAT" | "VGLOBAL" | "VSCRATCH" => &["vdst", "vaddr", "vsrc", "saddr"],
            "SMEM" => &["sdata", "sbase", "soffset"],
            "MUBUF" | "MTBUF" => &["vdata", "vaddr", "srsrc", "soffset"],
            _ => &["vdst", "sdst", "ssrc0", "src0", "ssrc1", "src1", "vsrc1", "src2", "simm16"],
        }
    }

    fn operands(&self) -> Vec<String> {
        let opcode = self.instruction.opcode.name;
        let vcc = || register(Operand::Special(Special::Vcc), self.lanes / 32);
        let mut found = Vec::new();
        if self.format() == "VOPC" && !(self.is_rdna() && opcode.contains("CMPX")) {
            let elsewhere = self.instruction.destination_behind(self.set);
            found.push(elsewhere.map_or_else(vcc, |operand| register(operand, self.lanes / 32)));
        }
        let carries = ["_CO_CI_U32_E32", "V_ADDC_CO_U32_E32", "V_SUBB_CO_U32_E32", "V_SUBBREV_CO_U32_E32"];
        let takes_carry = carries.iter().any(|end| opcode.ends_with(end));
        let makes_carry = takes_carry || (self.format() == "VOP2" && opcode.contains("_CO_U32"));
        for name in self.order() {
            if *name == "vdst" && (opcode.contains("V_CMPX") || self.instruction.drops_result(self.set)) {
                continue;
            }
            found.extend(self.operand(name));
            if *name == "vdst" && makes_carry {
                found.push(vcc());
            }
            let literal = match (*name, opcode) {
                ("src0", opcode) if opcode.starts_with("V_FMAMK") || opcode.starts_with("V_MADMK") => true,
                ("vsrc1", opcode) if opcode.starts_with("V_FMAAK") || opcode.starts_with("V_MADAK") => true,
                _ => false,
            };
            if literal {
                found.push(format!("{:#x}", self.instruction.literal()));
            }
        }
        if takes_carry || opcode == "V_CNDMASK_B32_E32" {
            found.push(vcc());
        }
        found
    }

    fn operand(&self, name: &str) -> Option<String> {
        self.instruction.declared(name)?;
        if (self.format(), name) == ("MUBUF", "vaddr") && self.instruction.ignores(name) {
            return Some("off".into());
        }
        if name == "simm16" {
            return Some(format!("{:#x}", self.instruction.number(name)));
        }
        let Used { operand, bits } = self.instruction.used(self.set, name, self.lanes)?;
        match (self.format(), name) {
            ("SMEM", "soffset") => return Some(self.scalar_offset(operand)),
            ("GLOBAL" | "SCRATCH" | "FLAT" | "VGLOBAL" | "VSCRATCH" | "VFLAT", "saddr") => {
                return self.scalar_address(operand);
            }
            _ => {}
        }
        let half = self.half(name, bits, operand);
        let text = match operand {
            // What an inline constant could say.
            Operand::Literal(word) if bits <= 32 && (-16..=64).contains(&(word as i32)) => format!("lit({word:#x})"),
            Operand::Literal(word) if bits == 16 => format!("{:#x}", word & 0xffff),
            _ => register(operand, bits.div_ceil(32)) + half.unwrap_or(""),
        };
        Some(self.signed(name, text))
    }

    /// `.l` or `.h` for a half of a vector register.
    fn half(&self, name: &str, bits: u32, operand: Operand) -> Option<&'static str> {
        let Operand::Vector(_) = operand else { return None };
        if !self.instruction.names_halves(self.set, bits) {
            return None;
        }
        let high = match (self.instruction.format.bytes, name) {
            (4, "src0") if self.instruction.number("src0") & 256 == 0 => self.instruction.number("vsrc0") & 128 != 0,
            (4, _) => self.instruction.number(name) & 128 != 0,
            (_, "vdst") => self.instruction.number("opsel") & 8 != 0,
            _ => self.instruction.number("opsel") & 1 << place_of(name)? != 0,
        };
        Some(if high { ".h" } else { ".l" })
    }

    /// A source with its sign as it is taken.
    fn signed(&self, name: &str, text: String) -> String {
        let Some(place) = place_of(name) else { return text };
        let bit = |field: &str| self.instruction.number(field) >> place & 1 != 0;
        let behind = |field: &str| self.instruction.is_set(&format!("src{place}_{field}"));
        let wide = self.instruction.format.bytes == 8 && (self.format() != "VOP3P" || self.is_mixed());
        let magnitude = (wide && (bit("abs") || (self.is_mixed() && bit("neg_hi")))) || behind("abs");
        let negative = (wide && bit("neg")) || behind("neg");
        let text = if behind("sext") { format!("sext({text})") } else { text };
        let text = if magnitude { format!("|{text}|") } else { text };
        if negative { format!("-{text}") } else { text }
    }

    fn scalar_offset(&self, operand: Operand) -> String {
        let signed = self.instruction.offset();
        let offset = if signed < 0 { format!("-{:#x}", -signed) } else { format!("{signed:#x}") };
        let is_null = operand == Operand::Special(Special::Null);
        let has_register = if self.is_rdna() { !is_null } else { self.instruction.is_set("soffset_en") };
        match (has_register, signed) {
            (false, 0) if self.set.name == "rdna3" => "null".into(),
            (false, _) => offset,
            (true, 0) if self.set.name != "rdna4" => register(operand, 1),
            (true, _) => format!("{} offset:{offset}", register(operand, 1)),
        }
    }

    /// None for flat addresses, which have no base.
    fn scalar_address(&self, operand: Operand) -> Option<String> {
        match (self.format(), self.instruction.has_scalar_address(self.set)) {
            ("FLAT" | "VFLAT", _) => None,
            (_, false) => Some("off".into()),
            ("SCRATCH" | "VSCRATCH", true) => Some(register(operand, 1)),
            (_, true) => Some(register(operand, 2)),
        }
    }

    fn modifiers(&self) -> String {
        let mut text = String::new();
        match self.format() {
            "DS" => self.of_lds(&mut text),
            "FLAT" | "GLOBAL" | "SCRATCH" => self.of_flat(&mut text),
            "VFLAT" | "VGLOBAL" | "VSCRATCH" => self.of_vector_memory(&mut text),
            "MUBUF" => self.of_buffer(&mut text),
            "VOP3P_MFMA" => self.of_matrices(&mut text),
            "VOP3P" => self.of_packed(&mut text),
            "VOP3" | "VOP3_SDST" | "VOP3SD" => self.of_vector(&mut text),
            _ => {}
        }
        match self.instruction.behind {
            Behind::Dpp16 => constants::dpp16(self.set, self.instruction, &mut text),
            Behind::Dpp8 { fetch_inactive } => constants::dpp8(self.instruction, fetch_inactive, &mut text),
            Behind::Sdwa => constants::sdwa(self.instruction, &mut text),
            _ => {}
        }
        text
    }

    fn of_lds(&self, text: &mut String) {
        let [low, high] = ["offset0", "offset1"].map(|name| self.instruction.number(name));
        let two =
            ["2ADDR", "READ2", "WRITE2", "WRXCHG2"].iter().any(|part| self.instruction.opcode.name.contains(part));
        if two {
            for (name, offset) in [("offset0", low), ("offset1", high)] {
                if offset != 0 {
                    let _ = write!(text, " {name}:{offset}");
                }
            }
        } else if low | high != 0 {
            let _ = write!(text, " offset:{}", low | high << 8);
        }
        if self.instruction.is_set("gds") {
            text.push_str(" gds");
        }
    }

    fn of_flat(&self, text: &mut String) {
        let offset = self.instruction.number("offset");
        let bits = if self.format() == "FLAT" && !self.is_rdna() { 12 } else { 13 };
        let signed =
            if self.format() == "FLAT" { offset as i32 } else { (offset << (32 - bits)) as i32 >> (32 - bits) };
        if signed != 0 {
            let _ = write!(text, " offset:{signed}");
        }
        self.of_caches(text);
    }

    fn of_caches(&self, text: &mut String) {
        for name in ["sc0", "glc", "slc", "nt", "sc1", "dlc"] {
            if self.instruction.is_set(name) {
                let _ = write!(text, " {}", self.cached(name));
            }
        }
    }

    fn of_buffer(&self, text: &mut String) {
        for name in ["idxen", "offen"].iter().filter(|name| self.instruction.is_set(name)) {
            let _ = write!(text, " {name}");
        }
        if self.instruction.offset() != 0 {
            let _ = write!(text, " offset:{}", self.instruction.offset());
        }
        self.of_caches(text);
        for name in ["tfe", "lds"].iter().filter(|name| self.instruction.is_set(name)) {
            let _ = write!(text, " {name}");
        }
    }

    fn of_matrices(&self, text: &mut String) {
        // Of doubles, the last of these is the signs of the matrices.
        let last = if self.instruction.opcode.name.starts_with("V_MFMA_F64") { "neg" } else { "blgp" };
        for name in ["cbsz", "abid", last] {
            let number = self.instruction.number(name);
            if number != 0 && name == "neg" {
                let _ = write!(text, " neg:[{},{},{}]", number & 1, number >> 1 & 1, number >> 2);
            } else if number != 0 {
                let _ = write!(text, " {name}:{number}");
            }
        }
    }

    fn of_vector_memory(&self, text: &mut String) {
        let offset = (self.instruction.number("ioffset") << 8) as i32 >> 8;
        if offset != 0 {
            let _ = write!(text, " offset:{offset}");
        }
        let opcode = self.instruction.opcode.name;
        let hint = self.instruction.number("th");
        if opcode.contains("_ATOMIC_") {
            text.push_str(["", " th:TH_ATOMIC_RETURN"][hint as usize & 1]);
        } else if hint != 0 {
            let kind = if opcode.contains("STORE") { "STORE" } else { "LOAD" };
            let _ = write!(text, " th:TH_{kind}_{}", ["RT", "NT", "HT", "LU"][hint as usize & 3]);
        }
        text.push_str(
            ["", " scope:SCOPE_SE", " scope:SCOPE_DEV", " scope:SCOPE_SYS"][self.instruction.number("scope") as usize],
        );
    }

    /// What a bit about caches is called: the table has gfx942's names for gfx90a, too.
    fn cached(&self, name: &'static str) -> &'static str {
        match (self.set.name, name) {
            ("cdna2", "sc0") => "glc",
            ("cdna2", "nt") => "slc",
            ("cdna2", "sc1") => "scc",
            _ => name,
        }
    }

    /// Whether each source may be of 16 or of 32 bits.
    fn is_mixed(&self) -> bool {
        self.instruction.opcode.name.contains("_MIX")
    }

    /// How many sources the instruction has.
    fn sources(&self) -> u32 {
        let named = |place: &u32| self.instruction.declared(&format!("src{place}")).is_some();
        (0..3).filter(named).count() as u32
    }

    fn of_vector(&self, text: &mut String) {
        let selected = self.instruction.number("opsel");
        // Of a choice by a mask of lanes, the halves are in the registers' names only.
        if selected != 0 && !self.instruction.opcode.name.starts_with("V_CNDMASK") {
            let bit = |place: u32| (selected >> place & 1).to_string();
            let mut bits: Vec<_> = (0..self.sources()).map(bit).collect();
            bits.push(bit(3));
            if self.instruction.opcode.name.starts_with("V_PERMLANE") {
                bits.truncate(2);
            }
            let _ = write!(text, " op_sel:[{}]", bits.join(","));
        }
        if self.instruction.is_set("clmp") {
            text.push_str(" clamp");
        }
        text.push_str(["", " mul:2", " mul:4", " div:2"][self.instruction.number("omod") as usize & 3]);
    }

    fn of_packed(&self, text: &mut String) {
        let sources = self.sources();
        let list = |bits: u32| (0..sources).map(|place| (bits >> place & 1).to_string()).collect::<Vec<_>>().join(",");
        let all = (1 << sources) - 1;
        let number = |name| self.instruction.number(name);
        let high = (number("opsel_hi") | number("opsel_hi2") << 2) & all;
        if number("opsel") & all != 0 {
            let _ = write!(text, " op_sel:[{}]", list(number("opsel")));
        }
        if high != if self.is_mixed() { 0 } else { all } {
            let _ = write!(text, " op_sel_hi:[{}]", list(high));
        }
        for (name, field) in [("neg_lo", "neg"), ("neg_hi", "neg_hi")] {
            if number(field) & all != 0 && !self.is_mixed() {
                let _ = write!(text, " {name}:[{}]", list(number(field)));
            }
        }
        if self.instruction.is_set("clmp") {
            text.push_str(" clamp");
        }
    }
}

/// The beginnings of names of instructions that have no other form.
const ONLY_SHORT: [&str; 5] = ["V_READFIRSTLANE_B32", "V_FMAMK_", "V_FMAAK_", "V_MADMK_", "V_MADAK_"];

/// Which source a field is.
fn place_of(name: &str) -> Option<u32> {
    match name {
        "src0" => Some(0),
        "src1" | "vsrc1" => Some(1),
        "src2" => Some(2),
        _ => None,
    }
}

/// A register or constant of so many words.
fn register(operand: Operand, words: u32) -> String {
    let range = |letter: &str, first: u32| match words {
        0 | 1 => format!("{letter}{first}"),
        _ => format!("{letter}[{first}:{}]", first + words - 1),
    };
    match operand {
        Operand::Vector(first) if first >= ACCUMULATORS => range("a", first - ACCUMULATORS),
        Operand::Vector(first) => range("v", first),
        Operand::Scalar(first) => range("s", first),
        Operand::Special(Special::Trap(first)) => range("ttmp", first),
        Operand::Special(special) => named(special, words).into(),
        Operand::Integer(number) => number.to_string(),
        Operand::Float(number) => format!("{number:?}"),
        Operand::InverseOfTwoPi => "0.15915494".into(),
        Operand::Literal(word) => format!("{word:#x}"),
    }
}

fn named(special: Special, words: u32) -> &'static str {
    match (special, words) {
        (Special::FlatScratch, 2..) => "flat_scratch",
        (Special::FlatScratch, _) => "flat_scratch_lo",
        (Special::FlatScratchHigh, _) => "flat_scratch_hi",
        (Special::XnackMask, 2..) => "xnack_mask",
        (Special::XnackMask, _) => "xnack_mask_lo",
        (Special::XnackMaskHigh, _) => "xnack_mask_hi",
        (Special::Vcc, 2..) => "vcc",
        (Special::Vcc, _) => "vcc_lo",
        (Special::VccHigh, _) => "vcc_hi",
        (Special::Null, _) => "null",
        (Special::M0, _) => "m0",
        (Special::Exec, 2..) => "exec",
        (Special::Exec, _) => "exec_lo",
        (Special::ExecHigh, _) => "exec_hi",
        (Special::SharedBase, _) => "src_shared_base",
        (Special::SharedLimit, _) => "src_shared_limit",
        (Special::PrivateBase, _) => "src_private_base",
        (Special::PrivateLimit, _) => "src_private_limit",
        (Special::Vccz, _) => "src_vccz",
        (Special::Execz, _) => "src_execz",
        (Special::Scc, _) => "src_scc",
        (Special::Trap(_), _) => "ttmp",
    }
}
