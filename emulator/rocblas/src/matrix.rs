//! Matrices as they lie in memory.

use api::rocblas::*;
use candle_rocm_emulator_link::Extent;
use element::Format;

use crate::Status;
use crate::scalar::Compute;

/// The format of a data type.
///
/// # Errors
/// `rocblas_status_not_implemented` for the types that the emulator lacks, complex numbers among them.
pub fn format_of(data_type: rocblas_datatype) -> Status<Format> {
    Ok(match data_type {
        rocblas_datatype_f16_r => Format::F16,
        rocblas_datatype_bf16_r => Format::Bf16,
        rocblas_datatype_f32_r => Format::F32,
        rocblas_datatype_f64_r => Format::F64,
        rocblas_datatype_i8_r => Format::I8,
        rocblas_datatype_i32_r => Format::I32,
        _ => return Err(rocblas_status_not_implemented),
    })
}

/// Whether an operation transposes; conjugation changes no real number.
///
/// # Errors
/// `rocblas_status_invalid_value` for what is no operation.
pub fn is_transposed(operation: rocblas_operation) -> Status<bool> {
    match operation {
        rocblas_operation_none => Ok(false),
        rocblas_operation_transpose | rocblas_operation_conjugate_transpose => Ok(true),
        _ => Err(rocblas_status_invalid_value),
    }
}

/// A matrix stored by columns. A vector is a matrix of one row, whose columns lie an increment apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matrix {
    /// Of the first element.
    pub address: usize,
    /// How elements are stored.
    pub format: Format,
    /// Elements of a column.
    pub rows: usize,
    /// Number of columns.
    pub columns: usize,
    /// Elements from a column to the next; negative for a vector that is stored backwards.
    pub leading: i64,
}

impl Matrix {
    /// The same shape, `elements` further on.
    pub fn moved(self, elements: i64) -> Self {
        self.at_address(self.address.wrapping_add_signed(elements as isize * self.format.size() as isize))
    }

    /// The same shape somewhere else.
    pub fn at_address(self, address: usize) -> Self {
        Self { address, ..self }
    }

    /// The address of a column.
    fn at(self, column: usize) -> usize {
        self.address.wrapping_add_signed(column as isize * self.leading as isize * self.format.size() as isize)
    }

    /// The memory of the columns, without the gaps between them.
    pub fn extents(self, writes: bool) -> Vec<Extent> {
        let bytes = self.rows * self.format.size();
        let mut extents: Vec<Extent> = Vec::new();
        for address in (0..self.columns).map(|column| self.at(column)) {
            match extents.last_mut() {
                Some(last) if last.address + last.bytes == address => last.bytes += bytes,
                _ => extents.push(Extent { address, bytes, writes }),
            }
        }
        extents
    }

    /// All elements by columns, or by rows if `transposed`.
    ///
    /// # Safety
    /// The extents are readable.
    pub unsafe fn load<T: Compute>(self, transposed: bool) -> Vec<T> {
        // SAFETY: by contract.
        let element = |row: usize, column: usize| unsafe {
            T::from_f64(self.format.load(self.at(column) + row * self.format.size()))
        };
        if transposed {
            (0..self.rows).flat_map(|row| (0..self.columns).map(move |column| element(row, column))).collect()
        } else {
            (0..self.columns).flat_map(|column| (0..self.rows).map(move |row| element(row, column))).collect()
        }
    }

    /// Writes all elements, given by columns.
    ///
    /// # Safety
    /// The extents are writable.
    pub unsafe fn store<T: Compute>(self, elements: &[T]) {
        for (column, elements) in elements.chunks_exact(self.rows).enumerate() {
            for (row, element) in elements.iter().enumerate() {
                // SAFETY: by contract.
                unsafe { self.format.store(self.at(column) + row * self.format.size(), element.to_f64()) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix(numbers: &[f32], rows: usize, columns: usize, leading: i64) -> Matrix {
        Matrix { address: numbers.as_ptr().addr(), format: Format::F32, rows, columns, leading }
    }

    fn ranges(matrix: Matrix) -> Vec<(usize, usize)> {
        matrix.extents(false).iter().map(|extent| (extent.address.wrapping_sub(matrix.address), extent.bytes)).collect()
    }

    #[test]
    fn gaps_between_columns_belong_to_no_extent() {
        let numbers = [0.0; 12];
        assert_eq!(ranges(matrix(&numbers, 3, 4, 3)), [(0, 48)]);
        assert_eq!(ranges(matrix(&numbers, 2, 3, 4)), [(0, 8), (16, 8), (32, 8)]);
    }

    #[test]
    fn loads_either_way() {
        let numbers = [1.0, 2.0, 9.0, 3.0, 4.0, 9.0];
        let matrix = matrix(&numbers, 2, 2, 3);
        // SAFETY: the matrix lies in the array.
        unsafe {
            assert_eq!(matrix.load::<f32>(false), [1.0, 2.0, 3.0, 4.0]);
            assert_eq!(matrix.load::<f32>(true), [1.0, 3.0, 2.0, 4.0]);
        }
    }

    #[test]
    fn a_vector_may_be_stored_backwards() {
        let numbers = [1.0, 2.0, 3.0];
        let last = matrix(&numbers, 1, 3, -1).moved(2);
        // SAFETY: the vector lies in the array.
        assert_eq!(unsafe { last.load::<f64>(false) }, [3.0, 2.0, 1.0]);
    }
}
