//! Vector instructions: the same in each lane that is on.

use isa::decode::{Behind, Instruction};
use isa::operand::{Operand, Special};
use isa::table::InstructionSet;

use crate::lane::{Does, Half};
use crate::numbers::{f, h, of_f, of_h};
use crate::program::{Program, Step};
use crate::state::{Wave, constant_of};

/// Where the values of a source come from, and what is done to them first.
#[derive(Clone, Copy, Debug)]
struct Source {
    from: From,
    bits: u32,
    /// Whether they are the upper halves of words.
    high: bool,
    keep: u64,
    flip: u64,
}

#[derive(Clone, Copy, Debug)]
enum From {
    Register(usize),
    Scalar(Operand),
    Fixed(u64),
}

impl Source {
    /// Whole values as they are.
    fn plain(from: From, bits: u32) -> Self {
        Self { from, bits, high: false, keep: u64::MAX, flip: 0 }
    }
}

type Sources = [Option<Source>; 3];

/// What of a vector instruction is the same each time it is executed.
#[derive(Clone, Debug)]
pub struct Prepared {
    sources: Sources,
    target: Option<Target>,
    /// The second of two in one, and the first, which the fields above are of.
    second: Option<(Sources, Option<Target>)>,
    /// The lane mask that it reads, if that is not the one that comparisons make.
    mask: Option<Operand>,
    /// The lane mask that it makes, likewise.
    made: Option<Operand>,
}

/// Where results go to.
#[derive(Clone, Copy, Debug)]
struct Target {
    register: usize,
    bits: u32,
    half: Half,
    format: &'static str,
    clamps: bool,
    factor: u32,
}

/// The result of a vector instruction: why it cannot be executed.
pub type Done = Result<(), String>;

/// Looks up once what an instruction reads and writes.
pub fn prepare(set: &'static InstructionSet, instruction: &Instruction) -> Prepared {
    let reader = Reader { set, instruction };
    if let Some(second) = instruction.second {
        let half = |name, part| (reader.sources_of_half(name, part), reader.target(&format!("vdst{part}")));
        let (sources, target) = half(instruction.opcode.name, "x");
        return Prepared { sources, target, second: Some(half(second.name, "y")), mask: None, made: None };
    }
    let masks = instruction.declared("src2").is_some_and(|declared| declared.format == "M64");
    let scalar = |name| instruction.operand(set, name).filter(|to| !matches!(to, Operand::Vector(_)));
    Prepared {
        sources: reader.sources(),
        target: reader.target("vdst"),
        second: None,
        mask: if masks { instruction.operand(set, "src2") } else { None },
        made: match instruction.format.name {
            "VOP3SD" => scalar("sdst"),
            "VOP3_SDST" => scalar("vdst"),
            _ => None,
        },
    }
}

/// Executes a vector instruction.
pub fn run(program: &Program, step: &Step, wave: &mut Wave) -> Done {
    let prepared = &step.vector;
    let work = Work { set: program.set, instruction: &step.instruction, prepared };
    if let (Some(second), Some((sources, target))) = (step.instruction.second, prepared.second) {
        let names = (step.instruction.opcode.name, second.name);
        let does = step.does.zip(step.second).ok_or_else(|| format!("{} :: {} is not known", names.0, names.1))?;
        // Both read before one writes.
        let first = half_of_two(wave, does.0, prepared.sources, prepared.target)?;
        let second = half_of_two(wave, does.1, sources, target)?;
        wave.write(&first);
        wave.write(&second);
        return Ok(());
    }
    match step.does {
        Some(does) => work.each_lane(wave, does),
        None => work.across_lanes(wave),
    }
}

fn half_of_two(wave: &Wave, does: Does, sources: Sources, target: Option<Target>) -> Result<Written, String> {
    let sources = wave.resolved(sources);
    let mut values = [0; 64];
    for lane in wave.on() {
        let [a, b, c] = [0, 1, 2].map(|place| wave.read(sources[place].as_ref(), lane));
        values[lane] = match does {
            Does::Value(value) => value(a, b, c),
            Does::Choose => {
                if wave.vcc >> lane & 1 != 0 {
                    b
                } else {
                    a
                }
            }
            _ => return Err("it is not known as one of two".into()),
        };
    }
    Ok(Written { target: target.ok_or(NOWHERE)?, lanes: wave.exec, values })
}

const NOWHERE: &str = "the destination is no vector register";

/// What is to be written to a register.
struct Written {
    target: Target,
    lanes: u64,
    values: [u64; 64],
}

/// Reads an instruction's fields.
struct Reader<'a> {
    set: &'static InstructionSet,
    instruction: &'a Instruction,
}

/// An instruction that is executed.
struct Work<'a> {
    set: &'static InstructionSet,
    instruction: &'a Instruction,
    prepared: &'a Prepared,
}

impl Reader<'_> {
    fn source(&self, name: &str) -> Option<Source> {
        let declared = self.instruction.declared(name)?;
        let behind = match (name, self.instruction.behind) {
            ("src0", Behind::Dpp16 | Behind::Dpp8 { .. }) => self.instruction.source_behind(self.set),
            _ => None,
        };
        let operand = behind.or_else(|| self.instruction.operand(self.set, name))?;
        let place = match name {
            "src0" => 0,
            "src1" | "vsrc1" => 1,
            _ => 2,
        };
        let set = |field: &str| self.instruction.number(field) >> place & 1 != 0;
        let before = |field: &str| self.instruction.is_set(&format!("src{place}_{field}"));
        let wide = matches!(self.instruction.format.name, "VOP3" | "VOP3SD" | "VOP3_SDST");
        // Choices and moves have signs, too, whatever their values are.
        let sign = 1 << (declared.bits.clamp(16, 64) - 1);
        let keep = if (wide && set("abs")) || before("abs") { !sign } else { u64::MAX };
        let flip = if (wide && set("neg")) || before("neg") { sign } else { 0 };
        let short = self.instruction.format.bytes == 4 && declared.bits == 16;
        let (operand, high) = match operand {
            Operand::Vector(register) if short => (Operand::Vector(register & 127), register & 128 != 0),
            _ => (operand, wide && declared.bits == 16 && set("opsel")),
        };
        let from = match operand {
            Operand::Vector(register) => From::Register(register as usize),
            Operand::Literal(word) if declared.format == "F64" => From::Fixed(u64::from(word) << 32),
            Operand::Scalar(_) | Operand::Special(_) => From::Scalar(operand),
            constant => From::Fixed(constant_of(constant, declared.bits)),
        };
        Some(Source { from, bits: declared.bits, high: high && matches!(operand, Operand::Vector(_)), keep, flip })
    }

    /// The literal as a source.
    fn literal(&self) -> Option<Source> {
        Some(Source::plain(From::Fixed(self.instruction.literal().into()), 32))
    }

    /// What lies in the destination, as a source.
    fn old(&self, name: &str) -> Option<Source> {
        let Target { register, bits, .. } = self.target(name)?;
        Some(Source::plain(From::Register(register), bits))
    }

    fn sources(&self) -> Sources {
        let second = self.source("src1").or_else(|| self.source("vsrc1"));
        let third = || self.source("src2");
        self.arranged(self.instruction.opcode.name, self.source("src0"), second, third, "vdst")
    }

    fn sources_of_half(&self, name: &str, part: &str) -> Sources {
        let [first, second] = [format!("src{part}0"), format!("vsrc{part}1")].map(|field| self.source(&field));
        self.arranged(name, first, second, || None, &format!("vdst{part}"))
    }

    fn arranged(
        &self,
        name: &str,
        first: Option<Source>,
        second: Option<Source>,
        third: impl Fn() -> Option<Source>,
        target: &str,
    ) -> Sources {
        if name.contains("FMAMK") {
            [first, self.literal(), second]
        } else if name.contains("FMAAK") {
            [first, second, self.literal()]
        } else if name.contains("FMAC") {
            [first, second, self.old(target)]
        } else {
            [first, second, third()]
        }
    }

    fn target(&self, name: &str) -> Option<Target> {
        let declared = self.instruction.declared(name)?;
        let Some(Operand::Vector(register)) = self.instruction.operand(self.set, name) else { return None };
        let short = declared.bits == 16;
        let half = match (short, self.instruction.format.bytes) {
            (true, 4) if register & 128 != 0 => Half::High,
            (true, 8) if self.instruction.number("opsel") & 8 != 0 => Half::High,
            (true, _) => Half::Low,
            _ => Half::Whole,
        };
        let register = if short && self.instruction.format.bytes == 4 { register & 127 } else { register };
        Some(Target {
            register: register as usize,
            bits: declared.bits,
            half,
            format: declared.format,
            clamps: self.instruction.is_set("clmp"),
            factor: self.instruction.number("omod"),
        })
    }
}

impl Work<'_> {
    /// The lane that each lane's first source is of, and the lanes that are written.
    fn lanes(&self, wave: &Wave) -> Result<([Option<usize>; 64], u64), String> {
        let mut from: [Option<usize>; 64] = std::array::from_fn(Some);
        let mut written = wave.exec;
        match self.instruction.behind {
            Behind::Dpp16 => {
                let number = |name| self.instruction.number(name);
                let zero = self.instruction.is_set("bc");
                for (lane, from) in from.iter_mut().enumerate().take(wave.lanes) {
                    let (row, bank) = (lane / 16, lane % 16 / 4);
                    if number("row_mask") >> row & 1 == 0 || number("bank_mask") >> bank & 1 == 0 {
                        written &= !(1 << lane);
                        continue;
                    }
                    let other = in_row(number("dpp"), lane)?;
                    let is_on = |lane: &usize| wave.is_on(*lane) || self.instruction.is_set("fi");
                    *from = other.filter(is_on);
                    if from.is_none() && !zero {
                        written &= !(1 << lane);
                    }
                }
            }
            Behind::Dpp8 { fetch_inactive } => {
                for (lane, from) in from.iter_mut().enumerate().take(wave.lanes) {
                    let other = lane / 8 * 8 + self.instruction.number(&format!("lane_sel_{}", lane % 8)) as usize;
                    *from = (fetch_inactive || wave.is_on(other)).then_some(other);
                }
            }
            _ => {}
        }
        Ok((from, written))
    }

    fn each_lane(&self, wave: &mut Wave, does: Does) -> Done {
        let sources = wave.resolved(self.prepared.sources);
        let (from, lanes) = self.lanes(wave)?;
        let mask = self.prepared.mask.map_or(wave.vcc, |operand| wave.value(operand, wave.mask_bits()));
        let (mut values, mut bits) = ([0; 64], 0u64);
        for lane in (0..wave.lanes).filter(|lane| lanes >> lane & 1 != 0) {
            let a = from[lane].map_or(0, |from| wave.read(sources[0].as_ref(), from));
            let [b, c] = [1, 2].map(|place| wave.read(sources[place].as_ref(), lane));
            let bit = mask >> lane & 1 != 0;
            let (value, made) = match does {
                Does::Value(value) => (value(a, b, c), false),
                Does::Carry(carry) => carry(a, b, c, bit),
                Does::Test(test) | Does::TestLanes(test) => (0, test(a, b)),
                Does::Choose => (if bit { b } else { a }, false),
                Does::Masked(value) => (value(a, b, c, bit), false),
                Does::Halves(value) => (self.halves(value, [a, b, c]), false),
                Does::Mixed(_) => (self.mixed([a, b, c]), false),
            };
            values[lane] = value;
            bits |= u64::from(made) << lane;
        }
        match does {
            Does::Test(_) => self.set_mask(wave, bits),
            Does::TestLanes(_) => wave.exec = bits,
            Does::Carry(_) => {
                self.set_mask(wave, bits);
                wave.write(&Written { target: self.target()?, lanes, values });
            }
            Does::Mixed(half) => {
                let target = Target { half, bits: if half == Half::Whole { 32 } else { 16 }, ..self.target()? };
                wave.write(&Written { target, lanes, values });
            }
            _ => wave.write(&Written { target: self.target()?, lanes, values }),
        }
        Ok(())
    }

    fn target(&self) -> Result<Target, String> {
        self.prepared.target.ok_or_else(|| NOWHERE.into())
    }

    fn set_mask(&self, wave: &mut Wave, bits: u64) {
        let to = self.prepared.made.unwrap_or(Operand::Special(Special::Vcc));
        wave.set(to, wave.mask_bits(), bits);
    }

    /// Two values of 16 bits in a word.
    fn halves(&self, value: fn(u64, u64, u64) -> u64, words: [u64; 3]) -> u64 {
        let number = |name| self.instruction.number(name);
        let high = number("opsel_hi") | number("opsel_hi2") << 2;
        let float = self.instruction.opcode.name.ends_with("F16");
        let pick = |selected: u32, negated: u32| {
            let half = |place: usize| {
                let half = words[place] >> (16 * (selected >> place & 1)) & 0xffff;
                if float && negated >> place & 1 != 0 { half ^ 0x8000 } else { half }
            };
            value(half(0), half(1), half(2)) & 0xffff
        };
        pick(number("opsel"), number("neg")) | pick(high, number("neg_hi")) << 16
    }

    /// A product and a sum, each number of 16 or of 32 bits.
    fn mixed(&self, words: [u64; 3]) -> u64 {
        let number = |name| self.instruction.number(name);
        let short = number("opsel_hi") | number("opsel_hi2") << 2;
        let [a, b, c] = [0, 1, 2].map(|place| {
            let found = match (short >> place & 1, number("opsel") >> place & 1) {
                (0, _) => f(words[place]),
                (_, high) => h(words[place] >> (16 * high)) as f32,
            };
            let found = if number("neg_hi") >> place & 1 != 0 { found.abs() } else { found };
            if number("neg") >> place & 1 != 0 { -found } else { found }
        });
        let sum = a.mul_add(b, c);
        if self.instruction.opcode.name.ends_with("F16") { of_h(sum.into()) } else { of_f(sum) }
    }

    /// Instructions that take values of other lanes.
    fn across_lanes(&self, wave: &mut Wave) -> Done {
        let name = self.instruction.opcode.name;
        let sources = wave.resolved(self.prepared.sources);
        let to = self.instruction.operand(self.set, "vdst");
        match self.instruction.opcode.stem() {
            "V_NOP" => {}
            "V_READFIRSTLANE_B32" => {
                let first = if wave.exec == 0 { 0 } else { wave.exec.trailing_zeros() as usize };
                wave.set(to.ok_or("no destination")?, 32, wave.read(sources[0].as_ref(), first));
            }
            "V_READLANE_B32" => {
                let lane = wave.read(sources[1].as_ref(), 0) as usize % wave.lanes;
                wave.set(to.ok_or("no destination")?, 32, wave.read(sources[0].as_ref(), lane));
            }
            "V_MBCNT_LO_U32_B32" | "V_MBCNT_HI_U32_B32" => {
                let upper = name.contains("MBCNT_HI");
                let mut values = [0; 64];
                for (lane, value) in values.iter_mut().enumerate().take(wave.lanes) {
                    let lower = (1u64 << lane) - 1;
                    let below = if upper { lower >> 32 } else { lower & 0xffff_ffff };
                    let ones = (wave.read(sources[0].as_ref(), lane) & below).count_ones();
                    *value = (wave.read(sources[1].as_ref(), lane) + u64::from(ones)) & 0xffff_ffff;
                }
                wave.write(&Written { target: self.target()?, lanes: wave.exec, values });
            }
            "V_PERMLANEX16_B32" => {
                let selected = wave.read(sources[1].as_ref(), 0) | wave.read(sources[2].as_ref(), 0) << 32;
                let mut values = [0; 64];
                let mut lanes = 0;
                for (lane, value) in values.iter_mut().enumerate().take(wave.lanes) {
                    let other = ((lane / 16) ^ 1) * 16 + (selected >> (lane % 16 * 4) & 15) as usize;
                    let [fetches, bounded] = [0, 1].map(|bit| self.instruction.number("opsel") >> bit & 1 != 0);
                    if wave.is_on(other) || fetches {
                        *value = wave.read(sources[0].as_ref(), other);
                        lanes |= 1 << lane;
                    } else if bounded {
                        lanes |= 1 << lane;
                    }
                }
                wave.write(&Written { target: self.target()?, lanes: lanes & wave.exec, values });
            }
            "V_DOT4_I32_IU8" => {
                let signed = [0, 1].map(|place| self.instruction.number("neg") >> place & 1 != 0);
                let byte = |word: u64, place: usize, signed: bool| {
                    let byte = (word >> (8 * place)) as u8;
                    if signed { i32::from(byte as i8) } else { i32::from(byte) }
                };
                let mut values = [0; 64];
                for (lane, value) in values.iter_mut().enumerate().take(wave.lanes) {
                    let [a, b, c] = [0, 1, 2].map(|place| wave.read(sources[place].as_ref(), lane));
                    let products = (0..4).map(|place| byte(a, place, signed[0]) * byte(b, place, signed[1]));
                    *value = u64::from((c as i32).wrapping_add(products.sum()) as u32);
                }
                wave.write(&Written { target: self.target()?, lanes: wave.exec, values });
            }
            "V_WMMA_I32_16X16X16_IU8" => self.multiply_bytes(wave)?,
            "V_WMMA_F32_16X16X16_F16" => self.multiply_halves(wave, h)?,
            "V_WMMA_F32_16X16X16_BF16" => self.multiply_halves(wave, |bits| f(bits << 16).into())?,
            _ => return Err(format!("{name} is not known")),
        }
        Ok(())
    }

    /// The product of two matrices of 16x16 elements, added to one of 32 bits, in waves of 32: a lane has a row of the first
    /// and a column of the second matrix in so many words, the lanes from 16 on those of the lanes below, and every other
    /// row of the third. `sum` is told a row, a column, and what their products are added to.
    fn multiply_matrices(&self, wave: &mut Wave, words: usize, sum: impl Fn(&[u32], &[u32], u32) -> u32) -> Done {
        let register = |name| match self.instruction.operand(self.set, name) {
            Some(Operand::Vector(register)) => Ok(register as usize),
            other => Err(format!("a matrix in {other:?} is not known")),
        };
        if wave.lanes != 32 || self.instruction.is_set("clmp") {
            return Err("waves of 64 and limited sums are not known".into());
        }
        let (a, b, to) = (register("src0")?, register("src1")?, register("vdst")?);
        let line = |first: usize, lane: usize| -> Vec<u32> {
            (0..words).map(|word| wave.vectors[first + word][lane]).collect()
        };
        let [rows, columns] = [a, b].map(|first| (0..16).map(|lane| line(first, lane)).collect::<Vec<_>>());
        let mut sums = [[0u32; 32]; 8];
        for (step, sums) in sums.iter_mut().enumerate() {
            for (lane, result) in sums.iter_mut().enumerate() {
                let (row, column) = (2 * step + lane / 16, lane % 16);
                let start = match self.instruction.operand(self.set, "src2") {
                    Some(Operand::Vector(register)) => wave.vectors[register as usize + step][lane],
                    Some(constant) => wave.word(constant),
                    None => 0,
                };
                *result = sum(&rows[row], &columns[column], start);
            }
        }
        for (step, sums) in sums.iter().enumerate() {
            wave.vectors[to + step][..32].copy_from_slice(sums);
        }
        Ok(())
    }

    fn multiply_bytes(&self, wave: &mut Wave) -> Done {
        let signed = [0, 1].map(|place| self.instruction.number("neg") >> place & 1 != 0);
        let number = |line: &[u32], place: usize, signed: bool| {
            let byte = (line[place / 4] >> (8 * (place % 4))) as u8;
            if signed { i32::from(byte as i8) } else { i32::from(byte) }
        };
        self.multiply_matrices(wave, 4, |row, column, start| {
            let products = (0..16).map(|k| number(row, k, signed[0]) * number(column, k, signed[1]));
            (start as i32).wrapping_add(products.sum()) as u32
        })
    }

    /// AMD does not say how often the sums are rounded; here it is once.
    fn multiply_halves(&self, wave: &mut Wave, widened: fn(u64) -> f64) -> Done {
        if ["neg", "neg_hi"].iter().any(|name| self.instruction.number(name) != 0) {
            return Err("matrices with other signs are not known".into());
        }
        let number = |line: &[u32], place: usize| widened(u64::from(line[place / 2] >> (16 * (place % 2)) & 0xffff));
        self.multiply_matrices(wave, 8, |row, column, start| {
            let products = (0..16).map(|k| number(row, k) * number(column, k));
            ((products.sum::<f64>() + f64::from(f32::from_bits(start))) as f32).to_bits()
        })
    }
}

/// The lane of its row that a lane takes its value from; none past the row's end.
fn in_row(control: u32, lane: usize) -> Result<Option<usize>, String> {
    let (row, place, count) = (lane / 16 * 16, lane % 16, control as usize & 15);
    Ok(match control {
        0..=0xff => Some(lane / 4 * 4 + (control as usize >> (lane % 4 * 2) & 3)),
        0x101..=0x10f => (place + count < 16).then(|| lane + count),
        0x111..=0x11f => (place >= count).then(|| lane - count),
        0x121..=0x12f => Some(row + (place + 16 - count) % 16),
        0x140 => Some(row + 15 - place),
        0x141 => Some(lane / 8 * 8 + 7 - lane % 8),
        0x150..=0x15f => Some(row + count),
        0x160..=0x16f => Some(row + (place ^ count)),
        _ => return Err(format!("lanes by {control:#x} are not known")),
    })
}

impl Wave {
    /// Sources with the values that scalar registers have now.
    fn resolved(&self, sources: Sources) -> Sources {
        sources.map(|source| {
            let source = source?;
            let From::Scalar(operand) = source.from else { return Some(source) };
            Some(Source { from: From::Fixed(self.value(operand, source.bits)), ..source })
        })
    }

    fn read(&self, source: Option<&Source>, lane: usize) -> u64 {
        let Some(source) = source else { return 0 };
        let raw = match source.from {
            From::Fixed(value) => value,
            From::Scalar(operand) => self.value(operand, source.bits),
            From::Register(register) => {
                let low = u64::from(self.vectors[register][lane]);
                match source.bits {
                    64 => low | u64::from(self.vectors[register + 1][lane]) << 32,
                    16 => low >> (16 * u32::from(source.high)) & 0xffff,
                    _ => low,
                }
            }
        };
        raw & source.keep ^ source.flip
    }

    fn write(&mut self, written: &Written) {
        let Written { target, lanes, values } = written;
        for (lane, value) in values.iter().enumerate().take(self.lanes).filter(|(lane, _)| lanes >> lane & 1 != 0) {
            let value = target.finished(*value);
            let word = &mut self.vectors[target.register][lane];
            *word = match target.half {
                Half::Whole => value as u32,
                Half::Low => *word & 0xffff_0000 | value as u32 & 0xffff,
                Half::High => *word & 0xffff | (value as u32) << 16,
            };
            if target.bits == 64 {
                self.vectors[target.register + 1][lane] = (value >> 32) as u32;
            }
        }
    }
}

impl Target {
    /// A float after the factor and the limits that an instruction can have.
    fn finished(&self, value: u64) -> u64 {
        if self.factor == 0 && !self.clamps {
            return value;
        }
        let factor = [1., 2., 4., 0.5][self.factor as usize & 3];
        let limited = |number: f64| {
            if !self.clamps {
                number
            } else if number.is_nan() {
                0.
            } else {
                number.clamp(0., 1.)
            }
        };
        match self.format {
            "F32" => of_f(limited(f64::from(f(value)) * factor) as f32),
            "F16" => of_h(limited(h(value) * factor)),
            "F64" => limited(f64::from_bits(value) * factor).to_bits(),
            _ => value,
        }
    }
}
