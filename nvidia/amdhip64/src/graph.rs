//! Graphs: work that is recorded from a stream and launched as one.

use std::ffi::{c_char, c_uint};

use api::amdhip64::*;
use cuda::{CAPTURE_GLOBAL, CAPTURE_RELAXED, CAPTURE_THREAD_LOCAL};

use crate::call::{Status, api, check};
use crate::context::enter;
use crate::recorded;

/// The driver's number of a mode.
fn mode_of(mode: hipStreamCaptureMode) -> Status<c_uint> {
    match mode {
        hipStreamCaptureModeGlobal => Ok(CAPTURE_GLOBAL),
        hipStreamCaptureModeThreadLocal => Ok(CAPTURE_THREAD_LOCAL),
        hipStreamCaptureModeRelaxed => Ok(CAPTURE_RELAXED),
        _ => Err(hipErrorInvalidValue),
    }
}

/// Says that no node was to blame and nothing was logged: the driver's function tells neither.
///
/// # Safety
/// The pointers are null or valid for a write, that to the log for `size` bytes.
unsafe fn no_details(node: *mut hipGraphNode_t, log: *mut c_char, size: usize) {
    if !node.is_null() {
        // SAFETY: by contract.
        unsafe { node.write(std::ptr::null_mut()) };
    }
    if !log.is_null() && size > 0 {
        // SAFETY: by contract.
        unsafe { log.write(0) };
    }
}

api! {
    /// Records what is put on a stream from now on, instead of running it.
    fn hipStreamBeginCapture(stream: hipStream_t, mode: hipStreamCaptureMode) {
        let mode = mode_of(mode)?;
        // SAFETY: the caller's handle.
        check(unsafe { enter()?.capture_begin(stream.cast(), mode) })?;
        recorded::capture_begins(stream);
        Ok(())
    }

    /// Ends that; the graph has what was recorded.
    fn hipStreamEndCapture(stream: hipStream_t, graph: *mut hipGraph_t) {
        // SAFETY: the caller's handle and pointer.
        let ended = check(unsafe { enter()?.capture_end(stream.cast(), graph.cast()) });
        // SAFETY: where the driver has ended a capture, the caller's pointer holds its graph.
        unsafe { recorded::capture_ends(stream, ended.is_ok().then_some(graph)) };
        ended
    }

    /// Makes a graph ready to be launched. No node is named where that fails, and the log is empty.
    fn hipGraphInstantiate(
        graph_exec: *mut hipGraphExec_t,
        graph: hipGraph_t,
        error_node: *mut hipGraphNode_t,
        log_buffer: *mut c_char,
        buffer_size: usize,
    ) {
        // SAFETY: the caller's pointers, which may be null.
        unsafe { no_details(error_node, log_buffer, buffer_size) };
        // SAFETY: the caller's pointer and handle; HIP's function has no flags.
        check(unsafe { enter()?.graph_instantiate(graph_exec.cast(), graph.cast(), 0) })?;
        // SAFETY: the driver has written to the caller's pointer.
        unsafe { recorded::instantiated(graph, graph_exec) };
        Ok(())
    }

    /// Puts a graph on a stream.
    fn hipGraphLaunch(graph_exec: hipGraphExec_t, stream: hipStream_t) {
        // SAFETY: the caller's handles.
        check(unsafe { enter()?.graph_launch(graph_exec.cast(), stream.cast()) })?;
        recorded::graph_launch(graph_exec);
        Ok(())
    }

    /// Ends a graph that was made ready.
    fn hipGraphExecDestroy(graph_exec: hipGraphExec_t) {
        // SAFETY: the caller's handle.
        check(unsafe { enter()?.graph_exec_destroy(graph_exec.cast()) })
    }

    /// Ends a graph.
    fn hipGraphDestroy(graph: hipGraph_t) {
        // SAFETY: the caller's handle.
        check(unsafe { enter()?.graph_destroy(graph.cast()) })
    }
}
