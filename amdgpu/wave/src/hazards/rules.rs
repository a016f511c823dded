//! The rules: which instructions have to stand so far from which others.
//!
//! The numbers are those that AMD's compiler keeps (LLVM, GCNHazardRecognizer); AMD's documents of CDNA2 and CDNA3 have them
//! in the chapter "Manually Inserted Wait States (NOPs)".

use isa::table::InstructionSet;

use super::facts::{Facts, Product, Unit};
use crate::registers::Registers;

/// What an instruction did that others may come too early behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Former {
    /// A vector instruction has written scalar registers.
    Scalars,
    /// A vector instruction has written which lanes are on.
    Exec,
    /// A vector instruction, neither a product of matrices nor of few numbers, has written vector registers.
    Vectors,
    /// Likewise, one of the functions that a unit of its own computes.
    Transcendental,
    /// Likewise, one that writes a part of a register.
    Part,
    /// A product of few numbers has written vector registers.
    Dot,
    /// A product of matrices has written vector registers.
    Product,
    /// A product of matrices has read what it adds to.
    Sum,
    /// A product of doubles was begun.
    Double,
    /// More than 64 bits are stored.
    Stored,
    /// A scalar instruction has written M0.
    M0,
    /// A register of the hardware was set.
    Mode,
}

/// How many there are.
pub const FORMERS: usize = Former::Mode as usize + 1;

/// What an instruction does too early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Later {
    /// A transfer reads scalar registers.
    TransferScalars,
    /// A vector instruction reads scalar registers as the same number for all lanes. Masks and carries are forwarded.
    VectorConstants,
    /// A vector instruction reads whether VCC is zero.
    WhetherVccZero,
    /// A vector instruction reads whether EXEC is zero.
    WhetherExecZero,
    /// An instruction takes the number of a lane from scalar registers.
    LaneNumber,
    /// V_DIV_FMAS reads VCC.
    DivFmas,
    /// An instruction takes values from other lanes.
    OtherLanes,
    /// Likewise, any, whatever it reads.
    AnyOtherLanes,
    /// An instruction makes a scalar of a lane's value.
    Lane,
    /// Likewise, or the other way, whatever it reads.
    AnyLane,
    /// A product of matrices begins.
    Product,
    /// A product of matrices reads what it multiplies.
    Factors,
    /// A product of matrices reads what it adds to.
    AnySum,
    /// Likewise, one of this unit, which are other registers, though not all of them.
    Sum(Product),
    /// Likewise, the same registers.
    SameSum(Product),
    /// A vector instruction reads vector registers.
    Vectors,
    /// Likewise, none of the functions that a unit of its own computes.
    Ordinary,
    /// Likewise, no product of matrices; of few numbers, all but what it adds to.
    Plain,
    /// A product of few numbers reads what it adds to.
    DotSum,
    /// A transfer reads vector registers.
    Transfer,
    /// A vector instruction writes vector registers.
    Written,
    /// Likewise, no product of matrices, or a transfer.
    PlainWritten,
    /// A vector instruction writes vector registers that it leaves a part of.
    PartWritten,
    /// A product and sum of doubles.
    FmaDouble,
    /// Values go from lane to lane, whatever is read.
    Permutation,
    /// What M0 says is used.
    M0,
    /// A register of the hardware is set or got.
    Mode,
}

/// How many wait states are needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needed {
    /// So many.
    States(u32),
    /// As many as the former has passes, and so many more.
    Passes(i32),
    /// So many, if the former has two passes.
    OfTwoPasses(u32),
}

impl Needed {
    /// Wait states behind an instruction of so many passes.
    pub fn states(self, passes: u8) -> u32 {
        match self {
            Self::States(states) => states,
            Self::Passes(more) => (i32::from(passes) + more).max(0) as u32,
            Self::OfTwoPasses(states) => u32::from(passes == 2) * states,
        }
    }
}

/// Two instructions that have to stand apart.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Where it holds: sets and cards.
    sets: &'static [&'static str],
    /// What the first does.
    pub former: Former,
    /// If it is a product of matrices, by which unit.
    pub product: Option<Product>,
    /// What the second does.
    pub later: Later,
    /// How far they have to stand apart.
    pub needed: Needed,
    /// What has to have been done between them for that.
    pub across: Option<Former>,
    /// How many others like the first may stand between them, with which it still holds.
    pub most: u32,
}

const fn rule(sets: &'static [&'static str], former: Former, later: Later, states: u32) -> Rule {
    Rule { sets, former, product: None, later, needed: Needed::States(states), across: None, most: u32::MAX }
}

const fn product(sets: &'static [&'static str], product: Product, later: Later, needed: Needed) -> Rule {
    Rule { sets, former: Former::Product, product: Some(product), later, needed, across: None, most: u32::MAX }
}

use Needed::{OfTwoPasses, Passes, States};
use Product::{Double4, Double16, Short, Single, Wave};

const CDNA: &[&str] = &["cdna2", "cdna3"];
const CDNA2: &[&str] = &["cdna2"];
const CDNA3: &[&str] = &["cdna3"];
const RDNA: &[&str] = &["rdna3", "rdna4"];
const RDNA3: &[&str] = &["rdna3"];
/// RDNA3's cards but for those with a processor, which wait for such functions themselves.
const RDNA3_ALONE: &[&str] = &["gfx1100", "gfx1101", "gfx1102"];

/// All of them.
pub static RULES: &[Rule] = &[
    rule(CDNA, Former::Scalars, Later::TransferScalars, 5),
    rule(CDNA, Former::Scalars, Later::LaneNumber, 4),
    rule(CDNA, Former::Scalars, Later::DivFmas, 4),
    rule(CDNA, Former::Scalars, Later::WhetherVccZero, 5),
    rule(CDNA, Former::Exec, Later::WhetherExecZero, 5),
    rule(CDNA, Former::Exec, Later::AnyOtherLanes, 5),
    rule(CDNA, Former::Exec, Later::Product, 4),
    rule(CDNA, Former::Vectors, Later::OtherLanes, 2),
    // AMD's compiler waits on CDNA3, too, but rocBLAS's assembly for gfx942 does not.
    rule(CDNA2, Former::Vectors, Later::Factors, 2),
    rule(CDNA2, Former::Vectors, Later::AnySum, 2),
    rule(CDNA, Former::M0, Later::M0, 1),
    rule(CDNA, Former::Mode, Later::Mode, 2),
    rule(CDNA2, Former::Stored, Later::Written, 1),
    rule(CDNA3, Former::Stored, Later::Written, 2),
    rule(CDNA3, Former::Scalars, Later::VectorConstants, 2),
    rule(CDNA3, Former::Exec, Later::AnyLane, 4),
    rule(CDNA3, Former::Vectors, Later::Lane, 1),
    rule(CDNA3, Former::Transcendental, Later::Ordinary, 1),
    rule(CDNA3, Former::Part, Later::Vectors, 1),
    rule(CDNA3, Former::Part, Later::PartWritten, 1),
    // A product of few numbers forwards its result to the next of the same kind, and to nothing else.
    rule(CDNA, Former::Dot, Later::Plain, 3),
    rule(CDNA, Former::Dot, Later::Transfer, 3),
    rule(CDNA, Former::Dot, Later::DotSum, 3),
    rule(CDNA, Former::Dot, Later::PlainWritten, 3),
    rule(CDNA, Former::Double, Later::FmaDouble, 2),
    // A product of matrices, and the next.
    product(CDNA, Short, Later::Factors, Passes(3)),
    product(CDNA, Single, Later::Factors, Passes(2)),
    product(CDNA, Double4, Later::Factors, States(6)),
    product(CDNA, Double16, Later::Factors, States(11)),
    product(CDNA2, Short, Later::Sum(Short), Passes(0)),
    product(CDNA2, Short, Later::Sum(Double4), Passes(1)),
    product(CDNA2, Short, Later::Sum(Double16), Passes(1)),
    product(CDNA3, Short, Later::Sum(Short), Passes(1)),
    product(CDNA3, Short, Later::Sum(Single), Passes(1)),
    product(CDNA3, Short, Later::Sum(Double4), Passes(1)),
    product(CDNA3, Short, Later::Sum(Double16), Passes(1)),
    product(CDNA3, Single, Later::Sum(Single), Passes(0)),
    product(CDNA3, Single, Later::Sum(Double4), Passes(0)),
    product(CDNA3, Single, Later::Sum(Double16), Passes(0)),
    product(CDNA3, Double4, Later::Sum(Single), States(4)),
    product(CDNA3, Double16, Later::Sum(Single), States(9)),
    product(CDNA, Double4, Later::Sum(Double4), States(4)),
    product(CDNA, Double4, Later::Sum(Double16), States(4)),
    product(CDNA, Double16, Later::Sum(Double4), States(9)),
    product(CDNA, Double16, Later::Sum(Double16), States(9)),
    product(CDNA, Double4, Later::SameSum(Double4), States(4)),
    product(CDNA3, Short, Later::SameSum(Short), OfTwoPasses(2)),
    product(CDNA3, Short, Later::SameSum(Single), OfTwoPasses(2)),
    product(CDNA3, Single, Later::SameSum(Short), OfTwoPasses(2)),
    product(CDNA3, Single, Later::SameSum(Single), OfTwoPasses(2)),
    // A product of matrices, and who reads or writes what it writes.
    product(CDNA, Short, Later::Plain, Passes(3)),
    product(CDNA, Short, Later::Transfer, Passes(3)),
    product(CDNA, Short, Later::PlainWritten, Passes(3)),
    product(CDNA, Single, Later::Plain, Passes(2)),
    product(CDNA, Single, Later::Transfer, Passes(2)),
    product(CDNA, Single, Later::PlainWritten, Passes(2)),
    product(CDNA, Double4, Later::Plain, States(6)),
    product(CDNA, Double4, Later::Transfer, States(9)),
    product(CDNA, Double4, Later::PlainWritten, States(6)),
    product(CDNA, Double16, Later::Plain, States(11)),
    product(CDNA, Double16, Later::Transfer, States(18)),
    product(CDNA, Double16, Later::PlainWritten, States(11)),
    // What it adds to is read late.
    Rule { former: Former::Sum, ..product(CDNA, Short, Later::PlainWritten, Passes(-1)) },
    // A fault of the card: a product of doubles takes the place of what it would wait for itself.
    Rule { across: Some(Former::Double), ..rule(CDNA2, Former::Vectors, Later::Transfer, 2) },
    // On RDNA, what counts are vector instructions.
    product(RDNA, Wave, Later::Factors, States(1)),
    rule(RDNA3, Former::Exec, Later::Permutation, 1),
    Rule { most: 1, ..rule(RDNA3_ALONE, Former::Transcendental, Later::Vectors, 6) },
];

impl Rule {
    /// Those of a card with a set.
    pub fn of<'a>(set: &InstructionSet, card: &'a str) -> impl Iterator<Item = &'static Self> + use<'a> {
        let name = set.name;
        RULES.iter().filter(move |rule| rule.sets.contains(&name) || rule.sets.contains(&card))
    }
}

impl Former {
    /// What an instruction does, and the registers that it is about. None are named where any instruction comes too early.
    pub fn of(facts: &Facts) -> Vec<(Self, Registers)> {
        let (scalars, vectors, nothing) = (facts.writes.scalars(), facts.writes.vectors(), Registers::default());
        let is_vector = facts.unit == Unit::Vector;
        let done = [
            (Self::Scalars, is_vector, scalars),
            (Self::Vectors, facts.is_plain() && !facts.is_dot(), vectors),
            (Self::Transcendental, is_vector && facts.is_transcendental() && !facts.writes_half, vectors),
            (Self::Part, is_vector && facts.writes_part, vectors),
            (Self::Dot, facts.is_dot(), vectors),
            (Self::Product, facts.product.is_some(), vectors),
            (Self::Sum, facts.product.is_some(), facts.sum.vectors()),
            (Self::Stored, true, facts.stored),
        ];
        let done = done.into_iter().filter(|(_, does, registers)| *does && !registers.is_empty());
        let unnamed = [
            (Self::Exec, facts.writes_exec),
            (Self::Double, facts.is_double()),
            (Self::M0, facts.writes_m0),
            (Self::Mode, facts.name.starts_with("S_SETREG")),
        ];
        let unnamed = unnamed.into_iter().filter(|(_, does)| *does).map(|(former, _)| (former, true, nothing));
        done.chain(unnamed).map(|(former, _, registers)| (former, registers)).collect()
    }
}

impl Later {
    /// Whether an instruction that does another thing does this, too, as far as it knows itself.
    pub fn is_met_by(self, other: Self) -> bool {
        match self {
            Self::SameSum(product) => other == Self::Sum(product),
            _ => other == self,
        }
    }

    /// Whether it writes what it comes too early for.
    pub fn is_write(self) -> bool {
        matches!(self, Self::Written | Self::PlainWritten | Self::PartWritten)
    }

    /// What an instruction may do too early, and the registers that it is about, likewise.
    pub fn of(facts: &Facts) -> Vec<(Self, Registers)> {
        let Facts { name, unit, reads, writes, .. } = facts;
        let (is_vector, is_plain) = (*unit == Unit::Vector, facts.is_plain());
        let (scalars, vectors, nothing) = (reads.scalars(), reads.vectors(), Registers::default());
        let is_lane = ["V_READLANE_B32", "V_READFIRSTLANE_B32"].contains(name);
        let takes_number = ["V_READLANE_B32", "V_WRITELANE_B32"].contains(name);
        let forwarded = if facts.is_dot() { facts.sum } else { nothing };
        let named = [
            (Self::TransferScalars, *unit == Unit::Memory, scalars),
            (Self::VectorConstants, is_vector, facts.constants),
            (Self::LaneNumber, takes_number, scalars),
            (Self::DivFmas, name.starts_with("V_DIV_FMAS"), Registers::vcc()),
            (Self::WhetherVccZero, facts.reads_vccz, Registers::vcc()),
            (Self::OtherLanes, facts.moves_lanes, vectors),
            (Self::Lane, is_lane, vectors),
            (Self::Factors, facts.product.is_some(), facts.factors.vectors()),
            (Self::AnySum, facts.product.is_some(), facts.sum.vectors()),
            (Self::Vectors, is_vector, vectors),
            (Self::Ordinary, is_vector && !facts.is_transcendental(), vectors),
            (Self::Plain, is_plain, vectors.without(forwarded.without(facts.factors))),
            (Self::DotSum, facts.is_dot(), forwarded.vectors()),
            (Self::Transfer, facts.is_transfer(), vectors),
            (Self::Written, is_vector, writes.vectors()),
            (Self::PlainWritten, is_plain || facts.is_transfer(), writes.vectors()),
            (Self::PartWritten, is_vector && facts.writes_part, writes.vectors()),
        ];
        let sum = facts.product.map(|(product, _)| (Self::Sum(product), true, facts.sum.vectors()));
        let named = named.into_iter().chain(sum).filter(|(_, does, registers)| *does && !registers.is_empty());
        let unnamed = [
            (Self::WhetherExecZero, facts.reads_execz),
            (Self::AnyOtherLanes, facts.moves_lanes),
            (Self::AnyLane, is_lane || takes_number),
            (Self::Product, facts.product.is_some()),
            (Self::FmaDouble, ["V_FMA_F64", "V_FMAC_F64"].contains(name)),
            (Self::Permutation, name.starts_with("V_PERMLANE")),
            (Self::M0, facts.uses_m0),
            (Self::Mode, facts.mode.is_some()),
        ];
        let unnamed = unnamed.into_iter().filter(|(_, does)| *does).map(|(later, _)| (later, true, nothing));
        named.chain(unnamed).map(|(later, _, registers)| (later, registers)).collect()
    }
}
