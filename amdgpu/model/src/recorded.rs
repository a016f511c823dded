//! The record of this process, if its environment wants one: kernels as the queues execute them.

use record::Done;

use crate::topology;

/// What the names of HIP's own kernels begin with, which copy and fill.
const OF_HIP: &str = "__amd_rocclr_";

/// Begins the record.
pub fn start() {
    record::start("model", || topology::device().into_iter().collect());
}

/// Notes a kernel that is launched for the first time.
pub fn function(name: Option<&str>) {
    if let Some(name) = name.filter(|name| !name.starts_with(OF_HIP)) {
        record::function(name);
    }
}

/// Counts a kernel that has run: a copy, if it is one of AMD's runtime.
pub fn launch(name: Option<&str>) {
    match name.filter(|name| !name.starts_with(OF_HIP)) {
        Some(name) => record::launch(name),
        None => record::count(Done::Copy),
    }
}
