//! Bits of values as numbers, and what the instruction set has of its own about numbers.

use half::f16;

/// A float of 32 bits.
pub fn f(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

/// Its bits.
pub fn of_f(number: f32) -> u64 {
    number.to_bits().into()
}

/// A float of 64 bits.
pub fn d(bits: u64) -> f64 {
    f64::from_bits(bits)
}

/// Its bits, as one of 64.
pub fn of_d(number: f64) -> u64 {
    number.to_bits()
}

/// A float of 16 bits, as one of 64.
pub fn h(bits: u64) -> f64 {
    f16::from_bits(bits as u16).to_f64()
}

/// The bits of the float of 16 bits next to a number; of two as near, the even one.
pub fn of_h(number: f64) -> u64 {
    let sign = number.to_bits() >> 63 << 15;
    let size = number.abs();
    let bits = if number.is_nan() {
        0x7e00 | number.to_bits() >> 42 & 0x1ff
    } else if size >= 65520. {
        0x7c00
    } else if size < power(-14) {
        // Whole multiples of the smallest one.
        (size * power(24)).round_ties_even() as u64
    } else {
        let exponent = exponent_of(size);
        let steps = (size * power(10 - exponent)).round_ties_even() as u64;
        (((exponent + 15) as u64) << 10) + steps - 1024
    };
    sign | bits
}

/// The first 1216 bits of 2 / pi after the point.
const TWO_OVER_PI: [u64; 19] = [
    0xa2f9_836e_4e44_1529,
    0xfc27_57d1_f534_ddc0,
    0xdb62_9599_3c43_9041,
    0xfe51_63ab_debb_c561,
    0xb724_6e3a_424d_d2e0,
    0x0649_2eea_09d1_921c,
    0xfe1d_eb1c_b129_a73e,
    0xe882_35f5_2ebb_4484,
    0xe99c_7026_b45f_7e41,
    0x3991_d639_8353_39f4,
    0x9c84_5f8b_bdf9_283b,
    0x1ff8_97ff_de05_980f,
    0xef2f_118b_5a0a_6d1f,
    0x6d36_7ecf_27cb_09b7,
    0x4f46_3f66_9e5f_ea2d,
    0x7527_bac7_ebe5_f17b,
    0x3d07_39f7_8a52_92ea,
    0x6bfb_5fb1_1f8d_5d08,
    0x5603_3046_fc7b_0000,
];

/// 53 bits of 2 / pi that a reduction of a large number by multiples of pi needs, by the number and which part of three.
pub fn part_of_two_over_pi(number: f64, part: u64) -> f64 {
    let exponent = exponent_double(number);
    let shift = part as usize * 53 + (exponent - 1077).max(0) as usize;
    let bit = |place: usize| TWO_OVER_PI.get(place / 64).map_or(0, |word| word >> (63 - place % 64) & 1);
    let bits = (shift..shift + 53).fold(0, |bits, place| bits << 1 | if place < 1201 { bit(place) } else { 0 });
    let scale = -53 - shift as i32 + if exponent >= 1968 { 128 } else { 0 };
    scaled_double(bits as f64, scale)
}

/// The larger number, +0 being larger than -0; the other one if one is none.
pub fn larger(a: f64, b: f64) -> f64 {
    if a.is_nan() {
        b
    } else if b.is_nan() || a > b || (a == b && b.is_sign_negative()) {
        a
    } else {
        b
    }
}

/// The smaller number, likewise.
pub fn smaller(a: f64, b: f64) -> f64 {
    -larger(-a, -b)
}

/// `number` times a power of two, rounded once to 32 bits.
pub fn scaled(number: f32, exponent: i32) -> f32 {
    (f64::from(number) * power(exponent.clamp(-400, 400))) as f32
}

/// `number` times a power of two. Two factors would round twice where the result is subnormal.
pub fn scaled_double(number: f64, exponent: i32) -> f64 {
    let exponent = exponent.clamp(-4200, 4200);
    let mut result = number;
    let mut rest = exponent;
    while rest > 1000 {
        result *= power(1000);
        rest -= 1000;
    }
    while rest < -1000 {
        // As long as it is normal, nothing is rounded.
        let step = (-900).max(-1021 - exponent_of(result)).min(-1);
        result *= power(step);
        rest -= step;
        if result == 0. || exponent_of(result) <= -1022 {
            break;
        }
    }
    result * power(rest.clamp(-1074, 1000))
}

/// A product and a sum times a power of two, rounded once.
pub fn fused_scaled(a: f32, b: f32, c: f32, exponent: i32) -> f32 {
    let sum = a.mul_add(b, c);
    // The product of two floats of 32 bits is one of 64.
    let product = f64::from(a) * f64::from(b);
    let (whole, rest) = sum_and_rest(product, c.into());
    let missing = (whole - f64::from(sum)) + rest;
    let smallest = exponent + 149;
    match steps(f64::from(sum) * power(smallest), missing) {
        Some(steps) if (steps.abs()) < f64::from(1 << 23) => (steps * power(-149)) as f32,
        _ => scaled(sum, exponent),
    }
}

/// Likewise, for floats of 64 bits.
pub fn fused_scaled_double(a: f64, b: f64, c: f64, exponent: i32) -> f64 {
    let sum = a.mul_add(b, c);
    let product = a * b;
    let (whole, rest) = sum_and_rest(product, c);
    let missing = (whole - sum) + (rest + a.mul_add(b, -product));
    match steps(scaled_double(sum, exponent + 1074), missing) {
        Some(steps) if steps.abs() < power(52) => scaled_double(steps, -1074),
        _ => scaled_double(sum, exponent),
    }
}

/// A sum, and what it lacks.
fn sum_and_rest(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let taken = sum - a;
    (sum, (a - (sum - taken)) + (b - taken))
}

/// The whole number next to one that lacks something tiny; None if there is none that means anything.
fn steps(number: f64, missing: f64) -> Option<f64> {
    if !number.is_finite() || number.abs() >= power(53) {
        return None;
    }
    let tie = (number - number.trunc()).abs() == 0.5;
    Some(match (tie, missing.partial_cmp(&0.)?) {
        (true, std::cmp::Ordering::Greater) => number.ceil(),
        (true, std::cmp::Ordering::Less) => number.floor(),
        _ => number.round_ties_even(),
    })
}

fn power(exponent: i32) -> f64 {
    2f64.powi(exponent)
}

fn exponent_of(number: f64) -> i32 {
    (number.to_bits() >> 52 & 0x7ff) as i32 - 1023
}

/// The exponent's bits of a float of 32 bits.
pub fn exponent(number: f32) -> i32 {
    (number.to_bits() >> 23 & 0xff) as i32
}

/// Those of one of 64 bits.
pub fn exponent_double(number: f64) -> i32 {
    (number.to_bits() >> 52 & 0x7ff) as i32
}

/// A number as a fraction from 0.5 on, below 1.
pub fn fraction(number: f64) -> f64 {
    if number == 0. || !number.is_finite() {
        return number;
    }
    let normal = if number.is_subnormal() { number * power(64) } else { number };
    f64::from_bits(normal.to_bits() & !(0x7ff << 52) | 1022 << 52)
}

/// The exponent that goes with the fraction.
pub fn fraction_exponent(number: f64) -> i32 {
    if number == 0. || !number.is_finite() {
        0
    } else if number.is_subnormal() {
        exponent_of(number * power(64)) + 1 - 64
    } else {
        exponent_of(number) + 1
    }
}

/// Whether a number is of one of the kinds that a mask names: signalling and quiet NaN, then from minus to plus infinity.
pub fn is_of_class(quiet: bool, number: f64, subnormal: bool, mask: u64) -> bool {
    let kind = if number.is_nan() {
        u32::from(quiet)
    } else {
        let size = match number {
            number if number.is_infinite() => 0,
            0. => 3,
            _ if subnormal => 2,
            _ => 1,
        };
        if number.is_sign_negative() { 2 + size } else { 9 - size }
    };
    mask >> kind & 1 != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_rounded_once_and_ties_to_even() {
        for bits in 0..0x7c00u16 {
            let number = f16::from_bits(bits).to_f64();
            let next = if bits == 0x7bff { 65536. } else { f16::from_bits(bits + 1).to_f64() };
            let middle = (number + next) / 2.;
            let even = u64::from(if bits % 2 == 0 { bits } else { bits + 1 });
            assert_eq!(of_h(number), bits.into());
            assert_eq!(of_h(middle), even, "{middle}");
            assert_eq!(of_h(f64::from_bits(middle.to_bits() - 1)), bits.into());
            assert_eq!(of_h(-f64::from_bits(middle.to_bits() + 1)), 0x8000 | u64::from(bits + 1));
        }
        assert_eq!(of_h(f64::NEG_INFINITY), 0xfc00);
        assert!(f16::from_bits(of_h(f64::NAN) as u16).is_nan());
    }

    #[test]
    fn powers_of_two_round_once() {
        let tiny = f64::from_bits(1);
        assert_eq!(scaled_double(1., -1074), tiny);
        assert_eq!(scaled_double(1.5, -1074), 2. * tiny);
        assert_eq!(scaled_double(1.25, -1074), tiny);
        assert_eq!(scaled_double(0.75, -1074), tiny);
        assert_eq!(scaled_double(tiny, 1074), 1.);
        assert_eq!(scaled_double(tiny, 2097), 2f64.powi(1023));
        assert_eq!(scaled_double(1., 1024), f64::INFINITY);
        assert_eq!(scaled_double(3., 5000), f64::INFINITY);
        assert_eq!(scaled_double(-3., -5000), -0.);
        assert_eq!(scaled(1.5, -149), 2. * f32::from_bits(1));
        assert_eq!(scaled(f32::from_bits(1), 149 + 127), 2f32.powi(127));
    }

    #[test]
    fn a_number_is_its_fraction_times_its_power() {
        for number in [1., -0.3, 6.02e23, 2f64.powi(-1022), f64::from_bits(1), f64::from_bits(0x000f_ffff_ffff_ffff)] {
            let (fraction, exponent) = (fraction(number), fraction_exponent(number));
            assert!((0.5..1.).contains(&fraction.abs()), "{number}");
            assert_eq!(scaled_double(fraction, exponent), number);
        }
        assert_eq!((fraction(0.), fraction_exponent(0.)), (0., 0));
        assert_eq!(fraction(f64::INFINITY), f64::INFINITY);
    }

    #[test]
    fn zeros_have_an_order_and_no_number_is_not_the_larger() {
        assert_eq!(larger(-0., 0.).to_bits(), 0);
        assert_eq!(larger(0., -0.).to_bits(), 0);
        assert_eq!(smaller(0., -0.).to_bits(), (-0f64).to_bits());
        assert_eq!(larger(f64::NAN, 3.), 3.);
        assert_eq!(smaller(3., f64::NAN), 3.);
    }

    #[test]
    fn two_over_pi_is_in_three_parts() {
        let sum: f64 = (0..3).rev().map(|part| part_of_two_over_pi(1., part)).sum();
        assert_eq!(sum, std::f64::consts::FRAC_2_PI);
        assert!(part_of_two_over_pi(1., 1) < 2f64.powi(-52));
        // 2^60: what its multiples of 2 pi need is not kept.
        assert!(part_of_two_over_pi(2f64.powi(60), 0) < 2f64.powi(-5));
    }

    #[test]
    fn a_class_is_named_by_one_bit() {
        let classes = [f64::NEG_INFINITY, -1., -1e-310, -0., 0., 1e-310, 1., f64::INFINITY];
        for (place, number) in (2..).zip(classes) {
            for mask in 0..10 {
                let found = is_of_class(false, number, number.is_subnormal(), 1 << mask);
                assert_eq!(found, mask == place, "{number} {mask}");
            }
        }
        assert!(is_of_class(true, f64::NAN, false, 2) && is_of_class(false, f64::NAN, false, 1));
    }
}
