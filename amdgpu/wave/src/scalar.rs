//! Scalar instructions.

use crate::numbers::{f, of_f};
use crate::program::{Program, Step};
use crate::state::Wave;
use crate::vector::Done;

/// Executes a scalar instruction with registers. Jumps are the block's.
#[allow(clippy::neg_cmp_op_on_partial_ord, reason = "a comparison with no number is false, and so its negation true")]
pub fn run(program: &Program, step: &Step, wave: &mut Wave) -> Done {
    let (name, instruction) = (&*step.name, &step.instruction);
    let declared = |field: &str| instruction.declared(field).map_or(32, |declared| declared.bits);
    let wide = declared("ssrc0").max(declared("sdst"));
    let value = |wave: &Wave, field: &str| {
        let operand = instruction.operand(program.set, field);
        operand.map_or(0, |operand| wave.value(operand, declared(field)))
    };
    let (a, b) = (value(wave, "ssrc0"), value(wave, "ssrc1"));
    let bits = if wide == 64 { 64 } else { 32 };
    let whole = if bits == 64 { u64::MAX } else { 0xffff_ffff };
    let signed = |value: u64| i64::from(value as u32 as i32);
    let constant = i64::from(instruction.number("simm16") as u16 as i16);
    let old = instruction.operand(program.set, "sdst").map_or(0, |operand| wave.value(operand, bits));
    let carry = u64::from(wave.scc);
    let overflows = |result: i64| i32::try_from(result).is_err();
    let stem = name.trim_end_matches("_B32").trim_end_matches("_B64");
    // The value, if there is one, and the bit, if it changes.
    let (result, bit): (Option<u64>, Option<bool>) = match name {
        "S_MOV_B32" | "S_MOV_B64" => (Some(a), None),
        "S_MOVK_I32" => (Some(constant as u64), None),
        "S_CSELECT_B32" | "S_CSELECT_B64" => (Some(if wave.scc { a } else { b }), None),
        "S_ADD_U32" => (Some(a + b), Some(a + b > whole)),
        "S_ADDC_U32" => (Some(a + b + carry), Some(a + b + carry > whole)),
        "S_SUB_U32" => (Some(a.wrapping_sub(b)), Some(b > a)),
        "S_SUBB_U32" => (Some(a.wrapping_sub(b + carry)), Some(b + carry > a)),
        "S_ADD_I32" => (Some(a + b), Some(overflows(signed(a) + signed(b)))),
        "S_SUB_I32" => (Some(a.wrapping_sub(b)), Some(overflows(signed(a) - signed(b)))),
        "S_ADDK_I32" => (Some((signed(old) + constant) as u64), Some(overflows(signed(old) + constant))),
        "S_MULK_I32" => (Some((signed(old) * constant) as u64), None),
        "S_MUL_I32" => (Some(a.wrapping_mul(b)), None),
        "S_MUL_HI_U32" => (Some((a * b) >> 32), None),
        "S_MUL_HI_I32" => (Some(((signed(a) * signed(b)) >> 32) as u64), None),
        "S_LSHL1_ADD_U32" | "S_LSHL2_ADD_U32" | "S_LSHL3_ADD_U32" | "S_LSHL4_ADD_U32" => {
            let sum = (a << (name.as_bytes()[6] - b'0')) + b;
            (Some(sum), Some(sum > whole))
        }
        "S_ADD_NC_U64" => (Some(a.wrapping_add(b)), None),
        "S_SUB_NC_U64" => (Some(a.wrapping_sub(b)), None),
        "S_MUL_U64" => (Some(a.wrapping_mul(b)), None),
        "S_ADD_F32" => (Some(of_f(f(a) + f(b))), None),
        "S_MUL_F32" => (Some(of_f(f(a) * f(b))), None),
        "S_FMAC_F32" => (Some(of_f(f(a).mul_add(f(b), f(old)))), None),
        "S_TRUNC_F32" => (Some(of_f(f(a).trunc())), None),
        "S_CVT_F32_U32" => (Some(of_f(a as u32 as f32)), None),
        "S_CVT_U32_F32" => (Some((f(a) as u32).into()), None),
        "S_CMP_EQ_F32" => (None, Some(f(a) == f(b))),
        "S_CMP_NEQ_F32" => (None, Some(f(a) != f(b))),
        "S_CMP_LT_F32" => (None, Some(f(a) < f(b))),
        "S_CMP_LE_F32" => (None, Some(f(a) <= f(b))),
        "S_CMP_GT_F32" => (None, Some(f(a) > f(b))),
        "S_CMP_GE_F32" => (None, Some(f(a) >= f(b))),
        "S_CMP_NLT_F32" => (None, Some(!(f(a) < f(b)))),
        "S_CMP_NLE_F32" => (None, Some(!(f(a) <= f(b)))),
        "S_CMP_NGT_F32" => (None, Some(!(f(a) > f(b)))),
        "S_CMP_NGE_F32" => (None, Some(!(f(a) >= f(b)))),
        "S_MIN_U32" => (Some(a.min(b)), Some(a < b)),
        "S_MAX_U32" => (Some(a.max(b)), Some(a >= b)),
        "S_MIN_I32" => (Some(signed(a).min(signed(b)) as u64), Some(signed(a) < signed(b))),
        "S_MAX_I32" => (Some(signed(a).max(signed(b)) as u64), Some(signed(a) >= signed(b))),
        "S_ASHR_I32" => tested((signed(a) >> (b & 31)) as u64 & whole),
        "S_BFE_U32" => tested(field_of(a, b)),
        "S_BFE_I32" => {
            let bits = (b >> 16 & 127).min(32) as u32;
            let field = field_of((signed(a) >> (b & 31)) as u64, b & !31) as u32;
            tested(if bits == 0 { 0 } else { u64::from(((field << (32 - bits)) as i32 >> (32 - bits)) as u32) })
        }
        "S_BFM_B32" => (Some(((1 << (a & 31)) - 1) << (b & 31)), None),
        "S_BREV_B32" => (Some(u64::from((a as u32).reverse_bits())), None),
        "S_CLZ_I32_U32" => (Some(if a == 0 { u64::MAX } else { u64::from((a as u32).leading_zeros()) }), None),
        "S_CTZ_I32_B32" => (Some(if a == 0 { u64::MAX } else { u64::from((a as u32).trailing_zeros()) }), None),
        "S_CTZ_I32_B64" => (Some(if a == 0 { u64::MAX } else { u64::from(a.trailing_zeros()) }), None),
        "S_SEXT_I32_I16" => (Some(i64::from(a as u16 as i16) as u64), None),
        "S_SEXT_I32_I8" => (Some(i64::from(a as u8 as i8) as u64), None),
        "S_PACK_LL_B32_B16" => (Some(a & 0xffff | (b & 0xffff) << 16), None),
        "S_PACK_LH_B32_B16" => (Some(a & 0xffff | b & 0xffff_0000), None),
        "S_PACK_HH_B32_B16" => (Some(a >> 16 & 0xffff | b & 0xffff_0000), None),
        "S_BCNT1_I32_B32" | "S_BCNT1_I32_B64" => tested(a.count_ones().into()),
        "S_BCNT0_I32_B32" | "S_BCNT0_I32_B64" => tested((!a & whole).count_ones().into()),
        "S_BITCMP0_B32" => (None, Some(a >> (b & 31) & 1 == 0)),
        "S_BITCMP1_B32" => (None, Some(a >> (b & 31) & 1 == 1)),
        _ if stem == "S_AND" => tested(a & b),
        _ if stem == "S_OR" => tested(a | b),
        _ if stem == "S_XOR" => tested(a ^ b),
        _ if stem == "S_NOT" => tested(!a & whole),
        _ if stem == "S_NAND" => tested(!(a & b) & whole),
        _ if stem == "S_NOR" => tested(!(a | b) & whole),
        _ if stem == "S_XNOR" => tested(!(a ^ b) & whole),
        _ if stem == "S_AND_NOT1" => tested(a & !b),
        _ if stem == "S_OR_NOT1" => tested((a | !b) & whole),
        _ if stem == "S_LSHL" => tested(a << (b & u64::from(bits - 1)) & whole),
        _ if stem == "S_LSHR" => tested(a >> (b & u64::from(bits - 1))),
        _ if stem.ends_with("_SAVEEXEC") => {
            let lanes = if bits == 64 { wave.exec } else { wave.exec & 0xffff_ffff };
            let found = match stem {
                "S_AND_SAVEEXEC" => a & lanes,
                "S_OR_SAVEEXEC" => a | lanes,
                "S_XOR_SAVEEXEC" => a ^ lanes,
                "S_AND_NOT1_SAVEEXEC" => a & !lanes,
                "S_AND_NOT0_SAVEEXEC" => !a & lanes & whole,
                _ => return Err(format!("{name} is not known")),
            };
            wave.exec = found;
            (Some(lanes), Some(found != 0))
        }
        _ => (None, Some(compared(name, a, b, old, constant).ok_or_else(|| format!("{name} is not known"))?)),
    };
    if let (Some(result), Some(operand)) = (result, instruction.operand(program.set, "sdst")) {
        wave.set(operand, declared("sdst"), result & if declared("sdst") == 64 { u64::MAX } else { 0xffff_ffff });
    }
    wave.scc = bit.unwrap_or(wave.scc);
    Ok(())
}

fn tested(value: u64) -> (Option<u64>, Option<bool>) {
    (Some(value), Some(value != 0))
}

fn field_of(value: u64, place: u64) -> u64 {
    let bits = (place >> 16 & 127).min(32);
    (value & 0xffff_ffff) >> (place & 31) & ((1 << bits) - 1)
}

fn compared(name: &str, a: u64, b: u64, old: u64, constant: i64) -> Option<bool> {
    let (rest, a, b) = match name.strip_prefix("S_CMPK_") {
        Some(rest) if rest.ends_with("U32") => (rest, old, constant as u64 & 0xffff),
        Some(rest) => (rest, old, constant as u64 & 0xffff_ffff),
        None => (name.strip_prefix("S_CMP_")?, a, b),
    };
    let (relation, kind) = rest.split_once('_')?;
    let order = match kind {
        "I32" => (a as u32 as i32).cmp(&(b as u32 as i32)),
        "U32" | "U64" => a.cmp(&b),
        _ => return None,
    };
    Some(match relation {
        "EQ" => order.is_eq(),
        "LG" => order.is_ne(),
        "GT" => order.is_gt(),
        "GE" => order.is_ge(),
        "LT" => order.is_lt(),
        "LE" => order.is_le(),
        _ => return None,
    })
}
