//! The types in which products are summed up, and the factors alpha and beta.

use api::rocblas::rocblas_pointer_mode_device;
use candle_rocm_emulator_link::{Extent, uses};
use element::Format;
use half::f16;

use crate::handle::Handle;

/// A type in which products are summed up.
pub trait Compute: Copy + Send + 'static {
    /// The nearest value.
    fn from_f64(value: f64) -> Self;
    /// The value.
    fn to_f64(self) -> f64;
    /// `alpha * sum + beta * old`; `old` does not count if there is none.
    fn combine(alpha: Self, sum: Self, beta: Self, old: Option<Self>) -> Self;
    /// The product of an m x k and a k x n matrix, all stored by columns without gaps.
    fn multiply(m: usize, n: usize, k: usize, a: &[Self], b: &[Self]) -> Vec<Self>;
}

macro_rules! floating_point_compute {
    ($type:ty) => {
        impl Compute for $type {
            fn from_f64(value: f64) -> Self {
                value as Self
            }

            fn to_f64(self) -> f64 {
                self.into()
            }

            fn combine(alpha: Self, sum: Self, beta: Self, old: Option<Self>) -> Self {
                old.map_or(alpha * sum, |old| alpha * sum + beta * old)
            }

            fn multiply(m: usize, n: usize, k: usize, a: &[Self], b: &[Self]) -> Vec<Self> {
                assert!(a.len() == m * k && b.len() == k * n, "matrices without gaps");
                let mut product = vec![0.0; m * n];
                let (rows, depth) = (m as isize, k as isize);
                // SAFETY: the strides describe the three slices, whose lengths were checked.
                unsafe {
                    gemm::gemm(
                        m,
                        n,
                        k,
                        product.as_mut_ptr(),
                        rows,
                        1,
                        false,
                        a.as_ptr(),
                        rows,
                        1,
                        b.as_ptr(),
                        depth,
                        1,
                        0.0,
                        1.0,
                        false,
                        false,
                        false,
                        gemm::Parallelism::None,
                    );
                }
                product
            }
        }
    };
}
floating_point_compute!(f32);
floating_point_compute!(f64);

impl Compute for i32 {
    fn from_f64(value: f64) -> Self {
        value as Self
    }

    fn to_f64(self) -> f64 {
        self.into()
    }

    fn combine(alpha: Self, sum: Self, beta: Self, old: Option<Self>) -> Self {
        alpha.wrapping_mul(sum).wrapping_add(old.map_or(0, |old| beta.wrapping_mul(old)))
    }

    fn multiply(m: usize, n: usize, k: usize, a: &[Self], b: &[Self]) -> Vec<Self> {
        term_by_term(m, n, k, a, b, |sum: &mut Self, x, y| *sum = sum.wrapping_add(x.wrapping_mul(y)))
    }
}

/// Rounded to f16 after each term, by way of f32.
impl Compute for f16 {
    fn from_f64(value: f64) -> Self {
        Self::from_f32(value as f32)
    }

    fn to_f64(self) -> f64 {
        self.into()
    }

    fn combine(alpha: Self, sum: Self, beta: Self, old: Option<Self>) -> Self {
        let [alpha, sum, beta] = [alpha, sum, beta].map(Self::to_f32);
        Self::from_f32(f32::combine(alpha, sum, beta, old.map(Self::to_f32)))
    }

    fn multiply(m: usize, n: usize, k: usize, a: &[Self], b: &[Self]) -> Vec<Self> {
        term_by_term(m, n, k, a, b, |sum: &mut Self, x: Self, y: Self| {
            *sum = Self::from_f32(sum.to_f32() + x.to_f32() * y.to_f32());
        })
    }
}

/// As `Compute::multiply`, with each term added to its sum in the order of the matrices' depth.
fn term_by_term<T: Compute>(m: usize, n: usize, k: usize, a: &[T], b: &[T], add: impl Fn(&mut T, T, T)) -> Vec<T> {
    let mut product = vec![T::from_f64(0.0); m * n];
    for column in 0..n {
        for depth in 0..k {
            let factor = b[column * k + depth];
            for row in 0..m {
                add(&mut product[column * m + row], a[depth * m + row], factor);
            }
        }
    }
    product
}

/// The nearest f32 with 10 bits after the point, ties to even.
pub fn xf32(value: f64) -> f64 {
    const DROPPED: u32 = 23 - 10;
    let bits = (value as f32).to_bits();
    if !value.is_finite() {
        return value;
    }
    let half = (1 << (DROPPED - 1)) - 1 + ((bits >> DROPPED) & 1);
    f64::from(f32::from_bits((bits + half) >> DROPPED << DROPPED))
}

/// A factor: on the host it is read when a function is called, on the device when the work is done.
#[derive(Clone, Copy, Debug)]
pub enum Scalar {
    /// Its value.
    Known(f64),
    /// Where it is on the device.
    Device(Format, usize),
}

impl Scalar {
    /// The factor behind a pointer.
    ///
    /// # Safety
    /// The pointer leads to a number of that format if the handle's pointer mode is the host's.
    pub unsafe fn read(handle: &Handle, format: Format, pointer: usize) -> Self {
        if handle.pointer_mode == rocblas_pointer_mode_device {
            return Self::Device(format, pointer);
        }
        // SAFETY: by contract.
        Self::Known(unsafe { format.load(pointer) })
    }

    /// Whether it is already known to be a value.
    pub fn is_known_as(self, value: f64) -> bool {
        matches!(self, Self::Known(known) if known == value)
    }

    /// Its value now that the work is done; none after a report.
    pub fn now(self, what: &str) -> Option<f64> {
        match self {
            Self::Known(value) => Some(value),
            Self::Device(format, address) => {
                let extent = Extent { address, bytes: format.size(), writes: false };
                // SAFETY: the memory was checked.
                uses(what, &[extent]).then(|| unsafe { format.load(address) })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A 2 x 3 times a 3 x 2 matrix, by columns.
    fn product<T: Compute>() -> Vec<f64> {
        let numbers = |values: [i32; 6]| values.map(|value| T::from_f64(value.into()));
        let product = T::multiply(2, 2, 3, &numbers([1, 2, 3, 4, 5, 6]), &numbers([1, 0, 2, -1, 3, 1]));
        product.into_iter().map(T::to_f64).collect()
    }

    #[test]
    fn every_type_multiplies_alike() {
        let expected = vec![11.0, 14.0, 13.0, 16.0];
        assert_eq!(product::<f32>(), expected);
        assert_eq!(product::<f64>(), expected);
        assert_eq!(product::<i32>(), expected);
        assert_eq!(product::<f16>(), expected);
    }

    #[test]
    fn sums_of_f16_are_rounded_and_overflow() {
        let [large, one] = [60000.0, 1.0].map(f16::from_f32);
        assert_eq!(f16::multiply(1, 1, 2, &[large, large], &[one, one]), [f16::INFINITY]);
        assert_eq!(f16::multiply(1, 1, 2, &[large, large], &[one, -one]), [f16::ZERO]);
        // f16 has no number between 2048 and 2050: each term is lost for itself.
        let terms = [2048.0, 1.0, 1.0].map(f16::from_f32);
        assert_eq!(f16::multiply(1, 1, 3, &terms, &[one; 3]), [terms[0]]);
        assert_eq!(f16::combine(one + one, terms[1], one, Some(large)), f16::from_f32(60000.0));
    }

    #[test]
    fn xf32_has_ten_bits_after_the_point() {
        let bit = |place: i32| 2f64.powi(-place);
        for (value, rounded) in [
            (1.0 + bit(10), 1.0 + bit(10)),
            (1.0 + bit(11), 1.0),
            (1.0 + bit(11) + bit(23), 1.0 + bit(10)),
            (1.0 + bit(10) + bit(11), 1.0 + bit(9)),
            (2.0 - bit(12), 2.0),
            (-1.0 - bit(12), -1.0),
            (0.0, 0.0),
            (f64::INFINITY, f64::INFINITY),
        ] {
            assert_eq!(xf32(value), rounded, "{value}");
        }
        assert!(xf32(f64::NAN).is_nan());
    }

    #[test]
    fn integers_wrap_as_on_a_card() {
        assert_eq!(i32::combine(2, i32::MAX, 0, None), -2);
        assert_eq!(i32::multiply(1, 1, 2, &[i32::MAX, 1], &[1, 1]), [i32::MIN]);
    }
}
