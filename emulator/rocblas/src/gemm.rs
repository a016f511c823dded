//! Matrix products of one type.

use api::rocblas::*;
use candle_rocm_emulator_link::has_xf32;
use element::Format;

use crate::handle::{Handle, with};
use crate::matrix::{Matrix, is_transposed};
use crate::product::{Batch, MATRICES, Product};
use crate::scalar::Scalar;
use crate::{Status, exports, kernels};

/// What the arguments of every product of two matrices say.
#[derive(Clone, Copy, Debug)]
pub struct Gemm {
    pub function: &'static str,
    pub operations: [rocblas_operation; 2],
    /// m, n and k.
    pub sizes: [rocblas_int; 3],
    /// Of A, B, C and D.
    pub formats: [Format; 4],
    pub leading: [rocblas_int; 4],
    pub addresses: [usize; 4],
    pub compute: Format,
    /// Where alpha and beta are.
    pub factors: [usize; 2],
    pub batch: Batch,
    pub count: rocblas_int,
}

impl Gemm {
    /// Checks the arguments in the order of rocBLAS, then puts the product on the handle's stream.
    ///
    /// # Errors
    /// `rocblas_status_invalid_handle`, `_invalid_value` for an operation that is none, `_invalid_size` for a negative
    /// size or a leading dimension shorter than a column, `_invalid_pointer` for a null pointer that would be used,
    /// `_size_unchanged` while the workspace is asked for.
    pub fn run(self, handle: rocblas_handle) -> Status {
        let handle = with(handle, |handle| *handle)?;
        let transposed = [is_transposed(self.operations[0])?, is_transposed(self.operations[1])?];
        let [m, n, k] = self.sizes;
        if m < 0 || n < 0 || k < 0 || self.count < 0 {
            return Err(rocblas_status_invalid_size);
        }
        let swap_if = |transposed, (rows, columns)| if transposed { (columns, rows) } else { (rows, columns) };
        let shapes = [swap_if(transposed[0], (m, k)), swap_if(transposed[1], (k, n)), (m, n), (m, n)];
        if shapes.iter().zip(self.leading).any(|((rows, _), leading)| leading < *rows) {
            return Err(rocblas_status_invalid_size);
        }
        if handle.is_size_query {
            return Err(rocblas_status_size_unchanged);
        }
        if m == 0 || n == 0 || self.count == 0 {
            return Ok(());
        }
        kernels::require();
        let [alpha, beta] = self.factors;
        if beta == 0 || (k > 0 && alpha == 0) {
            return Err(rocblas_status_invalid_pointer);
        }
        let matrices = [0, 1, 2, 3].map(|index| Matrix {
            address: self.addresses[index],
            format: self.formats[index],
            rows: shapes[index].0 as usize,
            columns: shapes[index].1 as usize,
            leading: self.leading[index].into(),
        });
        let product = Product {
            function: self.function,
            names: MATRICES,
            matrices,
            transposed,
            depth: k as usize,
            compute: self.compute,
            rounds: self.formats[0] == Format::F32 && handle.math_mode == rocblas_xf32_xdl_math_op && has_xf32(),
            alpha: self.factor(&handle, alpha),
            beta: self.factor(&handle, beta),
            batch: self.batch,
            count: self.count as usize,
        };
        product.enqueue(&handle)
    }

    /// Alpha or beta. Without products alpha may be missing, and does not count.
    fn factor(&self, handle: &Handle, pointer: usize) -> Scalar {
        if pointer == 0 {
            return Scalar::Known(0.0);
        }
        // SAFETY: the caller's pointer to a number of the type in which sums are made.
        unsafe { Scalar::read(handle, self.compute, pointer) }
    }
}

macro_rules! gemm {
    ($($format:ident $type:ty: $single:ident $strided:ident)*) => {exports! {$(
        /// A product of two matrices.
        fn $single(
            handle: rocblas_handle,
            trans_a: rocblas_operation,
            trans_b: rocblas_operation,
            m: rocblas_int,
            n: rocblas_int,
            k: rocblas_int,
            alpha: *const $type,
            a: *const $type,
            lda: rocblas_int,
            b: *const $type,
            ldb: rocblas_int,
            beta: *const $type,
            c: *mut $type,
            ldc: rocblas_int,
        ) {
            let gemm = Gemm {
                function: stringify!($single),
                operations: [trans_a, trans_b],
                sizes: [m, n, k],
                formats: [Format::$format; 4],
                leading: [lda, ldb, ldc, ldc],
                addresses: [a.addr(), b.addr(), c.addr(), c.addr()],
                compute: Format::$format,
                factors: [alpha.addr(), beta.addr()],
                batch: Batch::Strided([0; 4]),
                count: 1,
            };
            gemm.run(handle)
        }

        /// Products of two matrices each, which lie a stride apart.
        fn $strided(
            handle: rocblas_handle,
            trans_a: rocblas_operation,
            trans_b: rocblas_operation,
            m: rocblas_int,
            n: rocblas_int,
            k: rocblas_int,
            alpha: *const $type,
            a: *const $type,
            lda: rocblas_int,
            stride_a: rocblas_stride,
            b: *const $type,
            ldb: rocblas_int,
            stride_b: rocblas_stride,
            beta: *const $type,
            c: *mut $type,
            ldc: rocblas_int,
            stride_c: rocblas_stride,
            batch_count: rocblas_int,
        ) {
            let gemm = Gemm {
                function: stringify!($strided),
                operations: [trans_a, trans_b],
                sizes: [m, n, k],
                formats: [Format::$format; 4],
                leading: [lda, ldb, ldc, ldc],
                addresses: [a.addr(), b.addr(), c.addr(), c.addr()],
                compute: Format::$format,
                factors: [alpha.addr(), beta.addr()],
                batch: Batch::Strided([stride_a, stride_b, stride_c, stride_c]),
                count: batch_count,
            };
            gemm.run(handle)
        }
    )*}};
}

gemm! {
    F16 rocblas_half: rocblas_hgemm rocblas_hgemm_strided_batched
    F32 f32: rocblas_sgemm rocblas_sgemm_strided_batched
    F64 f64: rocblas_dgemm rocblas_dgemm_strided_batched
}
