//! The text of constants that have a meaning of their own: counts to wait for, lanes, parts of words.

use std::fmt::Write;

use crate::decode::Instruction;
use crate::table::InstructionSet;

/// A constant of 16 bits of an instruction that has nothing else; None if it is not written.
pub fn text(set: &InstructionSet, opcode: &str, constant: u16) -> Option<String> {
    Some(match opcode {
        "S_WAITCNT" => waits(set, constant),
        "S_WAITCNT_DEPCTR" | "S_WAIT_ALU" => dependencies(constant),
        "S_DELAY_ALU" => delays(constant),
        "S_NOP" | "S_SETPRIO" | "S_SLEEP" | "S_TRAP" => constant.to_string(),
        "S_SENDMSG" => messages(constant),
        _ if opcode.contains("BRANCH") || opcode.starts_with("S_CALL") => constant.to_string(),
        "S_ENDPGM" | "S_BARRIER" | "S_ICACHE_INV" | "S_WAKEUP" | "S_CODE_END" => return None,
        _ => format!("{constant:#x}"),
    })
}

/// How many operations of each kind may still be under way.
pub struct Waits {
    /// Reads of memory by vector registers.
    pub vector: u16,
    /// Exports.
    pub exports: u16,
    /// LDS, messages and reads by scalar registers.
    pub lds: u16,
    /// What the three are where nothing is waited for.
    pub most: [u16; 3],
}

impl Waits {
    /// The counts of an `s_waitcnt`.
    pub fn of(set: &InstructionSet, constant: u16) -> Self {
        if set.is_rdna() {
            Self { vector: constant >> 10, exports: constant & 7, lds: constant >> 4 & 63, most: [63, 7, 63] }
        } else {
            let vector = constant & 15 | constant >> 10 & 48;
            Self { vector, exports: constant >> 4 & 7, lds: constant >> 8 & 15, most: [63, 7, 15] }
        }
    }
}

fn waits(set: &InstructionSet, constant: u16) -> String {
    let found = Waits::of(set, constant);
    let counts = [("vmcnt", found.vector), ("expcnt", found.exports), ("lgkmcnt", found.lds)];
    let all = counts.iter().zip(found.most).all(|((_, count), most)| *count == most);
    let written = counts.iter().zip(found.most).filter(|((_, count), most)| all || count != most);
    written.map(|((name, count), _)| format!("{name}({count})")).collect::<Vec<_>>().join(" ")
}

/// Name, lowest bit and bits of each count of `s_waitcnt_depctr`; all ones wait for nothing.
const DEPENDENCIES: [(&str, u16, u16); 7] = [
    ("hold_cnt", 7, 1),
    ("sa_sdst", 0, 1),
    ("va_vdst", 12, 4),
    ("va_sdst", 9, 3),
    ("va_ssrc", 8, 1),
    ("va_vcc", 1, 1),
    ("vm_vsrc", 2, 3),
];

fn dependencies(constant: u16) -> String {
    let counts = DEPENDENCIES.map(|(name, low, bits)| (name, constant >> low & ((1 << bits) - 1), (1 << bits) - 1));
    let written = counts.iter().filter(|(_, count, most)| count != most);
    written.map(|(name, count, _)| format!("depctr_{name}({count})")).collect::<Vec<_>>().join(" ")
}

const DELAYS: [&str; 12] = [
    "NO_DEP",
    "VALU_DEP_1",
    "VALU_DEP_2",
    "VALU_DEP_3",
    "VALU_DEP_4",
    "TRANS32_DEP_1",
    "TRANS32_DEP_2",
    "TRANS32_DEP_3",
    "FMA_ACCUM_CYCLE_1",
    "SALU_CYCLE_1",
    "SALU_CYCLE_2",
    "SALU_CYCLE_3",
];
const SKIPS: [&str; 6] = ["SAME", "NEXT", "SKIP_1", "SKIP_2", "SKIP_3", "SKIP_4"];

fn delays(constant: u16) -> String {
    let [first, skip, second] = [constant & 15, constant >> 4 & 7, constant >> 7 & 15].map(usize::from);
    let name = |names: &[&'static str], place: usize| names.get(place).copied().unwrap_or("?");
    let parts = [
        (first != 0).then(|| format!("instid0({})", name(&DELAYS, first))),
        (skip != 0).then(|| format!("instskip({})", name(&SKIPS, skip))),
        (second != 0).then(|| format!("instid1({})", name(&DELAYS, second))),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" | ")
}

fn messages(constant: u16) -> String {
    match constant {
        1 => "sendmsg(MSG_INTERRUPT)".into(),
        3 => "sendmsg(MSG_DEALLOC_VGPRS)".into(),
        _ => format!("{constant:#x}"),
    }
}

/// Which lane of its row a lane takes its value from.
pub fn dpp16(set: &InstructionSet, instruction: &Instruction, text: &mut String) {
    let control = instruction.number("dpp");
    let count = control & 15;
    let _ = match control {
        0..=0xff => {
            let lanes = [0, 2, 4, 6].map(|shift| (control >> shift & 3).to_string());
            write!(text, " quad_perm:[{}]", lanes.join(","))
        }
        0x101..=0x10f => write!(text, " row_shl:{count}"),
        0x111..=0x11f => write!(text, " row_shr:{count}"),
        0x121..=0x12f => write!(text, " row_ror:{count}"),
        0x130 => write!(text, " wave_shl:1"),
        0x134 => write!(text, " wave_rol:1"),
        0x138 => write!(text, " wave_shr:1"),
        0x13c => write!(text, " wave_ror:1"),
        0x140 => write!(text, " row_mirror"),
        0x141 => write!(text, " row_half_mirror"),
        0x142 => write!(text, " row_bcast:15"),
        0x143 => write!(text, " row_bcast:31"),
        0x150..=0x15f if set.is_rdna() => write!(text, " row_share:{count}"),
        0x150..=0x15f => write!(text, " row_newbcast:{count}"),
        0x160..=0x16f => write!(text, " row_xmask:{count}"),
        _ => write!(text, " dpp:{control:#x}"),
    };
    let _ = write!(text, " row_mask:{:#x}", instruction.number("row_mask"));
    let _ = write!(text, " bank_mask:{:#x}", instruction.number("bank_mask"));
    for (name, written) in [("bc", " bound_ctrl:1"), ("fi", " fi:1")] {
        if instruction.is_set(name) {
            text.push_str(written);
        }
    }
}

/// Which lane of its group of 8 each lane takes its value from.
pub fn dpp8(instruction: &Instruction, fetch_inactive: bool, text: &mut String) {
    let lanes = (0..8).map(|lane| instruction.number(&format!("lane_sel_{lane}")).to_string());
    let _ = write!(text, " dpp8:[{}]", lanes.collect::<Vec<_>>().join(","));
    if fetch_inactive {
        text.push_str(" fi:1");
    }
}

const PARTS: [&str; 8] = ["BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3", "WORD_0", "WORD_1", "DWORD", "?"];
const UNUSED: [&str; 4] = ["UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE", "?"];

/// Which parts of words are taken and made.
pub fn sdwa(instruction: &Instruction, text: &mut String) {
    if instruction.is_set("clmp") {
        text.push_str(" clamp");
    }
    if let Some(part) = instruction.bits("dst_sel") {
        let unused = UNUSED[instruction.number("dst_unused") as usize & 3];
        let _ = write!(text, " dst_sel:{} dst_unused:{unused}", PARTS[part as usize & 7]);
    }
    let has_second = instruction.declared("vsrc1").is_some();
    for name in ["src0_sel", "src1_sel"].into_iter().take(1 + usize::from(has_second)) {
        let _ = write!(text, " {name}:{}", PARTS[instruction.number(name) as usize & 7]);
    }
}
