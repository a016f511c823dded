//! One call's matrix products: checked when called, computed when its stream gets there.

use api::rocblas::*;
use candle_rocm_emulator_link::{Extent, enqueue, uses};
use element::Format;
use half::f16;

use crate::Status;
use crate::handle::Handle;
use crate::matrix::Matrix;
use crate::scalar::{Compute, Scalar, xf32};

/// Where the matrices of a batch are, in the order A, B, C, D.
#[derive(Clone, Copy, Debug)]
pub enum Batch {
    /// Elements from one to the next.
    Strided([i64; 4]),
    /// Arrays on the device with the address of each.
    Pointers([usize; 4]),
}

/// `D = alpha * op(A) * op(B) + beta * C` for every item of a batch.
#[derive(Clone, Copy, Debug)]
pub struct Product {
    /// Who asked for it.
    pub function: &'static str,
    /// What the function calls A, B, C and D.
    pub names: [&'static str; 4],
    /// A, B, C and D of the first item.
    pub matrices: [Matrix; 4],
    /// Whether A and B are transposed.
    pub transposed: [bool; 2],
    /// Terms of each sum.
    pub depth: usize,
    /// The type in which they are summed up.
    pub compute: Format,
    /// Whether factors of f32 are rounded to 10 bits after the point, as xf32.
    pub rounds: bool,
    /// The factors.
    pub alpha: Scalar,
    pub beta: Scalar,
    /// The items.
    pub batch: Batch,
    pub count: usize,
}

/// What a matrix product is called with.
pub const MATRICES: [&str; 4] = ["matrix A", "matrix B", "matrix C", "matrix D"];

impl Product {
    /// Checks that all memory is given that will be used, and puts the work on the handle's stream.
    ///
    /// # Errors
    /// `rocblas_status_invalid_pointer` for a null pointer, `rocblas_status_internal_error` if the stream is none or its
    /// device has failed.
    pub fn enqueue(self, handle: &Handle) -> Status {
        let in_place = self.matrices[2].at_address(0) == self.matrices[3].at_address(0)
            && self.addresses()[2] == self.addresses()[3];
        let has_products = !self.alpha.is_known_as(0.0) && self.depth > 0;
        if !has_products && self.beta.is_known_as(1.0) && in_place {
            return Ok(());
        }
        let needed = [has_products, has_products, !self.beta.is_known_as(0.0), true];
        if self.addresses().iter().zip(needed).any(|(&address, needed)| needed && address == 0) {
            return Err(rocblas_status_invalid_pointer);
        }
        match enqueue(handle.stream.cast(), self.function, move || {
            self.perform();
        }) {
            0 => Ok(()),
            _ => Err(rocblas_status_internal_error),
        }
    }

    /// What the caller passed for each matrix.
    fn addresses(&self) -> [usize; 4] {
        match self.batch {
            Batch::Strided(_) => self.matrices.map(|matrix| matrix.address),
            Batch::Pointers(arrays) => arrays,
        }
    }

    /// Does the work; none if something was reported.
    fn perform(&self) -> Option<()> {
        let alpha = self.alpha.now(&self.what("alpha"))?;
        let beta = self.beta.now(&self.what("beta"))?;
        for item in 0..self.count {
            let wanted = [alpha != 0.0, alpha != 0.0, beta != 0.0, true];
            let matrices = self.item(item, wanted)?;
            match self.compute {
                Format::F64 => self.multiply::<f64>(matrices, alpha, beta)?,
                Format::I32 => self.multiply::<i32>(matrices, alpha, beta)?,
                Format::F16 => self.multiply::<f16>(matrices, alpha, beta)?,
                _ => self.multiply::<f32>(matrices, alpha, beta)?,
            }
        }
        Some(())
    }

    fn multiply<T: Compute>(&self, [a, b, c, d]: [Matrix; 4], alpha: f64, beta: f64) -> Option<()> {
        let [a_name, b_name, c_name, d_name] = self.names;
        let sums = if alpha == 0.0 || self.depth == 0 {
            vec![T::from_f64(0.0); d.rows * d.columns]
        } else {
            self.uses(a_name, &a.extents(false))?;
            self.uses(b_name, &b.extents(false))?;
            // SAFETY: the memory was checked.
            let (mut a, mut b) = unsafe { (a.load::<T>(self.transposed[0]), b.load::<T>(self.transposed[1])) };
            if self.rounds {
                for factor in a.iter_mut().chain(&mut b) {
                    *factor = T::from_f64(xf32(factor.to_f64()));
                }
            }
            T::multiply(d.rows, d.columns, self.depth, &a, &b)
        };
        let old = if beta == 0.0 {
            None
        } else {
            self.uses(c_name, &c.extents(false))?;
            // SAFETY: the memory was checked.
            Some(unsafe { c.load::<T>(false) })
        };
        let (alpha, beta) = (T::from_f64(alpha), T::from_f64(beta));
        let combine = |(index, sum)| T::combine(alpha, sum, beta, old.as_ref().map(|old| old[index]));
        let result: Vec<_> = sums.into_iter().enumerate().map(combine).collect();
        self.uses(d_name, &d.extents(true))?;
        // SAFETY: the memory was checked.
        unsafe { d.store(&result) };
        Some(())
    }

    /// The matrices of an item; those that are not wanted stay as they are.
    fn item(&self, item: usize, wanted: [bool; 4]) -> Option<[Matrix; 4]> {
        let mut matrices = self.matrices;
        for (index, matrix) in matrices.iter_mut().enumerate().filter(|(index, _)| wanted[*index]) {
            match self.batch {
                Batch::Strided(strides) => *matrix = matrix.moved(strides[index] * item as i64),
                Batch::Pointers(arrays) => {
                    let entry = arrays[index] + item * size_of::<usize>();
                    let name = format!("the pointers to {}", self.names[index]);
                    self.uses(&name, &[Extent { address: entry, bytes: size_of::<usize>(), writes: false }])?;
                    // SAFETY: the memory was checked.
                    *matrix = matrix.at_address(unsafe { (entry as *const usize).read_unaligned() });
                }
            }
        }
        Some(matrices)
    }

    fn what(&self, name: &str) -> String {
        format!("{}, {name}", self.function)
    }

    fn uses(&self, name: &str, extents: &[Extent]) -> Option<()> {
        uses(&self.what(name), extents).then_some(())
    }
}
