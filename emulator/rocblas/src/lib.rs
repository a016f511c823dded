//! librocblas.so on the CPU: real matrix products and products of a matrix and a vector.

#![allow(
    non_snake_case,
    non_upper_case_globals,
    clippy::too_many_arguments,
    reason = "names and signatures are rocBLAS's"
)]

mod device_memory;
mod gemm;
mod gemm_ex;
mod gemv;
mod handle;
mod kernels;
mod matrix;
mod product;
mod scalar;

/// Defines exported functions of rocBLAS.
macro_rules! exports {
    ($($functions:tt)*) => {
        candle_rocm_emulator_link::exports! {
            rocblas, rocblas_status, bug = rocblas_status_internal_error; $($functions)*
        }
    };
}
use exports;

/// What a function does: nothing more to say, or a status other than success.
type Status<T = ()> = Result<T, api::rocblas::rocblas_status>;

macro_rules! unsupported {
    ($($name:ident)*) => {
        candle_rocm_emulator_link::unsupported_functions! { api::rocblas::rocblas_status_not_implemented; $($name)* }
    };
}
include!(concat!(env!("OUT_DIR"), "/unsupported.rs"));

mod complete {
    use crate::device_memory::*;
    use crate::gemm::*;
    use crate::gemm_ex::*;
    use crate::gemv::*;
    use crate::handle::*;

    api::implements_all_rocblas!();
}
