//! librocrand.so on the CPU.
//!
//! Every pseudorandom generator draws from Philox4x32-10, whichever type was asked for: reproducible from seed and
//! offset, but not the numbers that rocRAND draws. Quasirandom generators are not supported.

#![allow(non_snake_case, reason = "the names are rocRAND's")]

mod distribution;
mod generate;
mod generator;
mod philox;

/// Defines exported functions of rocRAND.
macro_rules! exports {
    ($($functions:tt)*) => {
        candle_rocm_emulator_link::exports! {
            rocrand, rocrand_status, bug = ROCRAND_STATUS_INTERNAL_ERROR; $($functions)*
        }
    };
}
use exports;

macro_rules! unsupported {
    ($($name:ident)*) => {
        candle_rocm_emulator_link::unsupported_functions! { api::rocrand::ROCRAND_STATUS_TYPE_ERROR; $($name)* }
    };
}
include!(concat!(env!("OUT_DIR"), "/unsupported.rs"));

mod complete {
    use crate::generate::*;
    use crate::generator::*;

    api::implements_all_rocrand!();
}
