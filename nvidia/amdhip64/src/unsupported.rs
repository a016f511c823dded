//! The functions of the real library that this one lacks: they say so.

use api::amdhip64::{hipError_t, hipErrorNotSupported};

use crate::call::call;

fn unsupported(function: &str) -> hipError_t {
    call(|| {
        cuda::say_unsupported(function);
        Err(hipErrorNotSupported)
    })
}

macro_rules! unsupported {
    ($($name:ident)*) => { api::stand_ins! { unsupported; $($name)* } };
}
include!(concat!(env!("OUT_DIR"), "/unsupported.rs"));
