//! librocblas.so on NVIDIA: cuBLAS.

#![allow(
    non_snake_case,
    non_upper_case_globals,
    clippy::too_many_arguments,
    reason = "names and signatures are rocBLAS's"
)]

use std::ffi::{c_char, c_int, c_void};

use api::amdhip64::hipStream_t;
use api::rocblas::*;
use cuda::{Blas, BlasResult};

/// What a function answers: nothing more to say, or a status other than success.
type Status<T = ()> = Result<T, rocblas_status>;

/// `CUBLAS_COMPUTE_32F`, `CUBLAS_COMPUTE_64F`: sums of 32 and 64 bits.
const COMPUTE_F32: c_int = 68;
const COMPUTE_F64: c_int = 70;
/// `CUBLAS_COMPUTE_16F`.
const COMPUTE_F16: c_int = 64;
/// `CUBLAS_DEFAULT_MATH`, and `CUBLAS_TF32_TENSOR_OP_MATH`: products of f32 with fewer bits.
const FULL_PRODUCTS: c_int = 0;
const SHORT_PRODUCTS: c_int = 3;
/// Bytes of a workspace: 32 MiB.
const WORKSPACE: usize = 32 << 20;
/// `CUBLAS_GEMM_DEFAULT`.
const DEFAULT_ALGORITHM: c_int = -1;

/// Defines exported functions that return a `rocblas_status`, with the signatures that the real library gives them.
macro_rules! api {
    ($($(#[$attribute:meta])* fn $name:ident($($argument:ident: $type:ty),* $(,)?) $body:block)*) => {$(
        $(#[$attribute])*
        ///
        /// # Safety
        /// As the function of the same name in rocBLAS.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> rocblas_status {
            let body = || -> Status { $body };
            body().err().unwrap_or(rocblas_status_success)
        }
    )*
    api::implements!(rocblas: $($name),*);
    };
}

fn blas() -> Status<&'static Blas> {
    Blas::open().map_err(|missing| {
        eprintln!("{missing}");
        rocblas_status_internal_error
    })
}

/// cuBLAS's answer as rocBLAS's.
fn check(result: BlasResult) -> Status {
    Err(match result {
        0 => return Ok(()),
        1 => rocblas_status_invalid_handle,
        3 => rocblas_status_memory_error,
        7 => rocblas_status_invalid_value,
        8 => rocblas_status_arch_mismatch,
        15 => rocblas_status_not_implemented,
        _ => rocblas_status_internal_error,
    })
}

/// `cublasOperation_t` of an operation.
fn operation(operation: rocblas_operation) -> Status<c_int> {
    match operation {
        rocblas_operation_none => Ok(0),
        rocblas_operation_transpose => Ok(1),
        rocblas_operation_conjugate_transpose => Ok(2),
        _ => Err(rocblas_status_invalid_value),
    }
}

/// `cudaDataType` of a type.
fn data_type(of: rocblas_datatype) -> Status<c_int> {
    match of {
        rocblas_datatype_f16_r => Ok(2),
        rocblas_datatype_f32_r => Ok(0),
        rocblas_datatype_f64_r => Ok(1),
        rocblas_datatype_bf16_r => Ok(14),
        _ => Err(rocblas_status_not_implemented),
    }
}

/// `cublasComputeType_t` of the type that sums are made in.
fn compute_type(of: rocblas_datatype) -> Status<c_int> {
    match of {
        rocblas_datatype_f16_r => Ok(COMPUTE_F16),
        rocblas_datatype_f32_r => Ok(COMPUTE_F32),
        rocblas_datatype_f64_r => Ok(COMPUTE_F64),
        _ => Err(rocblas_status_not_implemented),
    }
}

api! {
    /// Makes a handle for the thread's device.
    fn rocblas_create_handle(handle: *mut rocblas_handle) {
        // SAFETY: the caller's pointer.
        check(unsafe { blas()?.create(handle.cast()) })
    }

    /// Ends a handle.
    fn rocblas_destroy_handle(handle: rocblas_handle) {
        // SAFETY: the caller's handle.
        check(unsafe { blas()?.destroy(handle.cast()) })
    }

    /// The stream that products are put on.
    fn rocblas_set_stream(handle: rocblas_handle, stream: hipStream_t) {
        // SAFETY: the caller's handles.
        check(unsafe { blas()?.set_stream(handle.cast(), stream.cast()) })
    }

    /// Whether products of f32 may be of fewer bits: xf32 on AMD's GPUs, TF32 here.
    fn rocblas_set_math_mode(handle: rocblas_handle, math_mode: rocblas_math_mode) {
        let mode = match math_mode {
            rocblas_default_math => FULL_PRODUCTS,
            rocblas_xf32_xdl_math_op => SHORT_PRODUCTS,
            _ => return Err(rocblas_status_invalid_value),
        };
        // SAFETY: the caller's handle.
        check(unsafe { blas()?.set_math_mode(handle.cast(), mode) })
    }

    /// What cuBLAS's documentation recommends for Hopper; older GPUs need less.
    fn rocblas_get_device_memory_size(_handle: rocblas_handle, size: *mut usize) {
        // SAFETY: the caller's pointer.
        match unsafe { size.as_mut() } {
            Some(size) => *size = WORKSPACE,
            None => return Err(rocblas_status_invalid_pointer),
        }
        Ok(())
    }

    /// Memory that products are worked out in.
    fn rocblas_set_workspace(handle: rocblas_handle, addr: *mut c_void, size: usize) {
        // SAFETY: the caller's handle and memory.
        check(unsafe { blas()?.set_workspace(handle.cast(), addr, size) })
    }

    /// Nothing: cuBLAS makes products without atomics unless it is asked to.
    fn rocblas_set_atomics_mode(_handle: rocblas_handle, _atomics_mode: rocblas_atomics_mode) {
        Ok(())
    }

    /// Products of matrices at equal distances. cuBLAS adds to what it writes, so `c` and `d` have to be one.
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
        compute: rocblas_datatype,
        _algo: rocblas_gemm_algo,
        _solution_index: i32,
        _flags: u32,
    ) {
        if !std::ptr::eq(c, d) || (c_type, ldc, stride_c) != (d_type, ldd, stride_d) {
            return Err(rocblas_status_not_implemented);
        }
        // SAFETY: the caller's handle and memory.
        check(unsafe {
            blas()?.gemm_strided_batched(
                handle.cast(), operation(trans_a)?, operation(trans_b)?, m, n, k, alpha,
                a, data_type(a_type)?, lda, stride_a, b, data_type(b_type)?, ldb, stride_b, beta,
                d, data_type(d_type)?, ldd, stride_d, batch_count, compute_type(compute)?, DEFAULT_ALGORITHM,
            )
        })
    }
}

/// The enumerator's name.
#[unsafe(no_mangle)]
pub extern "C" fn rocblas_status_to_string(status: rocblas_status) -> *const c_char {
    api::names::rocblas_status(status).as_ptr()
}

api::implements!(rocblas: rocblas_status_to_string);

fn unsupported(function: &str) -> rocblas_status {
    cuda::say_unsupported(function);
    rocblas_status_not_implemented
}

macro_rules! unsupported {
    ($($name:ident)*) => { api::stand_ins! { unsupported; $($name)* } };
}
include!(concat!(env!("OUT_DIR"), "/unsupported.rs"));
