//! Graphs of recorded work, which the emulated device does not have.

use std::ffi::c_char;

use api::amdhip64::*;

use crate::call::api;
use crate::unsupported::refuse;

api! {
    /// Not supported by the emulated device.
    fn hipStreamBeginCapture(stream: hipStream_t, mode: hipStreamCaptureMode) {
        refuse("hipStreamBeginCapture")
    }

    /// Not supported by the emulated device.
    fn hipStreamEndCapture(stream: hipStream_t, graph: *mut hipGraph_t) {
        refuse("hipStreamEndCapture")
    }

    /// Not supported by the emulated device.
    fn hipGraphInstantiate(
        graph_exec: *mut hipGraphExec_t,
        graph: hipGraph_t,
        error_node: *mut hipGraphNode_t,
        log_buffer: *mut c_char,
        buffer_size: usize,
    ) {
        refuse("hipGraphInstantiate")
    }

    /// Not supported by the emulated device.
    fn hipGraphLaunch(graph_exec: hipGraphExec_t, stream: hipStream_t) {
        refuse("hipGraphLaunch")
    }

    /// Not supported by the emulated device.
    fn hipGraphExecDestroy(graph_exec: hipGraphExec_t) {
        refuse("hipGraphExecDestroy")
    }

    /// Not supported by the emulated device.
    fn hipGraphDestroy(graph: hipGraph_t) {
        refuse("hipGraphDestroy")
    }
}
