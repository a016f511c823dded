//! Elements of all ranks made into one.

use half::{bf16, f16};

use crate::number::{E4M3, E4M3Fnuz, E5M2, E5M2Fnuz, F8, Narrow, Number};
use crate::wire::Op;

/// What all ranks get: their elements reduced one rank after the other in `order`, rounded to the type each time.
pub fn reduce(number: Number, fnuz: bool, op: Op, data: &[Vec<u8>], order: &[usize]) -> Vec<u8> {
    let inputs: Vec<&[u8]> = order.iter().map(|&rank| data[rank].as_slice()).collect();
    match (number, fnuz) {
        (Number::I8, _) => integers::<1, i8>(op, &inputs),
        (Number::U8, _) => integers::<1, u8>(op, &inputs),
        (Number::I32, _) => integers::<4, i32>(op, &inputs),
        (Number::U32, _) => integers::<4, u32>(op, &inputs),
        (Number::I64, _) => integers::<8, i64>(op, &inputs),
        (Number::U64, _) => integers::<8, u64>(op, &inputs),
        (Number::F16, _) => floats::<2, f16>(op, &inputs),
        (Number::Bf16, _) => floats::<2, bf16>(op, &inputs),
        (Number::F32, _) => floats::<4, f32>(op, &inputs),
        (Number::F64, _) => floats::<8, f64>(op, &inputs),
        (Number::F8E4M3, false) => floats::<1, E4M3>(op, &inputs),
        (Number::F8E4M3, true) => floats::<1, E4M3Fnuz>(op, &inputs),
        (Number::F8E5M2, false) => floats::<1, E5M2>(op, &inputs),
        (Number::F8E5M2, true) => floats::<1, E5M2Fnuz>(op, &inputs),
    }
}

/// What a rank hands in for a sum of scaled elements: its own, each multiplied by the number whose bytes `factor` has.
pub fn scale(number: Number, fnuz: bool, data: &[u8], factor: &[u8]) -> Vec<u8> {
    let factors = factor.repeat(data.len() / number.size());
    reduce(number, fnuz, Op::Product, &[data.to_vec(), factors], &[0, 1])
}

/// A number of `SIZE` bytes.
trait Element<const SIZE: usize>: Copy {
    fn read(bytes: [u8; SIZE]) -> Self;
    fn bytes(self) -> [u8; SIZE];
}

macro_rules! elements {
    ($($type:ident $size:literal)*) => {$(
        impl Element<$size> for $type {
            fn read(bytes: [u8; $size]) -> Self {
                Self::from_le_bytes(bytes)
            }

            fn bytes(self) -> [u8; $size] {
                self.to_le_bytes()
            }
        }
    )*};
}

elements! { i8 1 u8 1 i32 4 u32 4 i64 8 u64 8 f16 2 bf16 2 f32 4 f64 8 }

/// Reduces element by element: `first` is done with each of the first rank's, `next` with what there is and the next
/// rank's, `last` with the result.
fn each<const SIZE: usize, T: Element<SIZE>>(
    inputs: &[&[u8]],
    first: impl Fn(T) -> T,
    next: impl Fn(T, T) -> T,
    last: impl Fn(T) -> T,
) -> Vec<u8> {
    let element = |input: &[u8], at: usize| T::read(input[at..at + SIZE].try_into().expect("so many bytes"));
    let one = |at| {
        let start = first(element(inputs[0], at));
        last(inputs[1..].iter().fold(start, |sum, input| next(sum, first(element(input, at))))).bytes()
    };
    (0..inputs[0].len()).step_by(SIZE).flat_map(one).collect()
}

/// What integers can do; they wrap around.
trait Integer: Ord {
    fn plus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    fn over(self, count: usize) -> Self;
}

macro_rules! integers {
    ($($type:ident)*) => {$(
        impl Integer for $type {
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            fn times(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }

            fn over(self, count: usize) -> Self {
                self / count as Self
            }
        }
    )*};
}

integers! { i8 u8 i32 u32 i64 u64 }

fn integers<const SIZE: usize, T: Element<SIZE> + Integer>(op: Op, inputs: &[&[u8]]) -> Vec<u8> {
    let same = |value: T| value;
    match op {
        Op::Sum | Op::Scaled => each(inputs, same, T::plus, same),
        Op::Product => each(inputs, same, T::times, same),
        Op::Max => each(inputs, same, T::max, same),
        Op::Min => each(inputs, same, T::min, same),
        // The sum is divided, towards zero.
        Op::Average => each(inputs, same, T::plus, |sum| sum.over(inputs.len())),
    }
}

/// What floats can do; each result is rounded.
trait Float: Copy {
    fn new(value: f64) -> Self;
    fn with(self, other: Self, operation: fn(f64, f64) -> f64) -> Self;
}

macro_rules! wide {
    ($($type:ident)*) => {$(
        impl Float for $type {
            fn new(value: f64) -> Self {
                value as Self
            }

            // A sum or product of two f32 is the same if it is made in f64 and rounded.
            fn with(self, other: Self, operation: fn(f64, f64) -> f64) -> Self {
                operation(f64::from(self), f64::from(other)) as Self
            }
        }
    )*};
}

wide! { f32 f64 }

impl<const FRACTION: u32, const FNUZ: bool> Element<1> for F8<FRACTION, FNUZ> {
    fn read([code]: [u8; 1]) -> Self {
        Self(code)
    }

    fn bytes(self) -> [u8; 1] {
        [self.0]
    }
}

impl<T: Narrow> Float for T {
    fn new(value: f64) -> Self {
        Self::from_f32(value as f32)
    }

    fn with(self, other: Self, operation: fn(f64, f64) -> f64) -> Self {
        Self::from_f32(operation(f64::from(self.to_f32()), f64::from(other.to_f32())) as f32)
    }
}

fn floats<const SIZE: usize, T: Element<SIZE> + Float>(op: Op, inputs: &[&[u8]]) -> Vec<u8> {
    let same = |value: T| value;
    let plus = |sum: T, next: T| sum.with(next, |a, b| a + b);
    match op {
        Op::Sum | Op::Scaled => each(inputs, same, plus, same),
        Op::Product => each(inputs, same, |sum: T, next| sum.with(next, |a, b| a * b), same),
        Op::Max => each(inputs, same, |sum: T, next| sum.with(next, f64::max), same),
        Op::Min => each(inputs, same, |sum: T, next| sum.with(next, f64::min), same),
        // Each rank multiplies before the sum is made.
        Op::Average => {
            let share = T::new(1.0 / inputs.len() as f64);
            each(inputs, |value: T| value.with(share, |a, b| a * b), plus, same)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of<const SIZE: usize>(number: Number, op: Op, ranks: &[[u8; SIZE]]) -> [u8; SIZE] {
        let data: Vec<_> = ranks.iter().map(|bytes| bytes.to_vec()).collect();
        let order: Vec<_> = (0..ranks.len()).collect();
        reduce(number, false, op, &data, &order).try_into().unwrap()
    }

    #[test]
    fn integers_wrap_around_and_are_divided_towards_zero() {
        let i32s = |op, values: [i32; 3]| i32::from_le_bytes(of(Number::I32, op, &values.map(i32::to_le_bytes)));
        assert_eq!(i32s(Op::Sum, [i32::MAX, 1, 1]), i32::MIN + 1);
        assert_eq!(i32s(Op::Product, [3, -5, 7]), -105);
        assert_eq!((i32s(Op::Max, [3, -5, 7]), i32s(Op::Min, [3, -5, 7])), (7, -5));
        assert_eq!((i32s(Op::Average, [-3, -5, 0]), i32s(Op::Average, [4, 4, 4])), (-2, 4));
        assert_eq!(of(Number::U8, Op::Sum, &[[200], [100]]), [44]);
        let large = [1u64 << 63, (1 << 62) + 1].map(u64::to_le_bytes);
        assert_eq!(u64::from_le_bytes(of(Number::U64, Op::Sum, &large)), (3 << 62) + 1);
        let signed = [i64::MIN, 5].map(i64::to_le_bytes);
        assert_eq!(i64::from_le_bytes(of(Number::I64, Op::Max, &signed)), 5);
    }

    #[test]
    fn floats_are_rounded_after_each_rank() {
        let f16s = |op, values: [f32; 3]| {
            f16::from_le_bytes(of(Number::F16, op, &values.map(|value| f16::from_f32(value).to_le_bytes()))).to_f32()
        };
        // 2048 + 1 is a tie that goes back to 2048, twice.
        assert_eq!((f16s(Op::Sum, [2048.0, 1.0, 1.0]), f16s(Op::Sum, [1.0, 1.0, 2048.0])), (2048.0, 2050.0));
        assert_eq!((f16s(Op::Max, [1.0, -2.0, 3.0]), f16s(Op::Min, [1.0, -2.0, 3.0])), (3.0, -2.0));
        assert_eq!(f16s(Op::Product, [1.5, -2.0, 3.0]), -9.0);
        let share = f16::from_f32(1.0 / 3.0);
        assert_eq!(f16s(Op::Average, [3.0, 0.0, 0.0]), f16::from_f32(3.0 * share.to_f32()).to_f32());
        let f64s = [0.1f64, 0.2].map(f64::to_le_bytes);
        assert_eq!(f64::from_le_bytes(of(Number::F64, Op::Sum, &f64s)), 0.1 + 0.2);
        let f32s = [16_777_216f32, 1.0, 1.0].map(f32::to_le_bytes);
        assert_eq!(f32::from_le_bytes(of(Number::F32, Op::Sum, &f32s)), 16_777_216.0);
        assert_eq!(of(Number::F8E4M3, Op::Sum, &[[0x38], [0x38]]), [0x40]);
    }

    #[test]
    fn a_rank_may_scale_what_it_hands_in() {
        let data: Vec<u8> = [1i32, -4].into_iter().flat_map(i32::to_le_bytes).collect();
        let scaled = scale(Number::I32, false, &data, &3i32.to_le_bytes());
        assert_eq!(scaled, [3i32, -12].into_iter().flat_map(i32::to_le_bytes).collect::<Vec<_>>());
    }
}
