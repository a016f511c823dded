//! Products of a matrix and a vector.

use api::rocblas::*;
use element::Format;

use crate::handle::with;
use crate::matrix::{Matrix, is_transposed};
use crate::product::{Batch, Product};
use crate::scalar::Scalar;
use crate::{Status, exports};

/// What the arguments of a product of a matrix and a vector say.
struct Gemv {
    function: &'static str,
    operation: rocblas_operation,
    /// m and n.
    sizes: [rocblas_int; 2],
    /// Of A, x and y.
    formats: [Format; 3],
    addresses: [usize; 3],
    lda: rocblas_int,
    /// Of x and y.
    increments: [rocblas_int; 2],
    compute: Format,
    /// Where alpha and beta are.
    factors: [usize; 2],
    /// Of A, x and y.
    strides: [rocblas_stride; 3],
    count: rocblas_int,
}

/// A vector as a matrix of one row. With a negative increment its first element is the last in memory.
fn vector(address: usize, format: Format, length: rocblas_int, increment: rocblas_int) -> Matrix {
    let row = Matrix { address, format, rows: 1, columns: length as usize, leading: increment.into() };
    if increment.is_negative() && address != 0 { row.moved(i64::from(1 - length) * i64::from(increment)) } else { row }
}

impl Gemv {
    /// Checks the arguments in the order of rocBLAS, then puts the product on the handle's stream.
    ///
    /// # Errors
    /// As those of a product of two matrices; an increment of zero is a wrong size too.
    fn run(self, handle: rocblas_handle) -> Status {
        let handle = with(handle, |handle| *handle)?;
        let transposed = is_transposed(self.operation)?;
        let [m, n] = self.sizes;
        if m < 0 || n < 0 || self.lda < m || self.lda < 1 || self.increments.contains(&0) || self.count < 0 {
            return Err(rocblas_status_invalid_size);
        }
        if handle.is_size_query {
            return Err(rocblas_status_size_unchanged);
        }
        if m == 0 || n == 0 || self.count == 0 {
            return Ok(());
        }
        if self.factors.contains(&0) {
            return Err(rocblas_status_invalid_pointer);
        }
        let (x_length, y_length) = if transposed { (m, n) } else { (n, m) };
        let [a_format, x_format, y_format] = self.formats;
        let [a_address, x_address, y_address] = self.addresses;
        let x = vector(x_address, x_format, x_length, self.increments[0]);
        let y = vector(y_address, y_format, y_length, self.increments[1]);
        let (rows, columns) = (m as usize, n as usize);
        let a = Matrix { address: a_address, format: a_format, rows, columns, leading: self.lda.into() };
        // SAFETY: the caller's pointers to numbers of the type in which sums are made.
        let [alpha, beta] = self.factors.map(|pointer| unsafe { Scalar::read(&handle, self.compute, pointer) });
        let [a_stride, x_stride, y_stride] = self.strides;
        let product = Product {
            function: self.function,
            // Vectors are rows here: y^T = alpha * x^T * op(A)^T + beta * y^T.
            names: ["vector x", "matrix A", "vector y", "vector y"],
            matrices: [x, a, y, y],
            transposed: [false, !transposed],
            depth: x_length as usize,
            compute: self.compute,
            rounds: false,
            alpha,
            beta,
            batch: Batch::Strided([x_stride, a_stride, y_stride, y_stride]),
            count: self.count as usize,
        };
        product.enqueue(&handle)
    }
}

macro_rules! gemv {
    ($($format:ident $type:ty: $name:ident)*) => {exports! {$(
        /// A product of a matrix and a vector.
        fn $name(
            handle: rocblas_handle,
            trans: rocblas_operation,
            m: rocblas_int,
            n: rocblas_int,
            alpha: *const $type,
            a: *const $type,
            lda: rocblas_int,
            x: *const $type,
            incx: rocblas_int,
            beta: *const $type,
            y: *mut $type,
            incy: rocblas_int,
        ) {
            let gemv = Gemv {
                function: stringify!($name),
                operation: trans,
                sizes: [m, n],
                formats: [Format::$format; 3],
                addresses: [a.addr(), x.addr(), y.addr()],
                lda,
                increments: [incx, incy],
                compute: Format::$format,
                factors: [alpha.addr(), beta.addr()],
                strides: [0; 3],
                count: 1,
            };
            gemv.run(handle)
        }
    )*}};
}

gemv! {
    F32 f32: rocblas_sgemv
    F64 f64: rocblas_dgemv
}

/// Formats and types of A and x, of y, and of the sums.
macro_rules! gemv_strided_batched {
    ($($in:ident $in_type:ty, $out:ident $out_type:ty, $sum:ident $sum_type:ty: $name:ident)*) => {exports! {$(
        /// Products of a matrix and a vector each, which lie a stride apart.
        fn $name(
            handle: rocblas_handle,
            trans_a: rocblas_operation,
            m: rocblas_int,
            n: rocblas_int,
            alpha: *const $sum_type,
            a: *const $in_type,
            lda: rocblas_int,
            stride_a: rocblas_stride,
            x: *const $in_type,
            incx: rocblas_int,
            stridex: rocblas_stride,
            beta: *const $sum_type,
            y: *mut $out_type,
            incy: rocblas_int,
            stridey: rocblas_stride,
            batch_count: rocblas_int,
        ) {
            let gemv = Gemv {
                function: stringify!($name),
                operation: trans_a,
                sizes: [m, n],
                formats: [Format::$in, Format::$in, Format::$out],
                addresses: [a.addr(), x.addr(), y.addr()],
                lda,
                increments: [incx, incy],
                compute: Format::$sum,
                factors: [alpha.addr(), beta.addr()],
                strides: [stride_a, stridex, stridey],
                count: batch_count,
            };
            gemv.run(handle)
        }
    )*}};
}

gemv_strided_batched! {
    F32 f32, F32 f32, F32 f32: rocblas_sgemv_strided_batched
    F64 f64, F64 f64, F64 f64: rocblas_dgemv_strided_batched
    F16 rocblas_half, F16 rocblas_half, F32 f32: rocblas_hshgemv_strided_batched
    F16 rocblas_half, F32 f32, F32 f32: rocblas_hssgemv_strided_batched
    Bf16 rocblas_bfloat16, Bf16 rocblas_bfloat16, F32 f32: rocblas_tstgemv_strided_batched
    Bf16 rocblas_bfloat16, F32 f32, F32 f32: rocblas_tssgemv_strided_batched
}
