//! The code of a kernel, decoded.

use std::sync::OnceLock;

use isa::decode::{Instruction, decode};
use isa::table::InstructionSet;

use crate::lane::{Does, does, does_limited};
use crate::vector::{Prepared, prepare};
use crate::waits::Awaited;

/// Code by the place of its words.
#[derive(Debug)]
pub struct Program {
    /// Its instruction set.
    pub set: &'static InstructionSet,
    /// The address of the first word.
    pub start: u64,
    words: Vec<u32>,
    /// Decoded when they are first executed: where a jump leads is not known, so each word may be the first of one.
    steps: Vec<OnceLock<Option<Box<Step>>>>,
}

/// An instruction, ready to be executed.
#[derive(Clone)]
pub struct Step {
    /// The instruction.
    pub instruction: Instruction,
    /// What it does in each lane, if it is a vector instruction that does something in each.
    pub(crate) does: Option<Does>,
    /// Likewise, of the second of two in one.
    pub(crate) second: Option<Does>,
    /// What it reads and writes, if it is a vector instruction.
    pub(crate) vector: Prepared,
    /// What it has to do with waiting.
    pub(crate) awaited: Awaited,
}

impl std::fmt::Debug for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.instruction)
    }
}

impl Program {
    /// The code whose first word lies at an address.
    pub fn new(set: &'static InstructionSet, start: u64, words: Vec<u32>) -> Self {
        let steps = words.iter().map(|_| OnceLock::new()).collect();
        Self { set, start, words, steps }
    }

    /// Its words.
    pub fn words(&self) -> &[u32] {
        &self.words
    }

    /// The instruction at a place.
    pub fn step(&self, place: usize) -> Option<&Step> {
        let decoded = || {
            let instruction = decode(self.set, &self.words[place..]).ok()?;
            let second = instruction.second.and_then(|second| does(&second.stem().replace("V_DUAL_", "V_")));
            let name = instruction.opcode.stem().replace("V_DUAL_", "V_");
            let does = if instruction.is_set("clmp") { does_limited(&name) } else { does(&name) };
            let (vector, awaited) = (prepare(self.set, &instruction), Awaited::of(self.set, &instruction));
            Some(Box::new(Step { instruction, does, second, vector, awaited }))
        };
        self.steps.get(place)?.get_or_init(decoded).as_deref()
    }
}
