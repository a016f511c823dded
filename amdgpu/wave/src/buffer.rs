//! Instructions that read and write memory by a descriptor (AMD: a buffer resource), which says where a part of memory
//! begins and ends. What lies behind the end is not an error: loads find zeros there, and stores do nothing. What lies
//! before it has to be memory.

use crate::memory::Memory;
use crate::program::{Program, Step};
use crate::state::Wave;
use crate::transfer::{each_lane, register};
use crate::vector::Done;
use isa::operand::Operand;
use isa::table::InstructionSet;

/// A part of memory. The addresses of its bytes begin with 0.
struct Part<'a> {
    base: u64,
    size: u64,
    memory: &'a mut dyn Memory,
}

impl Memory for Part<'_> {
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), String> {
        self.words(address, bytes.len()).try_for_each(|(first, end, address)| match address {
            Some(address) => self.memory.read(address, &mut bytes[first..end]),
            None => {
                bytes[first..end].fill(0);
                Ok(())
            }
        })
    }

    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), String> {
        self.words(address, bytes.len()).try_for_each(|(first, end, address)| match address {
            Some(address) => self.memory.write(address, &bytes[first..end]),
            None => Ok(()),
        })
    }
}

impl Part<'_> {
    /// The words of an access, each as its first and last place among the bytes and its address; None if that is not in
    /// the part. Each word is in it or not by itself.
    fn words(&self, address: u64, count: usize) -> impl Iterator<Item = (usize, usize, Option<u64>)> + use<> {
        let (base, size) = (self.base, self.size);
        let is_whole = address + count as u64 <= size;
        let step = if is_whole { count.max(1) } else { 4 };
        (0..count).step_by(step).map(move |first| {
            let end = (first + step).min(count);
            let is_there = address + end as u64 <= size;
            (first, end, is_there.then(|| base.wrapping_add(address + first as u64)))
        })
    }
}

/// Executes such an instruction.
pub fn run(program: &Program, step: &Step, wave: &mut Wave, memory: &mut dyn Memory) -> Done {
    let instruction = &step.instruction;
    if ["lds", "tfe"].iter().any(|name| instruction.is_set(name)) {
        return Err("loads into LDS, or with what has failed, are not known".into());
    }
    let words = descriptor(program, step, wave)?;
    plain(program.set, words)?;
    let operand = instruction.operand(program.set, "soffset").ok_or("no offset")?;
    let same = u64::from(wave.word(operand)) + instruction.offset() as u64;
    let data = register(program, step, &["vdata"]);
    // An index comes first; here it is one of parts of no bytes.
    let from = register(program, step, &["vaddr"]) + usize::from(instruction.is_set("idxen"));
    let has_own = instruction.is_set("offen");
    let address = |wave: &Wave, lane: usize| same + if has_own { u64::from(wave.vectors[from][lane]) } else { 0 };
    let base = u64::from(words[0]) | u64::from(words[1] & 0xffff) << 32;
    let mut part = Part { base, size: words[2].into(), memory };
    each_lane(program, step, wave, (data, data), address, &mut part)
}

fn descriptor(program: &Program, step: &Step, wave: &Wave) -> Result<[u32; 4], String> {
    match step.instruction.operand(program.set, "srsrc") {
        Some(Operand::Scalar(first)) => Ok([0, 1, 2, 3].map(|word| wave.scalars[first as usize + word])),
        other => Err(format!("a descriptor in {other:?} is not known")),
    }
}

/// What RDNA's descriptors say that end after so many bytes.
const RAW: u32 = 3;

/// Refuses descriptors of elements, which have a size, may lie in another order, and may be chosen by the lane's number.
fn plain(set: &InstructionSet, words: [u32; 4]) -> Done {
    let (stride, swizzles) = (words[1] >> 16 & 0x3fff, words[1] >> 30);
    let (kind, adds_lane) = (words[3] >> 30, words[3] >> 23 & 1);
    let ends_otherwise = set.is_rdna() && words[3] >> 28 & 3 != RAW;
    if stride | swizzles | kind | adds_lane != 0 || ends_otherwise {
        return Err(format!("the descriptor {words:x?} is not known"));
    }
    Ok(())
}
