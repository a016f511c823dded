//! Kinds of work, so that who executes an instruction need not look at its name.

use isa::decode::Instruction;
use isa::table::InstructionSet;

use crate::scalar::{self, Prepared};
use crate::state::Wave;

/// What kind of work an instruction is.
#[derive(Clone, Debug)]
pub enum Role {
    /// The end of the wave.
    End,
    /// A barrier of all waves.
    Barrier,
    /// The first half of one.
    SignalAtBarrier,
    /// The second.
    AwaitBarrier,
    /// A jump by so many words, if something holds.
    Branch {
        /// What has to hold.
        taken: fn(&Wave) -> bool,
        /// How far.
        words: isize,
    },
    /// A jump to an address, or a question for one.
    Jump,
    /// Nothing that is of interest here.
    Nothing,
    /// It is not known.
    Unknown,
    /// Scalar registers.
    Scalar(Prepared),
    /// Loads of scalar registers.
    ScalarLoad,
    /// Loads and stores of LDS.
    Lds,
    /// Loads and stores of memory.
    Memory,
    /// Likewise, of a part that a descriptor in scalar registers says.
    Buffer,
    /// Vector registers.
    Vector,
}

impl Role {
    /// Of an instruction with this name.
    pub fn of(set: &'static InstructionSet, instruction: &Instruction, name: &str) -> Self {
        let ends = |ends: [&str; 2]| ends.iter().any(|end| name.ends_with(end));
        match instruction.format.name {
            "SOPP" => control(instruction, name),
            "SOP1" if name.contains("PC_B64") => Self::Jump,
            "SOP1" | "SOP2" | "SOPC" | "SOPK" => match name {
                "S_WAITCNT_VSCNT" | "S_WAITCNT_VMCNT" | "S_WAITCNT_EXPCNT" | "S_WAITCNT_LGKMCNT" => Self::Nothing,
                "S_BARRIER_SIGNAL" => Self::SignalAtBarrier,
                _ => Self::Scalar(scalar::prepare(set, instruction, name)),
            },
            "SMEM" => Self::ScalarLoad,
            "DS" => Self::Lds,
            "VGLOBAL" if ends(["_INV", "_WB"]) => Self::Nothing,
            "FLAT" | "GLOBAL" | "VFLAT" | "VGLOBAL" => Self::Memory,
            "MUBUF" if ends(["_INV", "_WBL2"]) => Self::Nothing,
            "MUBUF" => Self::Buffer,
            _ => Self::Vector,
        }
    }
}

fn control(instruction: &Instruction, name: &str) -> Role {
    let taken: fn(&Wave) -> bool = match name {
        "S_ENDPGM" => return Role::End,
        "S_BARRIER" => return Role::Barrier,
        "S_BARRIER_WAIT" => return Role::AwaitBarrier,
        "S_BRANCH" => |_| true,
        "S_CBRANCH_SCC0" => |wave| !wave.scc,
        "S_CBRANCH_SCC1" => |wave| wave.scc,
        "S_CBRANCH_VCCZ" => |wave| wave.vcc & wave.all() == 0,
        "S_CBRANCH_VCCNZ" => |wave| wave.vcc & wave.all() != 0,
        "S_CBRANCH_EXECZ" => |wave| wave.exec & wave.all() == 0,
        "S_CBRANCH_EXECNZ" => |wave| wave.exec & wave.all() != 0,
        "S_NOP"
        | "S_WAITCNT"
        | "S_DELAY_ALU"
        | "S_CLAUSE"
        | "S_SENDMSG"
        | "S_WAITCNT_DEPCTR"
        | "S_SLEEP"
        | "S_SET_INST_PREFETCH_DISTANCE"
        | "S_ICACHE_INV"
        | "S_SETPRIO" => return Role::Nothing,
        _ if name.starts_with("S_WAIT_") => return Role::Nothing,
        _ => return Role::Unknown,
    };
    Role::Branch { taken, words: instruction.number("simm16") as u16 as i16 as isize }
}
