//! What vector instructions make of the values of one lane.

use crate::numbers::*;

/// What an instruction does in each lane.
#[derive(Clone, Copy)]
pub enum Does {
    /// A value of up to three.
    Value(fn(u64, u64, u64) -> u64),
    /// A value and a bit, of two values and a bit.
    Carry(fn(u64, u64, u64, bool) -> (u64, bool)),
    /// A bit of two values.
    Test(fn(u64, u64) -> bool),
    /// Likewise; the bits become the lanes that are on.
    TestLanes(fn(u64, u64) -> bool),
    /// The value of each half of words.
    Halves(fn(u64, u64, u64) -> u64),
    /// The value of each word of two.
    Words(fn(u64, u64, u64) -> u64),
    /// The first value where the bit is off, otherwise the second.
    Choose,
    /// A value of three and the lane's bit of the mask.
    Masked(fn(u64, u64, u64, bool) -> u64),
    /// As `Value`, where each source is a float of 16 or 32 bits.
    Mixed(Half),
}

/// Which part of a register is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    /// All, as 32 bits.
    Whole,
    /// The lower 16 bits.
    Low,
    /// The upper 16 bits.
    High,
}

/// What an instruction does, by its name without the encoding's.
pub fn does(name: &str) -> Option<Does> {
    value(name).map(Does::Value).or_else(|| other(name)).or_else(|| test(name))
}

/// What an instruction does whose result is the nearest that its type has.
pub fn does_limited(name: &str) -> Option<Does> {
    Some(Does::Value(match name {
        "V_ADD_NC_U32" => |a, b, _| (a + b).min(0xffff_ffff),
        "V_SUB_NC_U32" => |a, b, _| a.saturating_sub(b),
        "V_SUBREV_NC_U32" => |a, b, _| b.saturating_sub(a),
        "V_ADD_NC_U16" => |a, b, _| (a + b).min(0xffff),
        "V_SUB_NC_U16" => |a, b, _| a.saturating_sub(b),
        "V_ADD_NC_I32" => |a, b, _| w(i(a).saturating_add(i(b))),
        "V_SUB_NC_I32" => |a, b, _| w(i(a).saturating_sub(i(b))),
        // A float's limits are 0 and 1, which are applied when it is written.
        _ if name.ends_with("F32") || name.ends_with("F16") || name.ends_with("F64") => return does(name),
        _ => return None,
    }))
}

fn i(value: u64) -> i32 {
    value as u32 as i32
}

fn w(value: i32) -> u64 {
    u64::from(value as u32)
}

fn i16(value: u64) -> std::primitive::i16 {
    value as u16 as std::primitive::i16
}

fn long(value: u64) -> i64 {
    value as i64
}

fn narrow(value: u64) -> u64 {
    value & 0xffff
}

fn word(value: u64) -> u64 {
    value & 0xffff_ffff
}

fn low24(value: u64) -> u64 {
    value & 0xff_ffff
}

fn signed24(value: u64) -> i64 {
    i64::from((value as u32) << 8) as i32 as i64 >> 8
}

fn middle<T: Ord>(a: T, b: T, c: T) -> T {
    let (low, high) = if a < b { (a, b) } else { (b, a) };
    if c < low {
        low
    } else if c > high {
        high
    } else {
        c
    }
}

type Value = fn(u64, u64, u64) -> u64;

#[allow(clippy::too_many_lines, reason = "a table")]
fn value(name: &str) -> Option<Value> {
    Some(match name {
        "V_MOV_B32" | "V_MOV_B16" | "V_ACCVGPR_READ" | "V_ACCVGPR_WRITE" | "V_ACCVGPR_MOV_B32" => |a, _, _| a,
        "V_NOT_B32" => |a, _, _| word(!a),
        "V_AND_B32" | "V_AND_B16" => |a, b, _| a & b,
        "V_OR_B32" | "V_OR_B16" => |a, b, _| a | b,
        "V_XOR_B32" | "V_XOR_B16" => |a, b, _| a ^ b,
        "V_OR3_B32" => |a, b, c| a | b | c,
        "V_XOR3_B32" => |a, b, c| a ^ b ^ c,
        "V_AND_OR_B32" => |a, b, c| a & b | c,
        "V_BFI_B32" => |a, b, c| a & b | !a & c,
        "V_ADD_NC_U32" => |a, b, _| word(a + b),
        "V_SUB_NC_U32" => |a, b, _| word(a.wrapping_sub(b)),
        "V_SUBREV_NC_U32" => |a, b, _| word(b.wrapping_sub(a)),
        "V_SUBREV_NC_U16" => |a, b, _| narrow(b.wrapping_sub(a)),
        "V_LSHL_ADD_U64" => |a, b, c| (a << (b & 7)).wrapping_add(c),
        "V_MOV_B64" => |a, _, _| a,
        "V_PACK_B32_F16" => |a, b, _| a | b << 16,
        "V_DOT4C_I32_I8" => |a, b, c| {
            let byte = |word: u64, place: u32| i32::from((word >> (8 * place)) as i8);
            w(i(c).wrapping_add((0..4).map(|place| byte(a, place) * byte(b, place)).sum()))
        },
        "V_ADD_NC_U16" => |a, b, _| narrow(a + b),
        "V_SUB_NC_U16" => |a, b, _| narrow(a.wrapping_sub(b)),
        "V_ADD3_U32" => |a, b, c| word(a + b + c),
        "V_XAD_U32" => |a, b, c| word((a ^ b) + c),
        "V_LSHL_ADD_U32" => |a, b, c| word((a << (b & 31)) + c),
        "V_ADD_LSHL_U32" => |a, b, c| word(word(a + b) << (c & 31)),
        "V_LSHL_OR_B32" => |a, b, c| word(a << (b & 31)) | c,
        "V_LSHLREV_B32" => |a, b, _| word(b << (a & 31)),
        "V_LSHRREV_B32" => |a, b, _| b >> (a & 31),
        "V_ASHRREV_I32" => |a, b, _| w(i(b) >> (a & 31)),
        "V_LSHLREV_B16" => |a, b, _| narrow(b << (a & 15)),
        "V_LSHRREV_B16" => |a, b, _| b >> (a & 15),
        "V_ASHRREV_I16" => |a, b, _| narrow((i16(b) >> (a & 15)) as u64),
        "V_LSHLREV_B64" => |a, b, _| b << (a & 63),
        "V_LSHRREV_B64" => |a, b, _| b >> (a & 63),
        "V_ASHRREV_I64" => |a, b, _| (b as i64 >> (a & 63)) as u64,
        "V_BFE_U32" => |a, b, c| a >> (b & 31) & ((1 << (c & 31)) - 1),
        "V_BFE_I32" => |a, b, c| {
            let bits = (c & 31) as u32;
            let field = (i(a) >> (b & 31)) as u32 & ((1u32 << bits) - 1);
            if bits == 0 { 0 } else { w((field << (32 - bits)) as i32 >> (32 - bits)) }
        },
        "V_BFREV_B32" => |a, _, _| u64::from((a as u32).reverse_bits()),
        "V_BCNT_U32_B32" => |a, b, _| word(u64::from(a.count_ones()) + b),
        "V_CTZ_I32_B32" => |a, _, _| if a == 0 { w(-1) } else { u64::from((a as u32).trailing_zeros()) },
        "V_CLZ_I32_U32" => |a, _, _| if a == 0 { w(-1) } else { u64::from((a as u32).leading_zeros()) },
        "V_CLS_I32" => |a, _, _| {
            let same = if i(a) < 0 { (a as u32).leading_ones() } else { (a as u32).leading_zeros() };
            if same == 32 { w(-1) } else { same.into() }
        },
        "V_ALIGNBIT_B32" => |a, b, c| word((a << 32 | b) >> (c & 31)),
        "V_PERM_B32" => |a, b, c| {
            let bytes = (a << 32 | b).to_le_bytes();
            let pick = |selected: u8| match selected {
                0..=7 => bytes[usize::from(selected)],
                8..=11 => {
                    if bytes[usize::from(selected - 8) * 2 + 1] & 128 != 0 {
                        255
                    } else {
                        0
                    }
                }
                12 => 0,
                _ => 255,
            };
            u32::from_le_bytes((c as u32).to_le_bytes().map(pick)).into()
        },
        "V_MUL_LO_U32" => |a, b, _| word(a * b),
        "V_MUL_HI_U32" => |a, b, _| (a * b) >> 32,
        "V_MUL_LO_U16" => |a, b, _| narrow(a * b),
        "V_MUL_U32_U24" => |a, b, _| word(low24(a) * low24(b)),
        "V_MUL_HI_U32_U24" => |a, b, _| (low24(a) * low24(b)) >> 32,
        "V_MUL_I32_I24" => |a, b, _| word((signed24(a) * signed24(b)) as u64),
        "V_MAD_U32_U24" => |a, b, c| word(low24(a) * low24(b) + c),
        "V_MAD_U16" => |a, b, c| narrow(a * b + c),
        "V_MIN_U32" | "V_MIN_U16" => |a, b, _| a.min(b),
        "V_MAX_U32" | "V_MAX_U16" => |a, b, _| a.max(b),
        "V_MIN_I32" => |a, b, _| w(i(a).min(i(b))),
        "V_MAX_I32" => |a, b, _| w(i(a).max(i(b))),
        "V_MIN_I16" => |a, b, _| narrow(i16(a).min(i16(b)) as u64),
        "V_MAX_I16" => |a, b, _| narrow(i16(a).max(i16(b)) as u64),
        "V_MIN3_U32" => |a, b, c| a.min(b).min(c),
        "V_MAX3_U32" | "V_MAX3_U16" => |a, b, c| a.max(b).max(c),
        "V_MIN3_I32" => |a, b, c| w(i(a).min(i(b)).min(i(c))),
        "V_MAX3_I32" => |a, b, c| w(i(a).max(i(b)).max(i(c))),
        "V_MED3_U32" => |a, b, c| middle(a, b, c),
        "V_MED3_I32" => |a, b, c| w(middle(i(a), i(b), i(c))),
        _ => return float(name),
    })
}

/// The sine of a number of turns, some quarters of a turn further on. Hardware has it for 256 turns at most, and `beyond` for
/// more.
fn sine(turns: f32, further: i64, beyond: f32) -> f32 {
    if !turns.is_finite() {
        return f32::NAN;
    }
    if turns.abs() > 256. {
        return beyond;
    }
    let turns = f64::from(turns);
    let quarters = (turns * 4.).round() as i64;
    let rest = (turns - quarters as f64 / 4.) * std::f64::consts::TAU;
    let (of_quarter, is_negative) = match (quarters + further).rem_euclid(4) {
        0 => (rest.sin(), false),
        1 => (rest.cos(), false),
        2 => (rest.sin(), true),
        _ => (rest.cos(), true),
    };
    (if is_negative { 0. - of_quarter } else { of_quarter }) as f32
}

fn float(name: &str) -> Option<Value> {
    Some(match name {
        "V_ADD_F32" => |a, b, _| of_f(f(a) + f(b)),
        "V_SUB_F32" => |a, b, _| of_f(f(a) - f(b)),
        "V_SUBREV_F32" => |a, b, _| of_f(f(b) - f(a)),
        "V_MUL_F32" => |a, b, _| of_f(f(a) * f(b)),
        "V_FMA_F32" | "V_FMAC_F32" | "V_FMAAK_F32" | "V_FMAMK_F32" => |a, b, c| of_f(f(a).mul_add(f(b), f(c))),
        "V_MAC_F32" | "V_MAD_F32" | "V_MADAK_F32" | "V_MADMK_F32" => |a, b, c| {
            let product = without_subnormals(without_subnormals(f(a)) * without_subnormals(f(b)));
            of_f(without_subnormals(product + without_subnormals(f(c))))
        },
        "V_MIN_F32" => |a, b, _| of_f(smaller(f(a).into(), f(b).into()) as f32),
        "V_MAX_F32" => |a, b, _| of_f(larger(f(a).into(), f(b).into()) as f32),
        "V_MIN3_F32" => |a, b, c| of_f(smaller(smaller(f(a).into(), f(b).into()), f(c).into()) as f32),
        "V_MAX3_F32" => |a, b, c| of_f(larger(larger(f(a).into(), f(b).into()), f(c).into()) as f32),
        "V_EXP_F32" => |a, _, _| of_f(f64::from(f(a)).exp2() as f32),
        "V_LOG_F32" => |a, _, _| of_f(f64::from(f(a)).log2() as f32),
        "V_SIN_F32" => |a, _, _| of_f(sine(f(a), 0, 0.)),
        "V_COS_F32" => |a, _, _| of_f(sine(f(a), 1, 1.)),
        "V_RCP_F32" | "V_RCP_IFLAG_F32" => |a, _, _| of_f(1. / f(a)),
        "V_RSQ_F32" => |a, _, _| of_f((1. / f64::from(f(a)).sqrt()) as f32),
        "V_SQRT_F32" => |a, _, _| of_f(f(a).sqrt()),
        "V_RNDNE_F32" => |a, _, _| of_f(f(a).round_ties_even()),
        "V_TRUNC_F32" => |a, _, _| of_f(f(a).trunc()),
        "V_FLOOR_F32" => |a, _, _| of_f(f(a).floor()),
        "V_CEIL_F32" => |a, _, _| of_f(f(a).ceil()),
        "V_FRACT_F32" => |a, _, _| {
            let fraction = f(a) - f(a).floor();
            of_f(if fraction < 1. { fraction } else { fraction * (1. - f32::EPSILON / 2.) })
        },
        "V_LDEXP_F32" => |a, b, _| of_f(scaled(f(a), i(b))),
        "V_FREXP_MANT_F32" => |a, _, _| of_f(fraction(f(a).into()) as f32),
        "V_ADD_F64" => |a, b, _| of_d(d(a) + d(b)),
        "V_MUL_F64" => |a, b, _| of_d(d(a) * d(b)),
        "V_FMA_F64" | "V_FMAC_F64" => |a, b, c| of_d(d(a).mul_add(d(b), d(c))),
        "V_MIN_F64" => |a, b, _| of_d(smaller(d(a), d(b))),
        "V_MAX_F64" => |a, b, _| of_d(larger(d(a), d(b))),
        "V_RCP_F64" => |a, _, _| of_d(1. / d(a)),
        "V_RSQ_F64" => |a, _, _| of_d(1. / d(a).sqrt()),
        "V_RNDNE_F64" => |a, _, _| of_d(d(a).round_ties_even()),
        "V_TRUNC_F64" => |a, _, _| of_d(d(a).trunc()),
        "V_FLOOR_F64" => |a, _, _| of_d(d(a).floor()),
        "V_CEIL_F64" => |a, _, _| of_d(d(a).ceil()),
        "V_FRACT_F64" => |a, _, _| {
            let fraction = d(a) - d(a).floor();
            of_d(if fraction < 1. { fraction } else { fraction * (1. - f64::EPSILON / 2.) })
        },
        "V_LDEXP_F64" => |a, b, _| of_d(scaled_double(d(a), i(b))),
        "V_FREXP_MANT_F64" => |a, _, _| of_d(fraction(d(a))),
        "V_TRIG_PREOP_F64" => |a, b, _| of_d(part_of_two_over_pi(d(a), b & 31)),
        "V_FREXP_EXP_I32_F64" => |a, _, _| w(fraction_exponent(d(a))),
        "V_ADD_F16" => |a, b, _| of_h(h(a) + h(b)),
        "V_SUB_F16" => |a, b, _| of_h(h(a) - h(b)),
        // Doubles have all products of these, and enough of their sums.
        "V_FMA_F16" | "V_FMAC_F16" => |a, b, c| of_h(h(a).mul_add(h(b), h(c))),
        "V_MUL_F16" => |a, b, _| of_h(h(a) * h(b)),
        "V_MAX_F16" => |a, b, _| of_h(larger(h(a), h(b))),
        "V_MIN_F16" => |a, b, _| of_h(smaller(h(a), h(b))),
        "V_RCP_F16" => |a, _, _| of_h(1. / h(a)),
        "V_TRUNC_F16" => |a, _, _| of_h(h(a).trunc()),
        "V_FLOOR_F16" => |a, _, _| of_h(h(a).floor()),
        "V_CEIL_F16" => |a, _, _| of_h(h(a).ceil()),
        _ => return conversion(name),
    })
}

/// 0 for a number that is subnormal. Older operations know none.
fn without_subnormals(number: f32) -> f32 {
    if number.is_subnormal() { 0f32.copysign(number) } else { number }
}

fn conversion(name: &str) -> Option<Value> {
    Some(match name {
        "V_CVT_F32_I32" => |a, _, _| of_f(i(a) as f32),
        "V_CVT_F32_U32" => |a, _, _| of_f(a as u32 as f32),
        "V_CVT_I32_F32" => |a, _, _| w(f(a) as i32),
        "V_CVT_U32_F32" => |a, _, _| (f(a) as u32).into(),
        "V_CVT_F32_F16" => |a, _, _| of_f(h(a) as f32),
        "V_CVT_F16_F32" => |a, _, _| of_h(f(a).into()),
        "V_CVT_F16_I16" => |a, _, _| of_h(i16(a).into()),
        "V_CVT_F16_U16" => |a, _, _| of_h((a as u16).into()),
        "V_CVT_I16_F16" => |a, _, _| narrow(h(a) as std::primitive::i16 as u64),
        "V_CVT_F32_F64" => |a, _, _| of_f(d(a) as f32),
        "V_CVT_F64_F32" => |a, _, _| of_d(f(a).into()),
        "V_CVT_F64_I32" => |a, _, _| of_d(i(a).into()),
        "V_CVT_F64_U32" => |a, _, _| of_d((a as u32).into()),
        "V_CVT_I32_F64" => |a, _, _| w(d(a) as i32),
        "V_CVT_U32_F64" => |a, _, _| (d(a) as u32).into(),
        "V_CVT_F32_UBYTE0" => |a, _, _| of_f((a & 255) as f32),
        "V_CVT_F32_UBYTE1" => |a, _, _| of_f((a >> 8 & 255) as f32),
        "V_CVT_F32_UBYTE2" => |a, _, _| of_f((a >> 16 & 255) as f32),
        "V_CVT_F32_UBYTE3" => |a, _, _| of_f((a >> 24 & 255) as f32),
        "V_DIV_FIXUP_F32" => |a, b, c| {
            of_f(fixed_up(f(a).into(), f(b).into(), f(c).into(), exponent(f(c)) - exponent(f(b)) < -150) as f32)
        },
        "V_DIV_FIXUP_F64" => {
            |a, b, c| of_d(fixed_up(d(a), d(b), d(c), exponent_double(d(c)) - exponent_double(d(b)) < -1075))
        }
        "V_DIV_FIXUP_F16" => |a, b, c| of_h(fixed_up(h(a), h(b), h(c), false)),
        _ => return None,
    })
}

/// A quotient that was computed, where it is none of the special ones.
fn fixed_up(quotient: f64, denominator: f64, numerator: f64, vanishes: bool) -> f64 {
    let sign = if numerator.is_sign_negative() == denominator.is_sign_negative() { 1. } else { -1. };
    match (numerator, denominator) {
        _ if numerator.is_nan() => numerator,
        _ if denominator.is_nan() => denominator,
        (0., 0.) => f64::NAN,
        _ if numerator.is_infinite() && denominator.is_infinite() => f64::NAN,
        (_, 0.) => sign * f64::INFINITY,
        _ if numerator.is_infinite() => sign * f64::INFINITY,
        (0., _) => sign * 0.,
        _ if denominator.is_infinite() || vanishes => sign * 0.,
        // Its own steps overflow before the quotient does.
        _ if quotient.is_nan() => sign * f64::INFINITY,
        _ => sign * quotient.abs(),
    }
}

fn other(name: &str) -> Option<Does> {
    Some(match name {
        "V_CNDMASK_B32" | "V_CNDMASK_B16" => Does::Choose,
        "V_ADD_CO_U32" => Does::Carry(|a, b, _, _| (word(a + b), a + b > 0xffff_ffff)),
        "V_ADD_CO_CI_U32" => Does::Carry(|a, b, _, bit| {
            let sum = a + b + u64::from(bit);
            (word(sum), sum > 0xffff_ffff)
        }),
        "V_SUB_CO_U32" => Does::Carry(|a, b, _, _| (word(a.wrapping_sub(b)), b > a)),
        "V_SUB_CO_CI_U32" => Does::Carry(|a, b, _, bit| {
            let taken = b + u64::from(bit);
            (word(a.wrapping_sub(taken)), taken > a)
        }),
        "V_SUBREV_CO_U32" => Does::Carry(|a, b, _, _| (word(b.wrapping_sub(a)), a > b)),
        "V_SUBREV_CO_CI_U32" => Does::Carry(|a, b, _, bit| {
            let taken = a + u64::from(bit);
            (word(b.wrapping_sub(taken)), taken > b)
        }),
        "V_MAD_U64_U32" => Does::Carry(|a, b, c, _| (a * b).overflowing_add(c)),
        "V_MAD_I64_I32" => Does::Carry(|a, b, c, _| {
            let sum = i128::from(i(a)) * i128::from(i(b)) + i128::from(long(c));
            (sum as u64, sum >> 64 & 1 != 0)
        }),
        "V_DIV_SCALE_F32" => Does::Carry(|a, b, c, _| {
            let (number, bit) = divisible(f(a), f(b), f(c));
            (of_f(number), bit)
        }),
        "V_DIV_SCALE_F64" => Does::Carry(|a, b, c, _| {
            let (number, bit) = divisible_double(d(a), d(b), d(c));
            (of_d(number), bit)
        }),
        "V_DIV_FMAS_F32" => Does::Masked(|a, b, c, bit| {
            // A quotient that was made smaller is large, and one that was made larger is small.
            let by = if exponent(f(c)) > 127 { 64 } else { -64 };
            of_f(if bit { fused_scaled(f(a), f(b), f(c), by) } else { f(a).mul_add(f(b), f(c)) })
        }),
        "V_DIV_FMAS_F64" => Does::Masked(|a, b, c, bit| {
            let by = if exponent_double(d(c)) > 1023 { 128 } else { -128 };
            of_d(if bit { fused_scaled_double(d(a), d(b), d(c), by) } else { d(a).mul_add(d(b), d(c)) })
        }),
        "V_FMA_MIX_F32" => Does::Mixed(Half::Whole),
        "V_FMA_MIXLO_F16" => Does::Mixed(Half::Low),
        "V_FMA_MIXHI_F16" => Does::Mixed(Half::High),
        "V_PK_ADD_F32" => Does::Words(|a, b, _| of_f(f(a) + f(b))),
        "V_PK_MUL_F32" => Does::Words(|a, b, _| of_f(f(a) * f(b))),
        "V_PK_FMA_F32" => Does::Words(|a, b, c| of_f(f(a).mul_add(f(b), f(c)))),
        "V_PK_MOV_B32" => Does::Words(|a, _, _| a),
        "V_PK_ADD_F16" => Does::Halves(|a, b, _| of_h(h(a) + h(b))),
        "V_PK_MUL_F16" => Does::Halves(|a, b, _| of_h(h(a) * h(b))),
        "V_PK_FMA_F16" => Does::Halves(|a, b, c| of_h(h(a).mul_add(h(b), h(c)))),
        "V_PK_MAX_F16" => Does::Halves(|a, b, _| of_h(larger(h(a), h(b)))),
        "V_PK_ADD_U16" => Does::Halves(|a, b, _| narrow(a + b)),
        "V_PK_SUB_I16" => Does::Halves(|a, b, _| narrow(a.wrapping_sub(b))),
        "V_PK_MUL_LO_U16" => Does::Halves(|a, b, _| narrow(a * b)),
        "V_PK_MAD_U16" => Does::Halves(|a, b, c| narrow(a * b + c)),
        "V_PK_MAX_I16" => Does::Halves(|a, b, _| narrow(i16(a).max(i16(b)) as u64)),
        "V_PK_MIN_I16" => Does::Halves(|a, b, _| narrow(i16(a).min(i16(b)) as u64)),
        "V_PK_MIN_U16" => Does::Halves(|a, b, _| a.min(b)),
        "V_PK_LSHRREV_B16" => Does::Halves(|a, b, _| b >> (a & 15)),
        "V_PK_ASHRREV_I16" => Does::Halves(|a, b, _| narrow((i16(b) >> (a & 15)) as u64)),
        _ => return None,
    })
}

macro_rules! divisible {
    ($name:ident, $number:ty, $scaled:ident, $exponent:ident, by $by:literal, far $far:literal, tiny $tiny:literal) => {
        /// A numerator or denominator as the steps of a division can take it, and whether the quotient has to be scaled.
        fn $name(which: $number, denominator: $number, numerator: $number) -> ($number, bool) {
            let (up, down) = ($scaled(which, $by), $scaled(which, -$by));
            let reciprocal_vanishes = (1. / denominator).is_subnormal();
            let quotient_vanishes = (numerator / denominator).is_subnormal();
            if numerator == 0. || denominator == 0. {
                (<$number>::NAN, false)
            } else if $exponent(numerator) - $exponent(denominator) >= $far {
                (if which == denominator { up } else { which }, true)
            } else if denominator.is_subnormal() {
                (up, false)
            } else if reciprocal_vanishes && quotient_vanishes {
                // AMD's document says up, which is beyond all numbers.
                (if which == denominator { down } else { which }, true)
            } else if reciprocal_vanishes {
                (down, false)
            } else if quotient_vanishes {
                (if which == numerator { up } else { which }, true)
            } else if $exponent(numerator) <= $tiny {
                (up, false)
            } else {
                (which, false)
            }
        }
    };
}

divisible!(divisible, f32, scaled, exponent, by 64, far 96, tiny 23);
divisible!(divisible_double, f64, scaled_double, exponent_double, by 128, far 768, tiny 53);

/// Comparisons: `V_CMP_LT_F32` and the like.
fn test(name: &str) -> Option<Does> {
    let (rest, lanes) = match name.strip_prefix("V_CMPX_") {
        Some(rest) => (rest, true),
        None => (name.strip_prefix("V_CMP_")?, false),
    };
    let (relation, kind) = rest.rsplit_once('_')?;
    let test = relation_of(relation, kind)?;
    Some(if lanes { Does::TestLanes(test) } else { Does::Test(test) })
}

type Test = fn(u64, u64) -> bool;

fn class(a: u64, mask: u64) -> bool {
    is_of_class(a & 1 << 22 != 0, f(a).into(), f(a).is_subnormal(), mask)
}

fn class_double(a: u64, mask: u64) -> bool {
    is_of_class(a & 1 << 51 != 0, d(a), d(a).is_subnormal(), mask)
}

fn class_half(a: u64, mask: u64) -> bool {
    is_of_class(a & 1 << 9 != 0, h(a), a & 0x7c00 == 0 && a & 0x3ff != 0, mask)
}

macro_rules! relations {
    ($relation:expr, $number:expr) => {
        match $relation {
            "F" => Some((|_, _| false) as Test),
            "LT" => Some((|a, b| $number(a) < $number(b)) as Test),
            "EQ" => Some((|a, b| $number(a) == $number(b)) as Test),
            "LE" => Some((|a, b| $number(a) <= $number(b)) as Test),
            "GT" => Some((|a, b| $number(a) > $number(b)) as Test),
            "NE" | "NEQ" => Some((|a, b| $number(a) != $number(b)) as Test),
            "GE" => Some((|a, b| $number(a) >= $number(b)) as Test),
            "T" => Some((|_, _| true) as Test),
            _ => None,
        }
    };
}

macro_rules! float_relations {
    ($relation:expr, $number:expr) => {
        match $relation {
            "LG" => Some((|a, b| $number(a) < $number(b) || $number(a) > $number(b)) as Test),
            "O" => Some((|a, b| !$number(a).is_nan() && !$number(b).is_nan()) as Test),
            "U" => Some((|a, b| $number(a).is_nan() || $number(b).is_nan()) as Test),
            "NGE" => Some((|a, b| !($number(a) >= $number(b))) as Test),
            "NLG" => Some((|a, b| !($number(a) < $number(b) || $number(a) > $number(b))) as Test),
            "NGT" => Some((|a, b| !($number(a) > $number(b))) as Test),
            "NLE" => Some((|a, b| !($number(a) <= $number(b))) as Test),
            "NLT" => Some((|a, b| !($number(a) < $number(b))) as Test),
            relation => relations!(relation, $number),
        }
    };
}

#[allow(clippy::neg_cmp_op_on_partial_ord, reason = "a comparison with no number is false, and so its negation true")]
fn relation_of(relation: &str, kind: &str) -> Option<Test> {
    match (relation, kind) {
        ("CLASS", "F16") => Some(class_half),
        ("CLASS", "F32") => Some(class),
        ("CLASS", "F64") => Some(class_double),
        (_, "F16") => float_relations!(relation, h),
        (_, "F32") => float_relations!(relation, f),
        (_, "F64") => float_relations!(relation, d),
        (_, "U16" | "U32" | "U64") => relations!(relation, u64::from),
        (_, "I16") => relations!(relation, i16),
        (_, "I32") => relations!(relation, i),
        (_, "I64") => relations!(relation, long),
        _ => None,
    }
}
