//! Products of matrices that lie in the registers of a wave (MFMA, WMMA).

use isa::decode::Instruction;
use isa::operand::Operand;
use isa::table::InstructionSet;

use crate::numbers::{f, h, of_f, of_h};
use crate::state::Wave;
use crate::vector::Done;

/// What the elements of a matrix are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    F16,
    Bf16,
    F32,
    /// Floats of 32 bits that are rounded to 10 behind the point.
    Xf32,
    F64,
    /// Whole numbers of 8 bits.
    Byte,
    /// Whole numbers of 32.
    Word,
}

impl Kind {
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "F16" => Self::F16,
            "BF16" => Self::Bf16,
            "F32" => Self::F32,
            "XF32" => Self::Xf32,
            "F64" => Self::F64,
            "I8" | "IU8" => Self::Byte,
            "I32" => Self::Word,
            _ => return None,
        })
    }

    fn bits(self) -> usize {
        match self {
            Self::Byte => 8,
            Self::F16 | Self::Bf16 => 16,
            Self::F32 | Self::Xf32 | Self::Word => 32,
            Self::F64 => 64,
        }
    }

    /// A number, which doubles have exactly.
    fn number(self, bits: u64, signed: bool) -> f64 {
        match self {
            Self::F16 => h(bits),
            Self::Bf16 => f(bits << 16).into(),
            Self::F32 => f(bits).into(),
            // AMD does not say how they are rounded; here it is to the nearest.
            Self::Xf32 => f(rounded(bits as u32, 13).into()).into(),
            Self::F64 => f64::from_bits(bits),
            Self::Byte if signed => (bits as u8 as i8).into(),
            Self::Byte => (bits as u8).into(),
            Self::Word => (bits as u32 as i32).into(),
        }
    }
}

/// Products of two matrices, each added to a third: their sizes and types, and where their elements lie.
#[derive(Clone, Copy, Debug)]
struct Product {
    kind: Kind,
    result: Kind,
    /// Rows of the first and of the third matrix, and columns of the second and of the third.
    side: usize,
    /// Columns of the first matrix, and rows of the second.
    depth: usize,
    /// How many products there are.
    count: usize,
    /// Elements of the first matrix, and of the second, that a lane has.
    share: usize,
    rdna: Option<u8>,
}

impl Product {
    /// By the name of an instruction ("V_MFMA_F32_16X16X4_4B_F16", "V_MFMA_F32_16X16X4F16"), and the bits of a lane's share.
    fn of(set: &InstructionSet, name: &str, bits: usize) -> Option<Self> {
        let name = name.strip_prefix("V_MFMA_").or_else(|| name.strip_prefix("V_WMMA_"))?;
        let (result, rest) = name.trim_end_matches("_1K").split_once('_')?;
        let mut sizes = rest.splitn(3, 'X');
        let side: usize = sizes.next()?.parse().ok()?;
        let end = sizes.nth(1)?;
        let digits = end.find(|each: char| !each.is_ascii_digit())?;
        let depth: usize = end[..digits].parse().ok()?;
        let kind = Kind::of(end[digits..].rsplit('_').next()?)?;
        let rdna = match set.name {
            "rdna3" => Some(3),
            "rdna4" => Some(4),
            _ => None,
        };
        let share = bits.checked_div(kind.bits()).filter(|share| *share > 0)?;
        let count = if rdna.is_some() { 1 } else { share * (64 / side) / depth };
        Some(Self { kind, result: Kind::of(result)?, side, depth, count, share, rdna })
    }

    fn lanes(self) -> usize {
        if self.rdna.is_some() { 32 } else { 64 }
    }

    /// The lane, and the place among its elements, of an element of a row of the first, or of a column of the second matrix.
    fn place(self, product: usize, line: usize, element: usize) -> (usize, usize) {
        let group = element / self.share * self.count + product;
        (line + self.side * group, element % self.share)
    }

    /// The lane, and the place among its elements, of an element of the third matrix.
    fn place_of_sum(self, product: usize, row: usize, column: usize) -> (usize, usize) {
        let side = self.side;
        match (self.rdna, self.result, side) {
            (Some(3), ..) => (column + side * (row % 2), row / 2),
            (Some(_), ..) => (column + side * (row / 8), row % 8),
            (None, Kind::F64, 4) => (column + side * (product + self.count * row), 0),
            (None, Kind::F64, _) => (column + side * (row % 4), row / 4),
            (None, _, 4) => (column + side * product, row),
            (None, ..) => {
                let groups = 64 / side;
                let place = row / (4 * groups) * 4 + row % 4;
                (column + side * (row / 4 % groups), product * side * side / 64 + place)
            }
        }
    }
}

impl Product {
    /// A number and the products of a row and a column. Floats of 32 and of 64 bits are added one by one. AMD does not say
    /// how often a sum of shorter ones is rounded; here it is once.
    fn sum(self, row: &[f64], column: &[f64], start: u64) -> u64 {
        let pairs = row.iter().zip(column);
        match self.kind {
            Kind::F64 => return pairs.fold(f64::from_bits(start), |sum, (a, b)| a.mul_add(*b, sum)).to_bits(),
            Kind::F32 => return of_f(pairs.fold(f(start), |sum, (a, b)| (*a as f32).mul_add(*b as f32, sum))),
            _ => {}
        }
        let sum: f64 = pairs.map(|(a, b)| a * b).sum();
        match self.result {
            Kind::F16 => of_h(sum + h(start)),
            Kind::Bf16 => bf16(sum + Kind::Bf16.number(start, false)),
            Kind::Word => u64::from((start as i32).wrapping_add(sum as i64 as i32) as u32),
            _ => of_f((sum + f64::from(f(start))) as f32),
        }
    }
}

/// A matrix in registers, or the same number everywhere.
#[derive(Clone, Copy, Debug)]
enum Matrix {
    Registers(usize),
    Same(u64),
}

impl Matrix {
    fn of(wave: &Wave, operand: Option<Operand>, bits: usize) -> Self {
        match operand {
            Some(Operand::Vector(register)) => Self::Registers(register as usize),
            Some(constant) => Self::Same(wave.value(constant, bits as u32)),
            None => Self::Same(0),
        }
    }

    /// The bits of a lane's element, of which a word has several or which has several words.
    fn element(self, wave: &Wave, (lane, place): (usize, usize), bits: usize) -> u64 {
        let register = match self {
            Self::Same(bits) => return bits,
            Self::Registers(register) => register,
        };
        let word = |number: usize| u64::from(wave.vectors[register + number][lane]);
        match bits {
            64 => word(2 * place) | word(2 * place + 1) << 32,
            _ => {
                let in_word = 32 / bits;
                word(place / in_word) >> (place % in_word * bits) & (u64::MAX >> (64 - bits))
            }
        }
    }
}

/// Executes such an instruction, for all lanes, whatever of them is on.
pub fn run(set: &'static InstructionSet, instruction: &Instruction, name: &str, wave: &mut Wave) -> Done {
    let bits = instruction.declared("src0").map_or(0, |declared| declared.bits as usize);
    let product = Product::of(set, name, bits).ok_or_else(|| format!("{name} is not known"))?;
    check(instruction, product, wave.lanes)?;
    let signs = instruction.number("neg");
    let signed = [0, 1].map(|place| product.rdna.is_none() || signs >> place & 1 != 0);
    let numbers = |field: &str, signed: bool| {
        let matrix = Matrix::of(wave, instruction.operand(set, field), product.kind.bits());
        numbers(product, matrix, wave, signed)
    };
    let (rows, columns) = (numbers("src0", signed[0]), numbers("src1", signed[1]));
    let third = Third::of(set, instruction, product, wave)?;
    let mut sums = Vec::with_capacity(product.count * product.side * product.side);
    for each in 0..product.count {
        for row in 0..product.side {
            for column in 0..product.side {
                let line = |all: &[f64], line: usize| {
                    let first = (each * product.side + line) * product.depth;
                    first..first + product.depth.min(all.len())
                };
                let (a, b) = (&rows[line(&rows, row)], &columns[line(&columns, column)]);
                let place = product.place_of_sum(each, row, column);
                sums.push((place, product.sum(a, b, third.start(wave, place))));
            }
        }
    }
    sums.into_iter().for_each(|(place, sum)| third.set(wave, place, sum));
    Ok(())
}

fn check(instruction: &Instruction, product: Product, lanes: usize) -> Done {
    if lanes != product.lanes() || (product.rdna.is_some() && instruction.is_set("clmp")) {
        return Err(format!("waves of {lanes}, or limited sums, are not known"));
    }
    if product.rdna.is_none() && ["cbsz", "abid", "blgp"].iter().any(|name| instruction.is_set(name)) {
        return Err("rows of other lanes, or other signs, are not known".into());
    }
    let has_signs = product.kind != Kind::Byte && ["neg", "neg_hi"].iter().any(|name| instruction.is_set(name));
    if product.rdna.is_some() && has_signs {
        return Err("matrices with other signs are not known".into());
    }
    Ok(())
}

/// The elements of all rows of the first matrix, or of all columns of the second, one line after another.
fn numbers(product: Product, matrix: Matrix, wave: &Wave, signed: bool) -> Vec<f64> {
    let bits = product.kind.bits();
    let elements = (0..product.count * product.side * product.depth).map(|number| {
        let (line, element) = (number / product.depth, number % product.depth);
        let place = product.place(line / product.side, line % product.side, element);
        product.kind.number(matrix.element(wave, place, bits), signed)
    });
    elements.collect()
}

/// The third matrix, and where the sums go.
struct Third {
    start: Matrix,
    to: usize,
    bits: usize,
    /// Which half of a word is a sum of 16 bits.
    high: bool,
}

impl Third {
    fn of(
        set: &'static InstructionSet,
        instruction: &Instruction,
        product: Product,
        wave: &Wave,
    ) -> Result<Self, String> {
        let bits = product.result.bits();
        if bits == 16 && product.rdna != Some(3) {
            return Err("sums of 16 bits are not known".into());
        }
        let Some(Operand::Vector(to)) = instruction.operand(set, "vdst") else {
            return Err("the destination is no vector register".into());
        };
        let start = Matrix::of(wave, instruction.operand(set, "src2"), bits);
        Ok(Self { start, to: to as usize, bits, high: instruction.number("opsel") & 4 != 0 })
    }

    fn start(&self, wave: &Wave, (lane, place): (usize, usize)) -> u64 {
        match self.bits {
            16 => self.start.element(wave, (lane, 2 * place + usize::from(self.high)), 16),
            bits => self.start.element(wave, (lane, place), bits),
        }
    }

    fn set(&self, wave: &mut Wave, (lane, place): (usize, usize), sum: u64) {
        let words = self.bits.div_ceil(32);
        let word = &mut wave.vectors[self.to + place * words][lane];
        *word = match (self.bits, self.high) {
            (16, true) => *word & 0xffff | (sum as u32) << 16,
            (16, false) => *word & 0xffff_0000 | sum as u32,
            _ => sum as u32,
        };
        if words == 2 {
            wave.vectors[self.to + place * words + 1][lane] = (sum >> 32) as u32;
        }
    }
}

/// The nearest float of 16 bits that has the exponents of one of 32, or of two the even one.
fn bf16(number: f64) -> u64 {
    u64::from(rounded((number as f32).to_bits(), 16) >> 16)
}

/// A float of 32 bits without so many of the last ones, rounded to the nearest, of two to the even one.
fn rounded(bits: u32, last: u32) -> u32 {
    let kept = !((1 << last) - 1);
    if f32::from_bits(bits).is_nan() {
        return bits & kept | 1 << 22;
    }
    bits.wrapping_add((1 << (last - 1)) - 1 + (bits >> last & 1)) & kept
}
