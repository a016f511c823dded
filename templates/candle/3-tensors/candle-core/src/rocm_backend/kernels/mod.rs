//! HIP kernels: how their sources are compiled and loaded.
mod architecture;
mod compile;
mod disk_cache;
mod hash;
mod loader;
mod metadata;
mod module;
mod prebuilt;
mod sources;

pub(super) use architecture::{override_for, processor};
pub(crate) use disk_cache::Entry;
pub(crate) use loader::Loader;
pub(crate) use metadata::Parameter;
pub(crate) use module::{Function, Module};
