//! Vector instructions: the same in each lane that is on.

use isa::decode::{Behind, Instruction};
use isa::operand::{Operand, Special};
use isa::table::InstructionSet;

use crate::lane::{Does, Half, does};
use crate::matrix;
use crate::numbers::{f, h, of_f, of_h};
use crate::program::{Program, Step};
use crate::state::{Wave, constant_of};

/// Where the values of a source come from, and what is done to them first.
#[derive(Clone, Copy, Debug)]
struct Source {
    from: From,
    bits: u32,
    /// The part of words that they are, if not all.
    part: Option<Part>,
    keep: u64,
    flip: u64,
}

/// Bits of a word.
#[derive(Clone, Copy, Debug)]
struct Part {
    low: u32,
    bits: u32,
    /// Whether bits above are those of its sign.
    signed: bool,
}

impl Part {
    const LOW: Self = Self { low: 0, bits: 16, signed: false };
    const HIGH: Self = Self { low: 16, bits: 16, signed: false };

    /// By the number that an instruction has for it (SDWA). None for a whole word.
    fn selected(number: u32, signed: bool) -> Option<Self> {
        match number {
            0..=3 => Some(Self { low: 8 * number, bits: 8, signed }),
            4 | 5 => Some(Self { low: 16 * (number - 4), bits: 16, signed }),
            _ => None,
        }
    }

    fn mask(self) -> u32 {
        ((1 << self.bits) - 1) << self.low
    }

    fn of(self, word: u64) -> u64 {
        let part = (word as u32 & self.mask()) >> self.low;
        let above = 32 - self.bits;
        if self.signed { u64::from(((part << above) as i32 >> above) as u32) } else { part.into() }
    }
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
        Self { from, bits, part: None, keep: u64::MAX, flip: 0 }
    }
}

type Sources = [Option<Source>; 3];
/// The lane that each lane's value is of, if of any.
type Lanes = [Option<usize>; 64];

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
    /// The part of the register that they become, if not all.
    part: Option<Part>,
    /// Whether the other parts become 0.
    clears: bool,
    format: &'static str,
    clamps: bool,
    factor: u32,
}

/// The result of a vector instruction: why it cannot be executed.
pub type Done = Result<(), String>;

/// Looks up once what an instruction reads and writes.
pub fn prepare(set: &'static InstructionSet, instruction: &Instruction, name: &str) -> Prepared {
    let reader = Reader { set, instruction, name };
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
            "VOPC" => instruction.destination_behind(set),
            _ => None,
        },
    }
}

/// Executes a vector instruction.
pub fn run(program: &Program, step: &Step, wave: &mut Wave) -> Done {
    let prepared = &step.vector;
    let work = Work { set: program.set, instruction: &step.instruction, name: &step.name, prepared };
    if let (Some(second), Some((sources, target))) = (step.instruction.second, &prepared.second) {
        let names = (step.instruction.opcode.name, second.name);
        let does = step.does.zip(step.second).ok_or_else(|| format!("{} :: {} is not known", names.0, names.1))?;
        // Both read before one writes.
        let mut values = [[0; 64]; 2];
        let first = half_of_two(wave, does.0, &prepared.sources, prepared.target, &mut values[0])?;
        let second = half_of_two(wave, does.1, sources, *target, &mut values[1])?;
        wave.write(&first, wave.exec, &values[0]);
        wave.write(&second, wave.exec, &values[1]);
        return Ok(());
    }
    match step.does {
        Some(does) => work.each_lane(wave, does),
        None => work.across_lanes(wave),
    }
}

/// Computes the values of one of two, and says where they go.
fn half_of_two(
    wave: &Wave,
    does: Does,
    sources: &Sources,
    target: Option<Target>,
    values: &mut [u64; 64],
) -> Result<Target, String> {
    let [a, b, c] = &wave.read_all(sources);
    match does {
        Does::Value(value) => each(wave.exec, wave.lanes, |lane| values[lane] = value(a[lane], b[lane], c[lane])),
        Does::Choose => {
            each(wave.exec, wave.lanes, |lane| {
                values[lane] = if wave.vcc >> lane & 1 != 0 { b[lane] } else { a[lane] }
            });
        }
        _ => return Err("it is not known as one of two".into()),
    }
    target.ok_or_else(|| NOWHERE.into())
}

/// Does something for each lane of a mask.
#[inline(always)]
fn each(mask: u64, lanes: usize, mut work: impl FnMut(usize)) {
    if mask == u64::MAX >> (64 - lanes) {
        (0..lanes).for_each(work);
    } else {
        (0..lanes).filter(|lane| mask >> lane & 1 != 0).for_each(&mut work);
    }
}

/// What an instruction says that leaves the parts of a word that it does not make (SDWA).
const PRESERVED: u32 = 2;

const NOWHERE: &str = "the destination is no vector register";

/// Reads an instruction's fields.
struct Reader<'a> {
    set: &'static InstructionSet,
    instruction: &'a Instruction,
    /// RDNA3's.
    name: &'a str,
}

/// An instruction that is executed.
struct Work<'a> {
    set: &'static InstructionSet,
    instruction: &'a Instruction,
    /// RDNA3's.
    name: &'a str,
    prepared: &'a Prepared,
}

impl Reader<'_> {
    fn source(&self, name: &str) -> Option<Source> {
        let declared = self.instruction.declared(name)?;
        let behind = match (name, self.instruction.behind) {
            ("src0", Behind::Dpp16 | Behind::Dpp8 { .. } | Behind::Sdwa) => self.instruction.source_behind(self.set),
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
        let short = self.instruction.format.bytes == 4 && self.instruction.names_halves(self.set, declared.bits);
        let (operand, high) = match operand {
            Operand::Vector(register) if short => (Operand::Vector(register & 127), register & 128 != 0),
            _ => (operand, wide && declared.bits == 16 && set("opsel")),
        };
        let part = match self.instruction.behind {
            Behind::Sdwa if place < 2 => {
                let selected = self.instruction.number(&format!("src{place}_sel"));
                Part::selected(selected, self.instruction.is_set(&format!("src{place}_sext")))
            }
            _ if high && matches!(operand, Operand::Vector(_)) => Some(Part::HIGH),
            _ => None,
        };
        // The two words of a pair are chosen one by one; a constant is the first of them.
        let bits = if declared.format.starts_with("PK2_") && declared.bits == 64 { 32 } else { declared.bits };
        let from = match operand {
            Operand::Vector(register) => From::Register(register as usize),
            Operand::Literal(word) if declared.format == "F64" => From::Fixed(u64::from(word) << 32),
            Operand::Scalar(_) | Operand::Special(_) => From::Scalar(operand),
            constant => From::Fixed(constant_of(constant, bits)),
        };
        Some(Source { from, bits: declared.bits, part, keep, flip })
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
        self.arranged(self.name, self.source("src0"), second, third, "vdst")
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
        if name.contains("FMAMK") || name.contains("MADMK") {
            [first, self.literal(), second]
        } else if name.contains("FMAAK") || name.contains("MADAK") {
            [first, second, self.literal()]
        } else if name.contains("MAC_") || name.contains("DOT4C") {
            [first, second, self.old(target)]
        } else {
            [first, second, third()]
        }
    }

    fn target(&self, name: &str) -> Option<Target> {
        let declared = self.instruction.declared(name)?;
        let Some(Operand::Vector(register)) = self.instruction.operand(self.set, name) else { return None };
        let short = declared.bits == 16;
        let names_halves = self.instruction.names_halves(self.set, declared.bits);
        let is_high = match self.instruction.format.bytes {
            4 => names_halves && register & 128 != 0,
            _ => short && self.instruction.number("opsel") & 8 != 0,
        };
        let register = if names_halves && self.instruction.format.bytes == 4 { register & 127 } else { register };
        let (part, clears) = match self.instruction.bits("dst_sel") {
            Some(selected) => (Part::selected(selected, false), self.instruction.number("dst_unused") != PRESERVED),
            None if is_high => (Some(Part::HIGH), false),
            // On CDNA, operations on 16 bits that older cards have, which is all with less than three sources, and the
            // legacy ones, clear the upper half.
            None if short && !self.set.is_rdna() => {
                let is_new =
                    self.instruction.declared("src2").is_some() && !self.instruction.opcode.name.contains("LEGACY");
                (Some(Part::LOW), !is_new)
            }
            None if short => (Some(Part::LOW), false),
            None => (None, false),
        };
        Some(Target {
            register: register as usize,
            bits: declared.bits,
            part,
            clears,
            format: declared.format,
            clamps: self.instruction.is_set("clmp"),
            factor: self.instruction.number("omod"),
        })
    }
}

impl Work<'_> {
    /// The lane that each lane's first source is of, if not of that lane, and the lanes that are written.
    fn lanes(&self, wave: &Wave) -> Result<(Option<Lanes>, u64), String> {
        if !matches!(self.instruction.behind, Behind::Dpp16 | Behind::Dpp8 { .. }) {
            return Ok((None, wave.exec));
        }
        let mut from: Lanes = std::array::from_fn(Some);
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
        Ok((Some(from), written))
    }

    fn each_lane(&self, wave: &mut Wave, does: Does) -> Done {
        if matches!(does, Does::Words(_)) && self.takes_second_of_constant() {
            return Err("the second word of a constant is not known".into());
        }
        let mut read = wave.read_all(&self.prepared.sources);
        let (from, lanes) = self.lanes(wave)?;
        if let Some(from) = from {
            let whole = read[0];
            read[0] = from.map(|from| from.map_or(0, |lane| whole[lane]));
        }
        let [a, b, c] = &read;
        let mask = self.prepared.mask.map_or(wave.vcc, |operand| wave.value(operand, wave.mask_bits()));
        let bit = |lane: usize| mask >> lane & 1 != 0;
        let of = |lane: usize| [a[lane], b[lane], c[lane]];
        let (mut values, mut bits) = ([0; 64], 0u64);
        let count = wave.lanes;
        match does {
            Does::Value(value) => each(lanes, count, |lane| values[lane] = value(a[lane], b[lane], c[lane])),
            Does::Carry(carry) => each(lanes, count, |lane| {
                let (value, made) = carry(a[lane], b[lane], c[lane], bit(lane));
                values[lane] = value;
                bits |= u64::from(made) << lane;
            }),
            Does::Test(test) | Does::TestLanes(test) => {
                each(lanes, count, |lane| bits |= u64::from(test(a[lane], b[lane])) << lane);
            }
            Does::Choose => each(lanes, count, |lane| values[lane] = if bit(lane) { b[lane] } else { a[lane] }),
            Does::Masked(value) => {
                each(lanes, count, |lane| values[lane] = value(a[lane], b[lane], c[lane], bit(lane)));
            }
            Does::Halves(value) => {
                let both = self.halves(value);
                each(lanes, count, |lane| values[lane] = both(of(lane)));
            }
            Does::Words(value) => {
                let both = self.words(value);
                each(lanes, count, |lane| values[lane] = both(of(lane)));
            }
            Does::Mixed(_) => {
                let mixed = self.mixed();
                each(lanes, count, |lane| values[lane] = mixed(of(lane)));
            }
        }
        match does {
            Does::Test(_) => self.set_mask(wave, bits),
            Does::TestLanes(_) => {
                if !self.set.is_rdna() {
                    self.set_mask(wave, bits);
                }
                wave.exec = bits;
            }
            Does::Carry(_) => {
                self.set_mask(wave, bits);
                wave.write(&self.target()?, lanes, &values);
            }
            Does::Mixed(half) => {
                let part = match half {
                    Half::Whole => None,
                    Half::Low => Some(Part::LOW),
                    Half::High => Some(Part::HIGH),
                };
                let target = Target { part, clears: false, bits: part.map_or(32, |part| part.bits), ..self.target()? };
                wave.write(&target, lanes, &values);
            }
            _ => wave.write(&self.target()?, lanes, &values),
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
    fn halves(&self, value: fn(u64, u64, u64) -> u64) -> impl Fn([u64; 3]) -> u64 {
        let number = |name| self.instruction.number(name);
        let high = number("opsel_hi") | number("opsel_hi2") << 2;
        let [low, neg, neg_high] = ["opsel", "neg", "neg_hi"].map(number);
        let float = self.instruction.opcode.name.ends_with("F16");
        move |words| {
            let pick = |selected: u32, negated: u32| {
                let half = |place: usize| {
                    let half = words[place] >> (16 * (selected >> place & 1)) & 0xffff;
                    if float && negated >> place & 1 != 0 { half ^ 0x8000 } else { half }
                };
                value(half(0), half(1), half(2)) & 0xffff
            };
            pick(low, neg) | pick(high, neg_high) << 16
        }
    }

    fn takes_second_of_constant(&self) -> bool {
        let number = |name| self.instruction.number(name);
        let of_second = if self.name == "V_PK_MOV_B32" { 0 } else { number("opsel_hi") | number("opsel_hi2") << 2 };
        let second = number("opsel") | of_second;
        let sources = self.prepared.sources.iter().enumerate();
        let mut constants =
            sources.filter(|(_, source)| source.is_some_and(|source| matches!(source.from, From::Fixed(_))));
        constants.any(|(place, _)| second >> place & 1 != 0)
    }

    /// Two values of 32 bits in as many words.
    fn words(&self, value: fn(u64, u64, u64) -> u64) -> impl Fn([u64; 3]) -> u64 {
        let number = |name| self.instruction.number(name);
        let high = number("opsel_hi") | number("opsel_hi2") << 2;
        let [low, neg, neg_high] = ["opsel", "neg", "neg_hi"].map(number);
        let (float, moves) = (self.name.ends_with("F32"), self.name == "V_PK_MOV_B32");
        move |pairs| {
            let pick = |selected: u32, negated: u32| {
                let word = |place: usize| {
                    let word = pairs[place] >> (32 * (selected >> place & 1)) & 0xffff_ffff;
                    if float && negated >> place & 1 != 0 { word ^ 0x8000_0000 } else { word }
                };
                value(word(0), word(1), word(2))
            };
            // A move takes the second word from the second source alone.
            if moves {
                return pick(low, 0) | (pairs[1] >> (32 * (low >> 1 & 1))) << 32;
            }
            pick(low, neg) | pick(high, neg_high) << 32
        }
    }

    /// A product and a sum, each number of 16 or of 32 bits.
    fn mixed(&self) -> impl Fn([u64; 3]) -> u64 {
        let number = |name| self.instruction.number(name);
        let short = number("opsel_hi") | number("opsel_hi2") << 2;
        let [upper, absolute, negated] = ["opsel", "neg_hi", "neg"].map(number);
        let is_short = self.instruction.opcode.name.ends_with("F16");
        move |words| {
            let [a, b, c] = [0, 1, 2].map(|place| {
                let found = match (short >> place & 1, upper >> place & 1) {
                    (0, _) => f(words[place]),
                    (_, high) => h(words[place] >> (16 * high)) as f32,
                };
                let found = if absolute >> place & 1 != 0 { found.abs() } else { found };
                if negated >> place & 1 != 0 { -found } else { found }
            });
            let sum = a.mul_add(b, c);
            if is_short { of_h(sum.into()) } else { of_f(sum) }
        }
    }

    /// Instructions that take values of other lanes.
    fn across_lanes(&self, wave: &mut Wave) -> Done {
        let name = self.name;
        let sources = &self.prepared.sources;
        let to = self.instruction.operand(self.set, "vdst");
        match name {
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
                wave.write(&self.target()?, wave.exec, &values);
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
                wave.write(&self.target()?, lanes & wave.exec, &values);
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
                wave.write(&self.target()?, wave.exec, &values);
            }
            _ if name.starts_with("V_MFMA_") || name.starts_with("V_WMMA_") => {
                matrix::run(self.set, self.instruction, name, wave)?;
            }
            _ => {
                // A value of scalar registers.
                let of_lane = name.strip_prefix("V_S_").and_then(|rest| does(&format!("V_{rest}")));
                let Some(Does::Value(value)) = of_lane else { return Err(format!("{name} is not known")) };
                let result = value(wave.read(sources[0].as_ref(), 0), 0, 0);
                wave.set(to.ok_or("no destination")?, 32, result);
            }
        }
        Ok(())
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
        0x130 => (lane < 63).then_some(lane + 1),
        0x138 => lane.checked_sub(1),
        0x142 => row.checked_sub(1),
        0x143 => (lane >= 32).then_some(31),
        0x150..=0x15f => Some(row + count),
        0x160..=0x16f => Some(row + (place ^ count)),
        _ => return Err(format!("lanes by {control:#x} are not known")),
    })
}

impl Wave {
    fn read(&self, source: Option<&Source>, lane: usize) -> u64 {
        let Some(source) = source else { return 0 };
        let raw = match source.from {
            From::Fixed(value) => value,
            // Parts are of whole words.
            From::Scalar(operand) => self.value(operand, if source.part.is_some() { 32 } else { source.bits }),
            From::Register(register) => {
                let low = u64::from(self.vectors[register][lane]);
                match source.bits {
                    64 => low | u64::from(self.vectors[register + 1][lane]) << 32,
                    _ => low,
                }
            }
        };
        let part = source.part.map_or(raw, |part| part.of(raw));
        let value = if source.bits == 16 { part & 0xffff } else { part };
        value & source.keep ^ source.flip
    }

    /// What [`Wave::read`] gives for each lane, of each source.
    fn read_all(&self, sources: &Sources) -> [[u64; 64]; 3] {
        let mut all = [[0; 64]; 3];
        for (source, values) in sources.iter().zip(&mut all) {
            let Some(source) = source else { continue };
            let From::Register(register) = source.from else {
                values.fill(self.read(Some(source), 0));
                continue;
            };
            if source.part.is_some() {
                (0..self.lanes).for_each(|lane| values[lane] = self.read(Some(source), lane));
                continue;
            }
            let low = &self.vectors[register];
            if source.bits == 64 {
                let high = &self.vectors[register + 1];
                (0..64).for_each(|lane| values[lane] = u64::from(low[lane]) | u64::from(high[lane]) << 32);
            } else {
                (0..64).for_each(|lane| values[lane] = low[lane].into());
            }
            let kept = source.keep & if source.bits == 16 { 0xffff } else { u64::MAX };
            if kept != u64::MAX || source.flip != 0 {
                values.iter_mut().for_each(|value| *value = *value & kept ^ source.flip);
            }
        }
        all
    }

    /// Writes the values of lanes to a register.
    fn write(&mut self, target: &Target, lanes: u64, values: &[u64; 64]) {
        if target.is_plain() {
            let register = &mut self.vectors[target.register];
            each(lanes, self.lanes, |lane| register[lane] = values[lane] as u32);
            return;
        }
        for (lane, value) in values.iter().enumerate().take(self.lanes).filter(|(lane, _)| lanes >> lane & 1 != 0) {
            let value = target.finished(*value);
            let word = &mut self.vectors[target.register][lane];
            *word = match target.part {
                None => value as u32,
                Some(part) => {
                    let others = if target.clears { 0 } else { *word & !part.mask() };
                    others | (value as u32) << part.low & part.mask()
                }
            };
            if target.bits == 64 {
                self.vectors[target.register + 1][lane] = (value >> 32) as u32;
            }
        }
    }
}

impl Target {
    /// Whether the values become the register, as they are.
    fn is_plain(&self) -> bool {
        self.part.is_none() && self.bits != 64 && self.factor == 0 && !self.clamps
    }

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
