//! Scalar instructions.

use std::cmp::Ordering;

use isa::decode::Instruction;
use isa::operand::Operand;
use isa::table::InstructionSet;

use crate::numbers::{f, h, of_f};
use crate::state::Wave;
use crate::vector::Done;

/// What of a scalar instruction is the same each time it is executed.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// Each with its bits.
    sources: [Option<(Operand, u32)>; 2],
    target: Option<(Operand, u32)>,
    /// Of the values: 32 or 64.
    bits: u32,
    constant: i64,
    does: Option<Does>,
}

/// What is known when an instruction is executed.
struct Given {
    a: u64,
    b: u64,
    /// What lies in the destination.
    old: u64,
    constant: i64,
    /// The bit that scalar comparisons make.
    bit: bool,
    bits: u32,
    /// All bits of a value.
    whole: u64,
}

/// The value, if there is one, and the bit, if it changes.
type Made = (Option<u64>, Option<bool>);

/// What an instruction does.
#[derive(Clone, Copy, Debug)]
enum Does {
    Value(fn(&Given) -> Made),
    /// Makes the lanes that are on of a value and those lanes; what they were is the result.
    Save(fn(u64, u64) -> u64),
    /// Compares two values; with a constant, the destination and that.
    Compare {
        kind: Kind,
        with_constant: bool,
        holds: fn(Ordering) -> bool,
    },
}

/// What values are compared as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Signed,
    Unsigned,
}

/// Looks up once what an instruction reads and writes, and what it does.
pub fn prepare(set: &'static InstructionSet, instruction: &Instruction, name: &str) -> Prepared {
    let declared = |field: &str| instruction.declared(field).map_or(32, |declared| declared.bits);
    let operand = |field: &str| instruction.operand(set, field).map(|operand| (operand, declared(field)));
    let wide = declared("ssrc0").max(declared("sdst"));
    Prepared {
        sources: ["ssrc0", "ssrc1"].map(operand),
        target: operand("sdst"),
        bits: if wide == 64 { 64 } else { 32 },
        constant: i64::from(instruction.number("simm16") as u16 as i16),
        does: does(name),
    }
}

/// Executes a scalar instruction with registers. Jumps are the block's.
pub fn run(prepared: &Prepared, name: &str, wave: &mut Wave) -> Done {
    let Prepared { sources, target, bits, constant, does } = *prepared;
    let [a, b] = sources.map(|source| source.map_or(0, |(operand, bits)| wave.value(operand, bits)));
    let whole = if bits == 64 { u64::MAX } else { 0xffff_ffff };
    let old = target.map_or(0, |(operand, _)| wave.value(operand, bits));
    let (result, bit) = match does.ok_or_else(|| format!("{name} is not known"))? {
        Does::Value(value) => value(&Given { a, b, old, constant, bit: wave.scc, bits, whole }),
        Does::Save(found) => {
            let lanes = wave.exec & whole;
            wave.exec = found(a, lanes) & whole;
            (Some(lanes), Some(wave.exec != 0))
        }
        Does::Compare { kind, with_constant, holds } => {
            let (a, b) = match (with_constant, kind) {
                (false, _) => (a, b),
                (true, Kind::Signed) => (old, constant as u64 & 0xffff_ffff),
                (true, Kind::Unsigned) => (old, constant as u64 & 0xffff),
            };
            let order = match kind {
                Kind::Signed => (a as u32 as i32).cmp(&(b as u32 as i32)),
                Kind::Unsigned => a.cmp(&b),
            };
            (None, Some(holds(order)))
        }
    };
    if let (Some(result), Some((operand, bits))) = (result, target) {
        wave.set(operand, bits, result & if bits == 64 { u64::MAX } else { 0xffff_ffff });
    }
    wave.scc = bit.unwrap_or(wave.scc);
    Ok(())
}

fn does(name: &str) -> Option<Does> {
    value(name).map(Does::Value).or_else(|| save(name).map(Does::Save)).or_else(|| comparison(name))
}

#[allow(clippy::neg_cmp_op_on_partial_ord, reason = "a comparison with no number is false, and so its negation true")]
fn value(name: &str) -> Option<fn(&Given) -> Made> {
    let value: fn(&Given) -> Made = match name {
        "S_MOV_B32" | "S_MOV_B64" => |g| (Some(g.a), None),
        "S_CMOV_B32" | "S_CMOV_B64" => |g| (g.bit.then_some(g.a), None),
        "S_CMOVK_I32" => |g| (g.bit.then_some(g.constant as u64), None),
        "S_MOVK_I32" => |g| (Some(g.constant as u64), None),
        "S_CSELECT_B32" | "S_CSELECT_B64" => |g| (Some(if g.bit { g.a } else { g.b }), None),
        "S_ADD_U32" => |g| (Some(g.a + g.b), Some(g.a + g.b > g.whole)),
        "S_ADDC_U32" => |g| {
            let sum = g.a + g.b + u64::from(g.bit);
            (Some(sum), Some(sum > g.whole))
        },
        "S_SUB_U32" => |g| (Some(g.a.wrapping_sub(g.b)), Some(g.b > g.a)),
        "S_SUBB_U32" => |g| {
            let less = g.b + u64::from(g.bit);
            (Some(g.a.wrapping_sub(less)), Some(less > g.a))
        },
        "S_ADD_I32" => |g| (Some(g.a + g.b), Some(overflows(signed(g.a) + signed(g.b)))),
        "S_SUB_I32" => |g| (Some(g.a.wrapping_sub(g.b)), Some(overflows(signed(g.a) - signed(g.b)))),
        "S_ADDK_I32" => |g| {
            let sum = signed(g.old) + g.constant;
            (Some(sum as u64), Some(overflows(sum)))
        },
        "S_MULK_I32" => |g| (Some((signed(g.old) * g.constant) as u64), None),
        "S_MUL_I32" | "S_MUL_U64" => |g| (Some(g.a.wrapping_mul(g.b)), None),
        "S_MUL_HI_U32" => |g| (Some((g.a * g.b) >> 32), None),
        "S_MUL_HI_I32" => |g| (Some(((signed(g.a) * signed(g.b)) >> 32) as u64), None),
        "S_LSHL1_ADD_U32" => |g| shifted_sum(g, 1),
        "S_LSHL2_ADD_U32" => |g| shifted_sum(g, 2),
        "S_LSHL3_ADD_U32" => |g| shifted_sum(g, 3),
        "S_LSHL4_ADD_U32" => |g| shifted_sum(g, 4),
        "S_ADD_NC_U64" => |g| (Some(g.a.wrapping_add(g.b)), None),
        "S_SUB_NC_U64" => |g| (Some(g.a.wrapping_sub(g.b)), None),
        "S_ADD_F32" => |g| (Some(of_f(f(g.a) + f(g.b))), None),
        "S_MUL_F32" => |g| (Some(of_f(f(g.a) * f(g.b))), None),
        "S_FMAC_F32" => |g| (Some(of_f(f(g.a).mul_add(f(g.b), f(g.old)))), None),
        "S_TRUNC_F32" => |g| (Some(of_f(f(g.a).trunc())), None),
        "S_CVT_F32_U32" => |g| (Some(of_f(g.a as u32 as f32)), None),
        "S_CVT_U32_F32" => |g| (Some((f(g.a) as u32).into()), None),
        "S_CMP_EQ_F32" => |g| (None, Some(f(g.a) == f(g.b))),
        "S_CMP_NEQ_F32" => |g| (None, Some(f(g.a) != f(g.b))),
        "S_CMP_LT_F32" => |g| (None, Some(f(g.a) < f(g.b))),
        "S_CMP_LE_F32" => |g| (None, Some(f(g.a) <= f(g.b))),
        "S_CMP_GT_F32" => |g| (None, Some(f(g.a) > f(g.b))),
        "S_CMP_GE_F32" => |g| (None, Some(f(g.a) >= f(g.b))),
        "S_CMP_NLT_F32" => |g| (None, Some(!(f(g.a) < f(g.b)))),
        "S_CMP_NLE_F32" => |g| (None, Some(!(f(g.a) <= f(g.b)))),
        "S_CMP_NGT_F32" => |g| (None, Some(!(f(g.a) > f(g.b)))),
        "S_CMP_NGE_F32" => |g| (None, Some(!(f(g.a) >= f(g.b)))),
        "S_CMP_EQ_F16" => |g| (None, Some(h(g.a) == h(g.b))),
        "S_CMP_NEQ_F16" => |g| (None, Some(h(g.a) != h(g.b))),
        "S_CMP_LT_F16" => |g| (None, Some(h(g.a) < h(g.b))),
        "S_CMP_LE_F16" => |g| (None, Some(h(g.a) <= h(g.b))),
        "S_CMP_GT_F16" => |g| (None, Some(h(g.a) > h(g.b))),
        "S_CMP_GE_F16" => |g| (None, Some(h(g.a) >= h(g.b))),
        "S_CMP_NLT_F16" => |g| (None, Some(!(h(g.a) < h(g.b)))),
        "S_CMP_NLE_F16" => |g| (None, Some(!(h(g.a) <= h(g.b)))),
        "S_CMP_NGT_F16" => |g| (None, Some(!(h(g.a) > h(g.b)))),
        "S_CMP_NGE_F16" => |g| (None, Some(!(h(g.a) >= h(g.b)))),
        "S_MIN_U32" => |g| (Some(g.a.min(g.b)), Some(g.a < g.b)),
        "S_MAX_U32" => |g| (Some(g.a.max(g.b)), Some(g.a >= g.b)),
        "S_MIN_I32" => |g| (Some(signed(g.a).min(signed(g.b)) as u64), Some(signed(g.a) < signed(g.b))),
        "S_MAX_I32" => |g| (Some(signed(g.a).max(signed(g.b)) as u64), Some(signed(g.a) >= signed(g.b))),
        "S_ABS_I32" => |g| tested(u64::from((g.a as u32 as i32).unsigned_abs())),
        "S_ABSDIFF_I32" => |g| tested(u64::from((g.a as i32).wrapping_sub(g.b as i32).unsigned_abs())),
        "S_ASHR_I64" => |g| tested((g.a as i64 >> (g.b & 63)) as u64),
        "S_ASHR_I32" => |g| tested((signed(g.a) >> (g.b & 31)) as u64 & g.whole),
        "S_BFE_U32" => |g| tested(field_of(g.a, g.b)),
        "S_BFE_I32" => |g| {
            let bits = (g.b >> 16 & 127).min(32) as u32;
            let field = field_of((signed(g.a) >> (g.b & 31)) as u64, g.b & !31) as u32;
            tested(if bits == 0 { 0 } else { u64::from(((field << (32 - bits)) as i32 >> (32 - bits)) as u32) })
        },
        "S_BFM_B32" => |g| (Some(((1 << (g.a & 31)) - 1) << (g.b & 31)), None),
        "S_BREV_B32" => |g| (Some(u64::from((g.a as u32).reverse_bits())), None),
        "S_CLZ_I32_U32" => |g| (Some(if g.a == 0 { u64::MAX } else { u64::from((g.a as u32).leading_zeros()) }), None),
        "S_CTZ_I32_B32" => |g| (Some(if g.a == 0 { u64::MAX } else { u64::from((g.a as u32).trailing_zeros()) }), None),
        "S_CTZ_I32_B64" => |g| (Some(if g.a == 0 { u64::MAX } else { u64::from(g.a.trailing_zeros()) }), None),
        "S_SEXT_I32_I16" => |g| (Some(i64::from(g.a as u16 as i16) as u64), None),
        "S_SEXT_I32_I8" => |g| (Some(i64::from(g.a as u8 as i8) as u64), None),
        "S_PACK_LL_B32_B16" => |g| (Some(g.a & 0xffff | (g.b & 0xffff) << 16), None),
        "S_PACK_LH_B32_B16" => |g| (Some(g.a & 0xffff | g.b & 0xffff_0000), None),
        "S_PACK_HH_B32_B16" => |g| (Some(g.a >> 16 & 0xffff | g.b & 0xffff_0000), None),
        "S_BCNT1_I32_B32" | "S_BCNT1_I32_B64" => |g| tested(g.a.count_ones().into()),
        "S_BCNT0_I32_B32" | "S_BCNT0_I32_B64" => |g| tested((!g.a & g.whole).count_ones().into()),
        "S_BITCMP0_B32" => |g| (None, Some(g.a >> (g.b & 31) & 1 == 0)),
        "S_BITCMP1_B32" => |g| (None, Some(g.a >> (g.b & 31) & 1 == 1)),
        "S_AND_B32" | "S_AND_B64" => |g| tested(g.a & g.b),
        "S_OR_B32" | "S_OR_B64" => |g| tested(g.a | g.b),
        "S_XOR_B32" | "S_XOR_B64" => |g| tested(g.a ^ g.b),
        "S_NOT_B32" | "S_NOT_B64" => |g| tested(!g.a & g.whole),
        "S_NAND_B32" | "S_NAND_B64" => |g| tested(!(g.a & g.b) & g.whole),
        "S_NOR_B32" | "S_NOR_B64" => |g| tested(!(g.a | g.b) & g.whole),
        "S_XNOR_B32" | "S_XNOR_B64" => |g| tested(!(g.a ^ g.b) & g.whole),
        "S_AND_NOT1_B32" | "S_AND_NOT1_B64" => |g| tested(g.a & !g.b),
        "S_OR_NOT1_B32" | "S_OR_NOT1_B64" => |g| tested((g.a | !g.b) & g.whole),
        "S_LSHL_B32" | "S_LSHL_B64" => |g| tested(g.a << (g.b & u64::from(g.bits - 1)) & g.whole),
        "S_LSHR_B32" | "S_LSHR_B64" => |g| tested(g.a >> (g.b & u64::from(g.bits - 1))),
        _ => return None,
    };
    Some(value)
}

fn save(name: &str) -> Option<fn(u64, u64) -> u64> {
    let stem = name.strip_suffix("_B32").or_else(|| name.strip_suffix("_B64"))?;
    Some(match stem {
        "S_AND_SAVEEXEC" => |a, lanes| a & lanes,
        "S_OR_SAVEEXEC" => |a, lanes| a | lanes,
        "S_XOR_SAVEEXEC" => |a, lanes| a ^ lanes,
        "S_AND_NOT1_SAVEEXEC" => |a, lanes| a & !lanes,
        "S_AND_NOT0_SAVEEXEC" => |a, lanes| !a & lanes,
        _ => return None,
    })
}

fn comparison(name: &str) -> Option<Does> {
    let (rest, with_constant) = match name.strip_prefix("S_CMPK_") {
        Some(rest) => (rest, true),
        None => (name.strip_prefix("S_CMP_")?, false),
    };
    let (relation, kind) = rest.split_once('_')?;
    let kind = match kind {
        "I32" => Kind::Signed,
        "U32" | "U64" => Kind::Unsigned,
        _ => return None,
    };
    let holds = match relation {
        "EQ" => Ordering::is_eq,
        "LG" => Ordering::is_ne,
        "GT" => Ordering::is_gt,
        "GE" => Ordering::is_ge,
        "LT" => Ordering::is_lt,
        "LE" => Ordering::is_le,
        _ => return None,
    };
    Some(Does::Compare { kind, with_constant, holds })
}

fn signed(value: u64) -> i64 {
    i64::from(value as u32 as i32)
}

fn overflows(result: i64) -> bool {
    i32::try_from(result).is_err()
}

fn shifted_sum(g: &Given, by: u32) -> Made {
    let sum = (g.a << by) + g.b;
    (Some(sum), Some(sum > g.whole))
}

fn tested(value: u64) -> Made {
    (Some(value), Some(value != 0))
}

fn field_of(value: u64, place: u64) -> u64 {
    let bits = (place >> 16 & 127).min(32);
    (value & 0xffff_ffff) >> (place & 31) & ((1 << bits) - 1)
}
