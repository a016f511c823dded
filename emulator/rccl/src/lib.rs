//! librccl.so on the CPU.
//!
//! The ranks of a communicator are threads, processes, or machines that reach each other over TCP. The process that made
//! the communicator's id runs its hub: every rank hands in its data there when its stream reaches a call, and gets what
//! it is to receive. What RCCL answers with a hang is an error on every rank, unless a setting asks for the hang.

#![allow(
    non_snake_case,
    non_upper_case_globals,
    clippy::too_many_arguments,
    reason = "names and signatures are RCCL's"
)]

mod communicator;
mod group;
mod hub;
mod id;
mod management;
mod number;
mod operations;
mod reduce;
mod wire;

/// Defines exported functions of RCCL.
macro_rules! exports {
    ($($functions:tt)*) => {
        candle_rocm_emulator_link::exports! {
            rccl, ncclResult_t, bug = ncclInternalError; $($functions)*
        }
    };
}
use exports;

/// What a function does: nothing more to say, or a result other than success.
type Outcome<T = ()> = Result<T, api::rccl::ncclResult_t>;

/// Refuses a call, and says why.
fn refuse<T>(result: api::rccl::ncclResult_t, why: &str) -> Outcome<T> {
    candle_rocm_emulator_link::note(why);
    Err(result)
}

macro_rules! unsupported {
    ($($name:ident)*) => {
        candle_rocm_emulator_link::unsupported_functions! { api::rccl::ncclInvalidUsage; $($name)* }
    };
}
include!(concat!(env!("OUT_DIR"), "/unsupported.rs"));

mod complete {
    use crate::management::*;
    use crate::operations::*;

    api::implements_all_rccl!();
}
