//! HIP kernels: which there are, how their sources are compiled and loaded, and how they are launched.
mod architecture;
mod compile;
mod disk_cache;
mod family;
mod hash;
mod launch;
mod loader;
mod module;
mod prebuilt;
// The table lists every kernel that the specs have; those of later phases wait for their callers.
#[allow(dead_code)]
pub(crate) mod table;

pub(super) use architecture::{override_for, processor};
pub(crate) use family::{Element, Kernel, Op, Tuning};
pub(crate) use launch::{Argument, Launch, Pointer, MAX_GRID};
pub(crate) use loader::Loader;
pub(crate) use module::{Function, Module};
