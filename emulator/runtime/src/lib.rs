//! The device that libamdhip64.so emulates: memory, streams, execution of kernels on the CPU, diagnostics.

pub mod calls;
pub mod capture;
pub mod compile;
pub mod error;
pub mod exec;
pub mod machine;
pub mod memory;
pub mod model;
pub mod module;
pub mod queue;
pub mod random;
pub mod report;
pub mod settings;
pub mod transfer;
mod visible;
