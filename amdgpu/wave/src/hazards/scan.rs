//! Hazards of a program that is not executed: along all of its instructions, and where its jumps lead.

use std::collections::{BTreeMap, BTreeSet};

use super::Hazards;
use crate::program::{Program, Step};
use crate::role::Role;

/// Instructions behind which nothing matters that was before.
const FORGOTTEN: usize = 20;

/// What is found in a program.
#[derive(Debug, Default)]
pub struct Found {
    /// Instructions that come too early, by their place: in bytes from the beginning of the code.
    pub faults: BTreeSet<(u64, String)>,
    /// S_NOPs, and whether something would come too early if they were shorter by one wait state.
    pub nops: BTreeMap<u64, bool>,
}

/// All hazards of a program.
pub fn scan(program: &Program) -> Found {
    let mut scan = Scan { program, found: Found::default() };
    let (mut hazards, mut place) = (Hazards::default(), 0);
    while place < program.words().len() {
        match program.step(place) {
            Some(step) => {
                let next = place + step.instruction.bytes / 4;
                scan.follow(&mut hazards, step, place, FORGOTTEN);
                if !goes_on(step) {
                    hazards = Hazards { next, ..Hazards::default() };
                }
                place = next;
            }
            None => {
                place += 1;
                hazards = Hazards { next: place, ..Hazards::default() };
            }
        }
    }
    scan.found
}

struct Scan<'a> {
    program: &'a Program,
    found: Found,
}

impl Scan<'_> {
    /// Notes an instruction, and where else it may lead.
    fn follow(&mut self, hazards: &mut Hazards, step: &Step, place: usize, left: usize) {
        let address = |place: usize| self.program.start + 4 * place as u64;
        let before = hazards.clone();
        if let Err(what) = hazards.note(self.program, place, &step.spacing) {
            self.found.faults.insert((address(place), format!("{}: {what}", step.name)));
            // The others are looked for, too.
            hazards.execute(step.spacing.states, &step.spacing, place);
        }
        if step.instruction.opcode.name == "S_NOP" && step.spacing.states > 0 {
            let is_needed = self.is_needed(before, step, place);
            *self.found.nops.entry(address(place)).or_default() |= is_needed;
        }
        if let Some(target) = target(step, place) {
            self.walk(hazards.clone(), target, left);
        }
    }

    /// What comes too early behind a jump.
    fn walk(&mut self, mut hazards: Hazards, mut place: usize, left: usize) {
        for left in (0..left).rev() {
            let Some(step) = self.program.step(place) else { return };
            self.follow(&mut hazards, step, place, left);
            if !goes_on(step) {
                return;
            }
            place += step.instruction.bytes / 4;
        }
    }

    /// Whether something comes too early if an S_NOP is shorter by one.
    fn is_needed(&self, mut hazards: Hazards, step: &Step, place: usize) -> bool {
        hazards.execute(step.spacing.states - 1, &step.spacing, place);
        self.breaks(hazards, place + 1, FORGOTTEN)
    }

    fn breaks(&self, mut hazards: Hazards, mut place: usize, left: usize) -> bool {
        for left in (0..left).rev() {
            let Some(step) = self.program.step(place) else { return false };
            if hazards.note(self.program, place, &step.spacing).is_err() {
                return true;
            }
            if target(step, place).is_some_and(|target| self.breaks(hazards.clone(), target, left)) {
                return true;
            }
            if !goes_on(step) {
                return false;
            }
            place += step.instruction.bytes / 4;
        }
        false
    }
}

/// Where a jump leads.
fn target(step: &Step, place: usize) -> Option<usize> {
    match step.role {
        Role::Branch { words, .. } => (place + 1).checked_add_signed(words),
        _ => None,
    }
}

/// Whether the next instruction may follow.
fn goes_on(step: &Step) -> bool {
    !matches!(step.instruction.opcode.name, "S_BRANCH" | "S_ENDPGM" | "S_SETPC_B64" | "S_SWAPPC_B64")
}
