//! Matrix products with a type for each matrix and one in which sums are made.

use std::ffi::c_void;

use api::rocblas::*;
use element::Format;

use crate::gemm::Gemm;
use crate::matrix::format_of;
use crate::product::Batch;
use crate::{Status, exports};

/// Types of A and B, of C and D, and in which sums are made
/// (<https://rocm.docs.amd.com/projects/rocBLAS/en/latest/reference/extension.html>, `rocblas_gemm_ex`).
const COMBINATIONS: [(Format, Format, Format); 8] = [
    (Format::F64, Format::F64, Format::F64),
    (Format::F32, Format::F32, Format::F32),
    (Format::F16, Format::F16, Format::F16),
    (Format::F16, Format::F16, Format::F32),
    (Format::F16, Format::F32, Format::F32),
    (Format::Bf16, Format::Bf16, Format::F32),
    (Format::Bf16, Format::F32, Format::F32),
    (Format::I8, Format::I32, Format::I32),
];

/// The formats of the four matrices and of the sums.
///
/// # Errors
/// `rocblas_status_not_implemented` for a combination that rocBLAS lacks, and for complex numbers.
fn formats(types: [rocblas_datatype; 4], compute_type: rocblas_datatype) -> Status<([Format; 4], Format)> {
    let [a, b, c, d] = types;
    let combination = (format_of(a)?, format_of(c)?, format_of(compute_type)?);
    if a != b || c != d || !COMBINATIONS.contains(&combination) {
        return Err(rocblas_status_not_implemented);
    }
    let (input, output, compute) = combination;
    Ok(([input, input, output, output], compute))
}

/// The arguments that all functions have, but for those of the batch.
struct Arguments {
    function: &'static str,
    operations: [rocblas_operation; 2],
    sizes: [rocblas_int; 3],
    factors: [*const c_void; 2],
    pointers: [*const c_void; 4],
    types: [rocblas_datatype; 4],
    leading: [rocblas_int; 4],
    compute_type: rocblas_datatype,
}

impl Arguments {
    fn run(self, handle: rocblas_handle, batch: Batch, count: rocblas_int) -> Status {
        let (formats, compute) = formats(self.types, self.compute_type)?;
        let gemm = Gemm {
            function: self.function,
            operations: self.operations,
            sizes: self.sizes,
            formats,
            leading: self.leading,
            addresses: self.pointers.map(|pointer| pointer.addr()),
            compute,
            factors: self.factors.map(|pointer| pointer.addr()),
            batch,
            count,
        };
        gemm.run(handle)
    }
}

exports! {
    /// A product of two matrices. The algorithm and the flags change nothing.
    fn rocblas_gemm_ex(
        handle: rocblas_handle,
        trans_a: rocblas_operation,
        trans_b: rocblas_operation,
        m: rocblas_int,
        n: rocblas_int,
        k: rocblas_int,
        alpha: *const c_void,
        a: *const c_void,
        a_type: rocblas_datatype,
        lda: rocblas_int,
        b: *const c_void,
        b_type: rocblas_datatype,
        ldb: rocblas_int,
        beta: *const c_void,
        c: *const c_void,
        c_type: rocblas_datatype,
        ldc: rocblas_int,
        d: *mut c_void,
        d_type: rocblas_datatype,
        ldd: rocblas_int,
        compute_type: rocblas_datatype,
        _algo: rocblas_gemm_algo,
        _solution_index: i32,
        _flags: u32,
    ) {
        let arguments = Arguments {
            function: "rocblas_gemm_ex",
            operations: [trans_a, trans_b],
            sizes: [m, n, k],
            factors: [alpha, beta],
            pointers: [a, b, c, d],
            types: [a_type, b_type, c_type, d_type],
            leading: [lda, ldb, ldc, ldd],
            compute_type,
        };
        arguments.run(handle, Batch::Strided([0; 4]), 1)
    }

    /// Products of two matrices each, which lie a stride apart.
    fn rocblas_gemm_strided_batched_ex(
        handle: rocblas_handle,
        trans_a: rocblas_operation,
        trans_b: rocblas_operation,
        m: rocblas_int,
        n: rocblas_int,
        k: rocblas_int,
        alpha: *const c_void,
        a: *const c_void,
        a_type: rocblas_datatype,
        lda: rocblas_int,
        stride_a: rocblas_stride,
        b: *const c_void,
        b_type: rocblas_datatype,
        ldb: rocblas_int,
        stride_b: rocblas_stride,
        beta: *const c_void,
        c: *const c_void,
        c_type: rocblas_datatype,
        ldc: rocblas_int,
        stride_c: rocblas_stride,
        d: *mut c_void,
        d_type: rocblas_datatype,
        ldd: rocblas_int,
        stride_d: rocblas_stride,
        batch_count: rocblas_int,
        compute_type: rocblas_datatype,
        _algo: rocblas_gemm_algo,
        _solution_index: i32,
        _flags: u32,
    ) {
        let arguments = Arguments {
            function: "rocblas_gemm_strided_batched_ex",
            operations: [trans_a, trans_b],
            sizes: [m, n, k],
            factors: [alpha, beta],
            pointers: [a, b, c, d],
            types: [a_type, b_type, c_type, d_type],
            leading: [lda, ldb, ldc, ldd],
            compute_type,
        };
        arguments.run(handle, Batch::Strided([stride_a, stride_b, stride_c, stride_d]), batch_count)
    }

    /// Products of two matrices each, whose addresses lie in arrays on the device.
    fn rocblas_gemm_batched_ex(
        handle: rocblas_handle,
        trans_a: rocblas_operation,
        trans_b: rocblas_operation,
        m: rocblas_int,
        n: rocblas_int,
        k: rocblas_int,
        alpha: *const c_void,
        a: *const c_void,
        a_type: rocblas_datatype,
        lda: rocblas_int,
        b: *const c_void,
        b_type: rocblas_datatype,
        ldb: rocblas_int,
        beta: *const c_void,
        c: *const c_void,
        c_type: rocblas_datatype,
        ldc: rocblas_int,
        d: *mut c_void,
        d_type: rocblas_datatype,
        ldd: rocblas_int,
        batch_count: rocblas_int,
        compute_type: rocblas_datatype,
        _algo: rocblas_gemm_algo,
        _solution_index: i32,
        _flags: u32,
    ) {
        let pointers = [a, b, c, d.cast_const()];
        let arguments = Arguments {
            function: "rocblas_gemm_batched_ex",
            operations: [trans_a, trans_b],
            sizes: [m, n, k],
            factors: [alpha, beta],
            pointers,
            types: [a_type, b_type, c_type, d_type],
            leading: [lda, ldb, ldc, ldd],
            compute_type,
        };
        arguments.run(handle, Batch::Pointers(pointers.map(|pointer| pointer.addr())), batch_count)
    }
}
