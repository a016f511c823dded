//! libMIOpen.so on the CPU: convolutions, activations, pooling and operations on tensors, forward only.
//!
//! All is computed in f64 and rounded once.

#![allow(
    non_snake_case,
    non_upper_case_globals,
    clippy::too_many_arguments,
    reason = "names and signatures are MIOpen's"
)]

mod activation;
mod convolution;
mod find;
mod geometry;
mod handle;
mod immediate;
mod job;
mod op_tensor;
mod pooling;
mod problem;
mod run;
mod tensor;

/// Defines exported functions of MIOpen.
macro_rules! exports {
    ($($functions:tt)*) => {
        candle_rocm_emulator_link::exports! {
            miopen, miopenStatus_t, bug = miopenStatusInternalError; $($functions)*
        }
    };
}
use exports;

/// What a function does: nothing more to say, or a status other than success.
type Status<T = ()> = Result<T, api::miopen::miopenStatus_t>;

macro_rules! unsupported {
    ($($name:ident)*) => {
        candle_rocm_emulator_link::unsupported_functions! { api::miopen::miopenStatusNotImplemented; $($name)* }
    };
}
include!(concat!(env!("OUT_DIR"), "/unsupported.rs"));

mod complete {
    use crate::activation::*;
    use crate::convolution::*;
    use crate::find::*;
    use crate::handle::*;
    use crate::immediate::*;
    use crate::op_tensor::*;
    use crate::pooling::*;
    use crate::run::*;
    use crate::tensor::*;

    api::implements_all_miopen!();
}
