//! libamdhip64.so on the CPU.

#![allow(non_snake_case, non_upper_case_globals, reason = "the names are HIP's")]

mod call;
mod device;
mod emulator;
mod error;
mod event;
mod launch;
mod memory;
mod module;
mod properties;
mod stream;
mod unsupported;
