//! The types of elements that RCCL moves and reduces.

use api::rccl::*;
use half::{bf16, f16};
use serde::{Deserialize, Serialize};

use crate::Outcome;

/// How an element is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Number {
    I8,
    U8,
    I32,
    U32,
    I64,
    U64,
    F16,
    F32,
    F64,
    Bf16,
    F8E4M3,
    F8E5M2,
}

impl Number {
    /// The type of a `ncclDataType_t`.
    ///
    /// # Errors
    /// `ncclInvalidArgument`.
    pub fn of(data_type: ncclDataType_t) -> Outcome<Self> {
        Ok(match data_type {
            ncclInt8 => Self::I8,
            ncclUint8 => Self::U8,
            ncclInt32 => Self::I32,
            ncclUint32 => Self::U32,
            ncclInt64 => Self::I64,
            ncclUint64 => Self::U64,
            ncclFloat16 => Self::F16,
            ncclFloat32 => Self::F32,
            ncclFloat64 => Self::F64,
            ncclBfloat16 => Self::Bf16,
            ncclFloat8e4m3 => Self::F8E4M3,
            ncclFloat8e5m2 => Self::F8E5M2,
            _ => return Err(ncclInvalidArgument),
        })
    }

    /// Bytes of an element.
    pub const fn size(self) -> usize {
        match self {
            Self::I8 | Self::U8 | Self::F8E4M3 | Self::F8E5M2 => 1,
            Self::F16 | Self::Bf16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }
}

/// A float of fewer bits than an f32, which sums are rounded to after each addition.
pub trait Narrow: Copy {
    /// Its value.
    fn to_f32(self) -> f32;
    /// The nearest one.
    fn from_f32(value: f32) -> Self;
}

impl Narrow for f16 {
    fn to_f32(self) -> f32 {
        self.to_f32()
    }

    fn from_f32(value: f32) -> Self {
        Self::from_f32(value)
    }
}

impl Narrow for bf16 {
    fn to_f32(self) -> f32 {
        self.to_f32()
    }

    fn from_f32(value: f32) -> Self {
        Self::from_f32(value)
    }
}

/// A float of 8 bits. `FRACTION` of them are the fraction's; `FNUZ` says that there is one zero and one NaN only, whose
/// code is that of a negative zero, and that the exponent's bias is larger by one.
#[derive(Clone, Copy, Debug)]
pub struct F8<const FRACTION: u32, const FNUZ: bool>(pub u8);

/// e4m3 as the OCP's specification of 8-bit floats has it.
pub type E4M3 = F8<3, false>;
/// e4m3 of gfx942.
pub type E4M3Fnuz = F8<3, true>;
/// e5m2 as the OCP has it.
pub type E5M2 = F8<2, false>;
/// e5m2 of gfx942.
pub type E5M2Fnuz = F8<2, true>;

impl<const FRACTION: u32, const FNUZ: bool> F8<FRACTION, FNUZ> {
    /// The value of the 7 bits without a sign; none for infinity and NaN.
    fn magnitude(code: u8) -> Option<f32> {
        let exponent_bits = 7 - FRACTION;
        let bias = (1 << (exponent_bits - 1)) - 1 + i32::from(FNUZ);
        let (exponent, fraction) = (i32::from(code >> FRACTION), f32::from(code & ((1 << FRACTION) - 1)));
        let highest = (1 << exponent_bits) - 1;
        let no_number = match (FNUZ, FRACTION) {
            (true, _) => false,
            // No infinities; one pattern is NaN.
            (false, 3) => code == 0x7f,
            (false, _) => exponent == highest,
        };
        if no_number {
            return None;
        }
        let unit = (1u32 << FRACTION) as f32;
        Some(match exponent {
            0 => fraction / unit * 2f32.powi(1 - bias),
            _ => (1.0 + fraction / unit) * 2f32.powi(exponent - bias),
        })
    }

    const NAN: u8 = if FNUZ { 0x80 } else { 0x7f };
}

impl<const FRACTION: u32, const FNUZ: bool> Narrow for F8<FRACTION, FNUZ> {
    fn to_f32(self) -> f32 {
        let sign = if self.0 & 0x80 == 0 { 1.0 } else { -1.0 };
        match Self::magnitude(self.0 & 0x7f) {
            _ if FNUZ && self.0 == Self::NAN => f32::NAN,
            Some(magnitude) => sign * magnitude,
            // Of e5m2, the first code above the numbers is infinity.
            None if FRACTION == 2 && self.0 & 0x7f == 0x7c => sign * f32::INFINITY,
            None => f32::NAN,
        }
    }

    /// Rounded to the nearest, ties to the even code; what is too large becomes the largest.
    fn from_f32(value: f32) -> Self {
        if value.is_nan() {
            return Self(Self::NAN);
        }
        let sign = if value.is_sign_negative() { 0x80 } else { 0 };
        let mut nearest = (f32::INFINITY, 0u8);
        for code in 0..0x80u8 {
            let Some(magnitude) = Self::magnitude(code) else { continue };
            let distance = (value.abs().min(f32::MAX) - magnitude).abs();
            if distance < nearest.0 || (distance == nearest.0 && code % 2 == 0) {
                nearest = (distance, code);
            }
        }
        // There is no negative zero beside the NaN of that code.
        Self(if FNUZ && nearest.1 == 0 { 0 } else { sign | nearest.1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_types_have_their_sizes() {
        let sizes = (0..12).map(|code| Number::of(code).unwrap().size()).collect::<Vec<_>>();
        assert_eq!(sizes, [1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1]);
        assert_eq!(Number::of(12), Err(ncclInvalidArgument));
    }

    /// Values from the OCP's specification (table 2), and what gfx942 has instead.
    #[test]
    fn floats_of_8_bits_have_the_values_of_their_formats() {
        assert_eq!(
            [0x7e, 0x08, 0x01, 0xb8].map(|code| E4M3::to_f32(F8(code))),
            [448.0, 0.015_625, 0.001_953_125, -1.0]
        );
        assert_eq!([0x7b, 0x04, 0x01].map(|code| E5M2::to_f32(F8(code))), [57_344.0, 6.103_515_6e-5, 1.525_878_9e-5]);
        assert_eq!([0x7f, 0x08, 0x01].map(|code| E4M3Fnuz::to_f32(F8(code))), [240.0, 0.007_812_5, 0.000_976_562_5]);
        assert_eq!(E5M2Fnuz::to_f32(F8(0x7f)), 57_344.0);
        assert!(E4M3::to_f32(F8(0x7f)).is_nan() && E5M2::to_f32(F8(0x7e)).is_nan());
        assert!(E4M3Fnuz::to_f32(F8(0x80)).is_nan() && E5M2Fnuz::to_f32(F8(0x80)).is_nan());
        assert_eq!(E5M2::to_f32(F8(0xfc)), f32::NEG_INFINITY);
    }

    #[test]
    fn every_float_of_8_bits_survives_and_ties_go_to_the_even_code() {
        fn survives<const FRACTION: u32, const FNUZ: bool>() {
            for code in 0..=255u8 {
                let value = F8::<FRACTION, FNUZ>(code).to_f32();
                if value.is_finite() {
                    assert_eq!(F8::<FRACTION, FNUZ>::from_f32(value).0, code, "{FRACTION} {FNUZ} {value}");
                }
            }
        }
        survives::<3, false>();
        survives::<3, true>();
        survives::<2, false>();
        survives::<2, true>();
        // Between 1 (0x38) and 1.125 (0x39), and between that and 1.25 (0x3a).
        assert_eq!([1.0625, 1.1875].map(|value| E4M3::from_f32(value).0), [0x38, 0x3a]);
        assert_eq!([1e9, -1e9, f32::INFINITY].map(|value| E4M3::from_f32(value).0), [0x7e, 0xfe, 0x7e]);
        assert_eq!([f32::NAN, -0.0].map(|value| E4M3Fnuz::from_f32(value).0), [0x80, 0]);
    }
}
