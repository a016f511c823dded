//! libamdhip64.so on the CPU.

#![allow(non_snake_case, non_upper_case_globals, reason = "the names are HIP's")]

mod call;
mod copy;
mod device;
mod device_state;
mod emulator;
mod error;
mod event;
mod fill;
mod function;
mod graph;
mod handles;
mod host_function;
mod host_memory;
mod identity;
mod ipc;
mod launch;
mod memory;
mod module;
mod peer;
mod pointer;
mod pool;
mod properties;
mod recorded;
mod rows;
mod sibling;
mod stream;
mod stream_properties;
mod unsupported;

mod complete {
    use crate::copy::*;
    use crate::device::*;
    use crate::device_state::*;
    use crate::error::*;
    use crate::event::*;
    use crate::fill::*;
    use crate::function::*;
    use crate::graph::*;
    use crate::host_function::*;
    use crate::host_memory::*;
    use crate::identity::*;
    use crate::ipc::*;
    use crate::launch::*;
    use crate::memory::*;
    use crate::module::*;
    use crate::peer::*;
    use crate::pointer::*;
    use crate::pool::*;
    use crate::properties::*;
    use crate::rows::*;
    use crate::stream::*;
    use crate::stream_properties::*;

    api::implements_all_amdhip64!();
}

#[cfg(test)]
mod tests;
