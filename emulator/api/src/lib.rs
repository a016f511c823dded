//! ROCm's C libraries as the emulator and HIP on NVIDIA implement them: types, constants and signatures, one module a library.
//!
//! But for [`names`], the modules are generated from `specs/hip_api.yaml`, which is checked against ROCm's real headers. A stand-in asks
//! [`implements!`] whether the functions that it exports have the signatures of the real ones, and
//! `implements_all_amdhip64!` (and so on) whether none is missing; what deviates does not compile:
//!
//! ```
//! use api::amdhip64::{hipError_t, hipSuccess};
//!
//! extern "C" fn hipDeviceSynchronize() -> hipError_t {
//!     hipSuccess
//! }
//!
//! api::implements!(amdhip64: hipDeviceSynchronize);
//! ```
//!
//! ```compile_fail,E0308
//! use api::amdhip64::{hipError_t, hipSuccess};
//!
//! extern "C" fn hipDeviceSynchronize(_: i32) -> hipError_t {
//!     hipSuccess
//! }
//!
//! api::implements!(amdhip64: hipDeviceSynchronize);
//! ```

#![allow(non_camel_case_types, non_snake_case, non_upper_case_globals, reason = "the names are C's")]
#![allow(missing_docs, reason = "HIP's reference says what they are")]

pub mod amdhip64;
pub mod hiprtc;
pub mod miopen;
pub mod names;
pub mod rccl;
pub mod rocblas;
pub mod rocrand;

/// Refuses to compile unless each function named is in scope with the signature that the real library gives it.
#[macro_export]
macro_rules! implements {
    ($library:ident: $($function:ident),+ $(,)?) => {
        const _: () = {
            $(let _: $crate::$library::signatures::$function = $function;)+
        };
    };
}

/// Defines exported functions that a library lacks. Each hands its name to `$refuse`, a `fn(&str) -> c_uint`, and
/// returns the status that comes back.
///
/// Their parameters are not known, and need not be: by the calling convention the caller cleans up. The result is as
/// wide as a register, for those that return a pointer.
#[macro_export]
macro_rules! stand_ins {
    ($refuse:expr; $($name:ident)*) => {$(
        /// Not supported.
        #[unsafe(no_mangle)]
        pub extern "C" fn $name() -> usize {
            let refuse: fn(&str) -> std::ffi::c_uint = $refuse;
            refuse(stringify!($name)) as usize
        }
    )*};
}
