//! The code of a kernel, decoded.

use std::sync::OnceLock;

use isa::decode::{Instruction, decode};
use isa::operand::Operand;
use isa::table::{InstructionSet, Kind};

use crate::hazards::Spacing;
use crate::lane::{Does, does, does_limited};
use crate::names::usual;
use crate::registers::Registers;
use crate::role::Role;
use crate::state::{SCALARS, VECTORS, is_known};
use crate::vector::{Prepared, prepare};
use crate::waits::Awaited;

/// Code by the place of its words.
#[derive(Debug)]
pub struct Program {
    /// Its instruction set.
    pub set: &'static InstructionSet,
    /// The card that executes it: not all with a set have the same hazards.
    card: String,
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
    /// RDNA3's name for it, without that of its encoding.
    pub(crate) name: String,
    /// Why it cannot be executed, as far as its operands tell.
    pub(crate) refused: Option<String>,
    /// What kind of work it is.
    pub(crate) role: Role,
    /// What it does in each lane, if it is a vector instruction that does something in each.
    pub(crate) does: Option<Does>,
    /// Likewise, of the second of two in one.
    pub(crate) second: Option<Does>,
    /// What it reads and writes, if it is a vector instruction.
    pub(crate) vector: Prepared,
    /// What it has to do with waiting.
    pub(crate) awaited: Awaited,
    /// What it has to do with hazards.
    pub(crate) spacing: Spacing,
    /// All registers that it names.
    pub(crate) touched: Registers,
}

impl std::fmt::Debug for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.instruction)
    }
}

impl Program {
    /// The code for a card whose first word lies at an address.
    ///
    /// # Errors
    /// If the card's instructions are not known.
    pub fn new(card: &str, start: u64, words: Vec<u32>) -> Result<Self, String> {
        let set = isa::of_card(card).ok_or_else(|| format!("{card} has no instruction set here"))?;
        let steps = words.iter().map(|_| OnceLock::new()).collect();
        Ok(Self { set, card: card.into(), start, words, steps })
    }

    /// Its words.
    pub fn words(&self) -> &[u32] {
        &self.words
    }

    /// Its instructions, one after another, and whether each has been executed.
    pub fn instructions(&self) -> impl Iterator<Item = (Instruction, bool)> {
        let mut place = 0;
        std::iter::from_fn(move || {
            while place < self.words.len() {
                let first = place;
                match decode(self.set, &self.words[place..]) {
                    Ok(instruction) => {
                        place += instruction.bytes / 4;
                        return Some((instruction, self.steps[first].get().is_some()));
                    }
                    Err(_) => place += 1,
                }
            }
            None
        })
    }

    /// The instruction at a place.
    pub fn step(&self, place: usize) -> Option<&Step> {
        let decoded = || {
            let instruction = decode(self.set, &self.words[place..]).ok()?;
            let second = instruction.second.and_then(|second| does(&usual(self.set, second)));
            let name = usual(self.set, instruction.opcode);
            let does = if instruction.is_set("clmp") { does_limited(&name) } else { does(&name) };
            let (vector, awaited) = (prepare(self.set, &instruction, &name), Awaited::of(self.set, &instruction));
            let (refused, touched) = (unknown_operand(self.set, &instruction), awaited.touched());
            let (role, spacing) =
                (Role::of(self.set, &instruction, &name), Spacing::of(self.set, &self.card, &instruction));
            Some(Box::new(Step { instruction, name, refused, role, does, second, vector, awaited, spacing, touched }))
        };
        self.steps.get(place)?.get_or_init(decoded).as_deref()
    }
}

/// What an instruction says of the parts of a word that it does not make (SDWA): that they are those of the sign.
const SIGN_EXTENDED: u32 = 1;

/// What is wrong with an instruction that uses a register that is not known, or bits that name nothing.
fn unknown_operand(set: &InstructionSet, instruction: &Instruction) -> Option<String> {
    if instruction.bits("dst_unused") == Some(SIGN_EXTENDED) {
        return Some("the sign in the unused part of a word is not known".into());
    }
    let fields = instruction.format.fields.iter().filter(|field| !matches!(field.kind, Kind::Bits | Kind::Opcode));
    fields.filter(|field| instruction.declared(field.name).is_some()).find_map(|field| {
        let name = field.name;
        let is_dropped = name == "vdst" && instruction.drops_result(set);
        if is_dropped || instruction.ignores(name) {
            return None;
        }
        let used = instruction.used(set, name, 64);
        let words = used.map_or(0, |used| used.bits.div_ceil(32) as usize);
        match used.map(|used| used.operand) {
            Some(Operand::Vector(first)) if first as usize % VECTORS + words > VECTORS => {
                Some(format!("registers behind v{} are not known", VECTORS - 1))
            }
            Some(Operand::Scalar(first)) if first as usize + words > SCALARS && name != "src2" => {
                Some(format!("registers behind s{} are not known", SCALARS - 1))
            }
            None => Some(format!("the bits of {name} name nothing")),
            Some(Operand::Special(special)) if !is_known(set, special) => {
                Some(format!("the register {special:?} is not known"))
            }
            Some(_) => None,
        }
    })
}
