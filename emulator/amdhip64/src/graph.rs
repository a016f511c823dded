//! Graphs: work that was captured from a stream, to be launched as a whole.
//!
//! A graph does its work in the order of the capture. Captures of several streams are not supported.

use std::ffi::c_char;
use std::sync::Arc;

use api::amdhip64::*;
use candle_rocm_emulator_runtime::capture::Mode;
use candle_rocm_emulator_runtime::error::HipError;
use candle_rocm_emulator_runtime::machine;
use candle_rocm_emulator_runtime::queue::{Action, Work};

use crate::call::{api, store};
use crate::handles::Handles;
use crate::stream::resolve;

type Graph = Arc<[Action]>;

static GRAPHS: Handles<Graph> = Handles::from(0x5c00_0001);
static EXECUTABLES: Handles<Graph> = Handles::from(0x5e00_0001);

api! {
    /// From now on a stream's work is recorded instead of done.
    fn hipStreamBeginCapture(stream: hipStream_t, mode: hipStreamCaptureMode) {
        let id = resolve(stream)?;
        let mode = match mode {
            hipStreamCaptureModeGlobal => Mode::Global,
            hipStreamCaptureModeThreadLocal => Mode::ThreadLocal,
            hipStreamCaptureModeRelaxed => Mode::Relaxed,
            _ => return Err(HipError::INVALID_VALUE),
        };
        let mut machine = machine::lock();
        let device = machine.queues.device_of(id).ok_or(HipError::INVALID_HANDLE)?;
        machine.captures.begin(id, device, mode)
    }

    /// Ends that, and makes a graph of what was recorded.
    fn hipStreamEndCapture(stream: hipStream_t, graph: *mut hipGraph_t) {
        let id = resolve(stream)?;
        if graph.is_null() {
            return Err(HipError::INVALID_VALUE);
        }
        let ended = machine::lock().captures.end(id);
        let handle = ended.as_ref().map_or(std::ptr::null_mut(), |work| GRAPHS.insert(work.as_slice().into()));
        // SAFETY: the caller's pointer.
        unsafe { store(graph, handle) }?;
        ended.map(|_| ())
    }

    /// Makes what can be launched of a graph, which may be destroyed then.
    fn hipGraphInstantiate(
        graph_exec: *mut hipGraphExec_t,
        graph: hipGraph_t,
        error_node: *mut hipGraphNode_t,
        log_buffer: *mut c_char,
        buffer_size: usize,
    ) {
        let _ = (error_node, log_buffer, buffer_size);
        let graph = GRAPHS.get(graph).ok_or(HipError::INVALID_VALUE)?;
        if graph_exec.is_null() {
            return Err(HipError::INVALID_VALUE);
        }
        // SAFETY: the caller's pointer.
        unsafe { store(graph_exec, EXECUTABLES.insert(graph)) }
    }

    /// Puts all work of a graph on a stream.
    fn hipGraphLaunch(graph_exec: hipGraphExec_t, stream: hipStream_t) {
        let graph = EXECUTABLES.get(graph_exec).ok_or(HipError::INVALID_VALUE)?;
        let stream = resolve(stream)?;
        graph.iter().try_for_each(|action| machine::enqueue(stream, Work::Run(action.clone())))
    }

    /// Gives up what could be launched. Launches of it go on.
    fn hipGraphExecDestroy(graph_exec: hipGraphExec_t) {
        EXECUTABLES.remove(graph_exec).map(|_| ()).ok_or(HipError::INVALID_VALUE)
    }

    /// Gives up a graph.
    fn hipGraphDestroy(graph: hipGraph_t) {
        GRAPHS.remove(graph).map(|_| ()).ok_or(HipError::INVALID_VALUE)
    }
}
