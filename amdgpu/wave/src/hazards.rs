//! Hazards that hardware leaves to programs: an instruction that comes too soon behind another finds what was there before,
//! or something else. Between the two, a program has to do other things, or nothing for so long (S_NOP).

mod facts;
mod rules;
pub mod scan;
#[cfg(test)]
mod tests;

use isa::decode::{Instruction, decode};
use isa::table::InstructionSet;

use crate::program::{Program, Step};
use crate::registers::{Register, Registers};
use facts::{Facts, MOST_PASSES, Product};
use rules::{FORMERS, Former, Later, Rule};

/// Wait states that are remembered: more than any rule asks for.
const LAST: usize = 32;

/// For each kind of what instructions do, a bit for each of the last wait states, the latest one lowest.
type Bits = [u32; FORMERS];

/// What an instruction has to do with hazards.
#[derive(Clone, Debug)]
pub struct Spacing {
    /// Wait states that it takes.
    states: u32,
    words: usize,
    /// Whether all vector instructions before have ended when it begins.
    awaits_vectors: bool,
    /// The kinds of what it does.
    marks: Bits,
    /// Where something may stand that it comes too early behind.
    watched: Bits,
    done: Vec<Done>,
    needs: Vec<Need>,
}

/// Something that others may come too early behind.
#[derive(Clone, Debug)]
struct Done {
    former: Former,
    registers: Registers,
    product: Option<(Product, u8)>,
    /// The name of a product of few numbers, and the number of the hardware's register.
    name: &'static str,
    mode: Option<u32>,
}

/// Something that may be done too early.
#[derive(Clone, Debug)]
struct Need {
    later: Later,
    registers: Registers,
    name: &'static str,
    mode: Option<u32>,
    rules: Vec<&'static Rule>,
    /// How far back each kind matters, as the bits of so many wait states.
    watched: Vec<(Former, u32)>,
}

impl Spacing {
    /// By the instruction, for a card.
    pub fn of(set: &InstructionSet, card: &str, instruction: &Instruction) -> Self {
        let facts = Facts::of(set, instruction);
        let Facts { name, mode, product, .. } = facts;
        let done = Former::of(&facts).into_iter();
        let done: Vec<_> = done.map(|(former, registers)| Done { former, registers, product, name, mode }).collect();
        let needs = Later::of(&facts).into_iter().map(|(later, registers)| {
            let rules: Vec<_> = Rule::of(set, card).filter(|rule| rule.later.is_met_by(later)).collect();
            let mut watched = Vec::new();
            for rule in &rules {
                let window = (1 << rule.needed.states(MOST_PASSES)) - 1;
                match watched.iter_mut().find(|(former, _)| *former == rule.former) {
                    Some((_, whole)) => *whole |= window,
                    None => watched.push((rule.former, window)),
                }
            }
            Need { later, registers, name, mode, rules, watched }
        });
        let needs: Vec<_> = needs.filter(|need| !need.rules.is_empty()).collect();
        let (mut marks, mut watched) = (Bits::default(), Bits::default());
        for Done { former, .. } in &done {
            marks[*former as usize] = 1;
        }
        for (former, window) in needs.iter().flat_map(|need| &need.watched) {
            watched[*former as usize] |= window;
        }
        let Facts { states, awaits_vectors, .. } = facts;
        Self { states, words: instruction.bytes / 4, awaits_vectors, marks, watched, done, needs }
    }
}

impl Need {
    /// How many wait states it needs behind what was done.
    fn states(&self, done: &Done, between: impl Fn(Former) -> u32) -> u32 {
        let is_same = done.former == Former::Product && done.registers == self.registers;
        let rules = self.rules.iter().filter(|rule| rule.former == done.former);
        let rules = rules.filter(|rule| match (rule.later, rule.former) {
            (Later::SameSum(_), _) => is_same,
            (Later::Sum(_), _) => !is_same,
            (Later::DotSum, _) => done.name != self.name,
            (Later::Mode, _) => done.mode == self.mode,
            (Later::PlainWritten, Former::Dot) => done.name != self.name,
            _ => true,
        });
        let rules =
            rules.filter(|rule| rule.product.is_none_or(|product| done.product.is_some_and(|(of, _)| of == product)));
        let rules = rules.filter(|rule| rule.across.is_none_or(|other| between(other) > 0));
        let rules = rules.filter(|rule| between(rule.former) <= rule.most);
        rules.map(|rule| rule.needed.states(done.product.map_or(0, |(_, passes)| passes))).max().unwrap_or(0)
    }
}

/// What a wave has done last.
#[derive(Clone, Debug, Default)]
pub struct Hazards {
    bits: Bits,
    /// Where the instructions stand, by wait states.
    places: [u32; LAST],
    /// Wait states that have gone by.
    now: usize,
    /// Where the next instruction stands if the last one is no jump.
    next: usize,
}

impl Hazards {
    /// Notes an instruction that is about to be executed, at a place in the program.
    ///
    /// # Errors
    /// If it comes too soon behind another.
    #[inline]
    pub fn note(&mut self, program: &Program, place: usize, spacing: &Spacing) -> Result<(), String> {
        if place != self.next {
            self.jump(program);
        }
        let mut watched = 0;
        for (bits, needed) in self.bits.iter().zip(&spacing.watched) {
            watched |= bits & needed;
        }
        if watched != 0 {
            self.check(program, spacing)?;
        }
        self.execute(spacing.states, spacing, place);
        Ok(())
    }

    /// Lets an instruction be executed, in so many wait states.
    fn execute(&mut self, states: u32, spacing: &Spacing, place: usize) {
        if spacing.awaits_vectors {
            self.bits[Former::Transcendental as usize] = 0;
        }
        self.pass(states, &spacing.marks, place);
        self.next = place + spacing.words;
    }

    /// Counts the jump behind one that is made: AMD's compiler takes the two for a step of two wait states, whichever of them
    /// is made. It is no more than a jump takes.
    fn jump(&mut self, program: &Program) {
        let Some(last) = self.now.checked_sub(1) else { return };
        let last = program.step(self.places[last % LAST] as usize).map(|step| step.instruction.opcode.name);
        // Not looked up as a step: nobody executes it.
        let skipped = program.words().get(self.next..).and_then(|words| decode(program.set, words).ok());
        let skips_jump = skipped.is_some_and(|skipped| skipped.opcode.name == "S_BRANCH");
        if skips_jump && last.is_some_and(|name| name.starts_with("S_CBRANCH")) {
            self.pass(1, &Bits::default(), self.next);
        }
    }

    /// Lets wait states go by, in the first of which something was done.
    fn pass(&mut self, states: u32, marks: &Bits, place: usize) {
        if states == 0 {
            return;
        }
        for (bits, mark) in self.bits.iter_mut().zip(marks) {
            *bits = (*bits << 1 | mark) << (states - 1);
        }
        self.places[self.now % LAST] = place as u32;
        self.now += states as usize;
    }

    fn check(&self, program: &Program, spacing: &Spacing) -> Result<(), String> {
        for need in &spacing.needs {
            for (former, window) in &need.watched {
                let bits = self.bits[*former as usize] & window;
                if bits != 0 {
                    self.check_behind(program, need, *former, bits)?;
                }
            }
        }
        Ok(())
    }

    /// Checks behind what was done in some of the last wait states.
    fn check_behind(&self, program: &Program, need: &Need, former: Former, mut bits: u32) -> Result<(), String> {
        let mut left = need.registers;
        while bits != 0 {
            let ago = bits.trailing_zeros();
            bits &= bits - 1;
            let place = self.places[(self.now - 1 - ago as usize) % LAST];
            let Some(step) = program.step(place as usize) else { continue };
            let Some(done) = step.spacing.done.iter().find(|done| done.former == former) else { continue };
            let common = done.registers.both(left);
            if !done.registers.is_empty() && common.is_empty() {
                continue;
            }
            let between = |other: Former| (self.bits[other as usize] & ((1 << ago) - 1)).count_ones();
            let needed = need.states(done, between);
            if ago < needed {
                return Err(told((program, step), common.first(), need, former, (ago, needed)));
            }
            // Who did the same before does not matter any more.
            left = left.without(common);
            if left.is_empty() {
                break;
            }
        }
        Ok(())
    }
}

/// A rule that is broken, in words.
fn told(
    (program, step): (&Program, &Step),
    register: Option<Register>,
    need: &Need,
    former: Former,
    (ago, needed): (u32, u32),
) -> String {
    let subject = match (former, register) {
        (_, Some(register)) => register.to_string(),
        (Former::Exec, None) => "exec".into(),
        (Former::M0, None) => "m0".into(),
        (Former::Mode, None) => format!("hardware register {}", need.mode.unwrap_or_default()),
        _ => "the unit for doubles".into(),
    };
    let used = if need.later.is_write() { "written" } else { "used" };
    let unit = if program.set.is_rdna() { "vector instruction" } else { "wait state" };
    let count = if ago == 1 { format!("1 {unit}") } else { format!("{ago} {unit}s") };
    let did = match former {
        Former::Sum => "read it",
        Former::Stored => "stored it",
        Former::Double => "began",
        _ => "wrote it",
    };
    let are = if needed == 1 { "is" } else { "are" };
    format!("{subject} is {used} {count} after {} {did}, and {needed} {are} needed", step.name)
}
