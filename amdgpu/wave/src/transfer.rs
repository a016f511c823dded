//! Instructions that read and write memory, and LDS.

use isa::operand::{Operand, Special};

use crate::lane::Half;
use crate::memory::Memory;
use crate::program::{Program, Step};
use crate::state::Wave;
use crate::vector::Done;

/// What an instruction moves between memory and registers.
#[derive(Clone, Copy)]
struct Access {
    bytes: usize,
    signed: bool,
    half: Half,
    /// Whether the other half of a register becomes 0 where one is loaded: memory with error correction has no halves.
    clears: bool,
}

impl Access {
    /// Of the end of an instruction's name: "B64", "D16_HI_U8", "B16_D16_HI".
    fn of(rest: &str) -> Option<Self> {
        let half = match (rest.contains("D16_HI"), rest.contains("D16")) {
            (true, _) => Half::High,
            (false, true) => Half::Low,
            _ => Half::Whole,
        };
        let kind = rest.split('_').find(|part| !matches!(*part, "D16" | "HI" | "RTN"))?;
        let bits: usize = kind.get(1..)?.parse().ok()?;
        Some(Self { bytes: bits / 8, signed: kind.starts_with('I'), half, clears: false })
    }

    fn words(self) -> usize {
        self.bytes.div_ceil(4)
    }
}

/// Loads scalar registers.
pub fn scalar(program: &Program, step: &Step, wave: &mut Wave, memory: &mut dyn Memory) -> Done {
    let (name, instruction) = (&*step.name, &step.instruction);
    let Some(access) = name.strip_prefix("S_LOAD_").and_then(Access::of) else {
        return Err(format!("{name} is not known"));
    };
    let operand = |field| instruction.operand(program.set, field);
    let base = wave.value(operand("sbase").ok_or("no base")?, 64);
    let more =
        operand("soffset").filter(|_| !instruction.ignores("soffset")).map_or(0, |operand| wave.value(operand, 32));
    let address = base.wrapping_add(more).wrapping_add_signed(instruction.offset().into());
    let mut bytes = [0; 64];
    memory.read(address & !(access.bytes as u64 - 1).min(3), &mut bytes[..access.bytes])?;
    let first = operand("sdata").ok_or("no destination")?;
    for (place, word) in bytes.chunks_exact(4).take(access.words()).enumerate() {
        let word = u32::from_le_bytes(word.try_into().expect("4 bytes"));
        let to = match first {
            Operand::Scalar(register) => Operand::Scalar(register + place as u32),
            Operand::Special(Special::Vcc) if place == 1 => Operand::Special(Special::VccHigh),
            other => other,
        };
        wave.set(to, 32, word.into());
    }
    Ok(())
}

/// Loads, stores and atomic operations by address.
pub fn vector(program: &Program, step: &Step, wave: &mut Wave, memory: &mut dyn Memory) -> Done {
    let instruction = &step.instruction;
    let has_base = !instruction.format.name.ends_with("FLAT") && instruction.has_scalar_address(program.set);
    let base = instruction.operand(program.set, "saddr").filter(|_| has_base).map(|operand| wave.value(operand, 64));
    let (offset, register) = (instruction.offset(), register(program, step, &["addr", "vaddr"]));
    let address = |wave: &Wave, lane: usize| {
        let low = u64::from(wave.vectors[register][lane]);
        let start = match base {
            Some(base) => base.wrapping_add(low),
            None => low | u64::from(wave.vectors[register + 1][lane]) << 32,
        };
        start.wrapping_add_signed(offset.into())
    };
    let (to, data) = (self::register(program, step, &["vdst"]), self::register(program, step, &["data", "vsrc"]));
    each_lane(program, step, wave, (to, data), address, memory)
}

/// The vector register that the first of these fields names which the instruction has.
pub fn register(program: &Program, step: &Step, fields: &[&str]) -> usize {
    let named = |field: &&str| match step.instruction.operand(program.set, field) {
        Some(Operand::Vector(register)) => Some(register as usize),
        _ => None,
    };
    fields.iter().find_map(named).unwrap_or(0)
}

/// Loads registers from memory, stores them or something made of them there, as the instruction says, each lane by an
/// address of its own.
pub fn each_lane(
    program: &Program,
    step: &Step,
    wave: &mut Wave,
    (to, data): (usize, usize),
    address: impl Fn(&Wave, usize) -> u64,
    memory: &mut dyn Memory,
) -> Done {
    let name = &*step.name;
    let (_, what) = name.split_once('_').ok_or("no name")?;
    let mut lanes = wave.on();
    if let Some(access) = what.strip_prefix("LOAD_").and_then(Access::of) {
        let access = Access { clears: !program.set.is_rdna(), ..access };
        lanes.try_for_each(|lane| load(access, wave, (to, lane), address(wave, lane), memory))
    } else if let Some(access) = what.strip_prefix("STORE_").and_then(Access::of) {
        lanes.try_for_each(|lane| store(access, wave, (data, lane), address(wave, lane), memory))
    } else if let Some(operation) = what.strip_prefix("ATOMIC_") {
        let returns = (!step.instruction.drops_result(program.set)).then_some(to);
        lanes.try_for_each(|lane| atomic(operation, wave, (data, data, returns), lane, address(wave, lane), memory))
    } else {
        Err(format!("{name} is not known"))
    }
}

/// Loads, stores and atomic operations of LDS, and values by the number of their lane.
pub fn lds(program: &Program, step: &Step, wave: &mut Wave, lds: &mut dyn Memory) -> Done {
    let (name, instruction) = (&*step.name, &step.instruction);
    let what = name.strip_prefix("DS_").ok_or("no name")?;
    let number = |field| instruction.number(field) as usize;
    let [to, from, data, more] = ["vdst", "addr", "data0", "data1"].map(|field| register(program, step, &[field]));
    let offsets = [number("offset0"), number("offset1")];
    if what == "BPERMUTE_B32" {
        let taken = wave.vectors[data];
        // RDNA's waves of 64 are two of 32 here.
        let reach = if program.set.is_rdna() { 32 } else { wave.lanes };
        for lane in wave.on() {
            let other = (wave.vectors[from][lane] as usize + offsets[0]) / 4 % reach + lane / reach * reach;
            wave.vectors[to][lane] = if wave.exec >> other & 1 != 0 { taken[other] } else { 0 };
        }
        return Ok(());
    }
    let (kind, rest) = what.split_once('_').ok_or("no name")?;
    let two = rest.strip_prefix("2ADDR_");
    let access = Access::of(two.map_or(rest, |rest| rest.trim_start_matches("STRIDE64_")));
    let access = access.map(|access| Access { clears: !program.set.is_rdna(), ..access });
    let returns = what.contains("_RTN").then_some(to);
    let operation = what.replace("_RTN", "").replace("CMPSTORE", "CMPSWAP").replace("STOREXCHG", "SWAP");
    for lane in wave.on() {
        let base = u64::from(wave.vectors[from][lane]);
        let address = base + (offsets[0] | offsets[1] << 8) as u64;
        match (kind, access, two) {
            ("LOAD" | "STORE", Some(access), Some(rest)) => {
                let step = access.bytes * if rest.starts_with("STRIDE64") { 64 } else { 1 };
                for (place, offset) in offsets.into_iter().enumerate() {
                    let address = base + (offset * step) as u64;
                    if kind == "LOAD" {
                        load(access, wave, (to + place * access.words(), lane), address, lds)?;
                    } else {
                        store(access, wave, ([data, more][place], lane), address, lds)?;
                    }
                }
            }
            ("LOAD", Some(access), None) => load(access, wave, (to, lane), address, lds)?,
            ("STORE", Some(access), None) => store(access, wave, (data, lane), address, lds)?,
            _ => {
                // The new value comes first here, and what it is compared with second.
                lds.set_atomic(true);
                let done = atomic(&operation, wave, (data, more, returns), lane, address, lds);
                lds.set_atomic(false);
                done?;
            }
        }
    }
    Ok(())
}

fn load(
    access: Access,
    wave: &mut Wave,
    (register, lane): (usize, usize),
    address: u64,
    memory: &mut dyn Memory,
) -> Done {
    let mut bytes = [0; 16];
    memory.read(address, &mut bytes[..access.bytes])?;
    let words = bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().expect("4 bytes")));
    for (place, word) in words.take(access.words()).enumerate() {
        let word = match (access.bytes, access.signed) {
            (1, true) => word as u8 as i8 as u32,
            (2, true) => word as u16 as i16 as u32,
            _ => word,
        };
        let old = &mut wave.vectors[register + place][lane];
        *old = match access.half {
            Half::Whole => word,
            Half::Low if access.clears => word & 0xffff,
            Half::High if access.clears => word << 16,
            Half::Low => *old & 0xffff_0000 | word & 0xffff,
            Half::High => *old & 0xffff | word << 16,
        };
    }
    Ok(())
}

fn store(access: Access, wave: &Wave, (register, lane): (usize, usize), address: u64, memory: &mut dyn Memory) -> Done {
    let mut bytes = [0; 16];
    for (place, word) in bytes.chunks_exact_mut(4).take(access.words()).enumerate() {
        let value = wave.vectors[register + place][lane];
        let value = if access.half == Half::High { value >> 16 } else { value };
        word.copy_from_slice(&value.to_le_bytes());
    }
    memory.write(address, &bytes[..access.bytes])
}

fn atomic(
    operation: &str,
    wave: &mut Wave,
    (data, compared, returns): (usize, usize, Option<usize>),
    lane: usize,
    address: u64,
    memory: &mut dyn Memory,
) -> Done {
    let (kind, format) = operation.rsplit_once('_').ok_or("no format")?;
    let wide = format.ends_with("64");
    let value = |register: usize| {
        let low = u64::from(wave.vectors[register][lane]);
        if wide { low | u64::from(wave.vectors[register + 1][lane]) << 32 } else { low }
    };
    let bytes = if wide { 8 } else { 4 };
    let mut found = [0; 8];
    memory.read(address, &mut found[..bytes])?;
    let old = u64::from_le_bytes(found);
    let new = value(data);
    let float = |bits: u64| f32::from_bits(bits as u32);
    let signed = |bits: u64| if wide { bits as i64 } else { i64::from(bits as u32 as i32) };
    let result = match (kind, format) {
        ("ADD", "F32") => u64::from((float(old) + float(new)).to_bits()),
        ("ADD", "F64") => (f64::from_bits(old) + f64::from_bits(new)).to_bits(),
        ("ADD", _) => old.wrapping_add(new),
        ("SUB", _) => old.wrapping_sub(new),
        ("AND", _) => old & new,
        ("OR", _) => old | new,
        ("XOR", _) => old ^ new,
        ("SWAP", _) => new,
        ("MAX", "U32" | "U64") => old.max(new),
        ("MIN", "U32" | "U64") => old.min(new),
        ("MAX", "I32" | "I64") => signed(old).max(signed(new)) as u64,
        ("MIN", "I32" | "I64") => signed(old).min(signed(new)) as u64,
        // By address, the two values are one after another.
        ("CMPSWAP", _) if compared == data => {
            if old == value(data + bytes / 4) {
                new
            } else {
                old
            }
        }
        ("CMPSWAP", _) => {
            if old == value(compared) {
                new
            } else {
                old
            }
        }
        _ => return Err(format!("the atomic operation {operation} is not known")),
    };
    memory.write(address, &result.to_le_bytes()[..bytes])?;
    if let Some(register) = returns {
        wave.vectors[register][lane] = old as u32;
        if wide {
            wave.vectors[register + 1][lane] = (old >> 32) as u32;
        }
    }
    Ok(())
}
