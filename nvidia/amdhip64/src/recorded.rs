//! The record of this process, if its environment wants one. Work counts once the driver has taken it; what a capture
//! records instead of running it counts with each launch of its graph.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char};
use std::sync::{Mutex, MutexGuard, PoisonError};

use api::amdhip64::{hipDeviceProp_tR0600, hipFunction_t, hipGraph_t, hipGraphExec_t, hipStream_t};
use record::{Device, Done};

use crate::context::count;
use crate::device::describe;

/// What a graph does when it is launched.
#[derive(Clone, Debug, Default)]
struct Captured {
    kernels: Vec<String>,
    copies: u64,
}

/// What the driver's handles stand for.
#[derive(Debug, Default)]
struct Handles {
    functions: BTreeMap<usize, String>,
    /// By stream, while the capture lasts.
    captures: BTreeMap<usize, Captured>,
    graphs: BTreeMap<usize, Captured>,
    executables: BTreeMap<usize, Captured>,
}

static HANDLES: Mutex<Handles> = Mutex::new(Handles {
    functions: BTreeMap::new(),
    captures: BTreeMap::new(),
    graphs: BTreeMap::new(),
    executables: BTreeMap::new(),
});

/// The handles, if there is a record to keep.
fn handles() -> Option<MutexGuard<'static, Handles>> {
    record::is_wanted().then(|| HANDLES.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Text of a zero-terminated field.
fn text(field: &[c_char]) -> String {
    let bytes: Vec<_> = field.iter().map(|byte| *byte as u8).take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn device(index: i32) -> Option<Device> {
    // SAFETY: all fields are numbers, arrays of them or pointers, for which zeros are valid.
    let mut properties: hipDeviceProp_tR0600 = unsafe { std::mem::zeroed() };
    describe(&mut properties, index).ok()?;
    let wave = properties.warpSize.try_into().ok()?;
    Some(Device { name: text(&properties.name), architecture: text(&properties.gcnArchName), wave })
}

/// Begins the record with the first call.
pub fn start() {
    record::start("nvidia", || (0..count().unwrap_or(0)).filter_map(device).collect());
}

/// Notes a kernel that was looked up.
///
/// # Safety
/// The first pointer holds its handle, the second its zero-terminated name.
pub unsafe fn function(handle: *const hipFunction_t, name: *const c_char) {
    let Some(mut handles) = handles() else { return };
    // SAFETY: by contract.
    let (handle, name) = unsafe { (handle.read(), CStr::from_ptr(name).to_string_lossy().into_owned()) };
    record::function(&name);
    handles.functions.insert(handle.addr(), name);
}

/// Counts a launch.
pub fn launch(function: hipFunction_t, stream: hipStream_t) {
    let Some(mut handles) = handles() else { return };
    let name = handles.functions.get(&function.addr()).cloned().unwrap_or_default();
    match handles.captures.get_mut(&stream.addr()) {
        Some(capture) => capture.kernels.push(name),
        None => record::launch(&name),
    }
}

/// Counts a copy.
pub fn copy(bytes: usize, stream: hipStream_t) {
    let Some(mut handles) = handles() else { return };
    match handles.captures.get_mut(&stream.addr()) {
        _ if bytes == 0 => {}
        Some(capture) => capture.copies += 1,
        None => record::count(Done::Copy),
    }
}

/// What is put on a stream is recorded from now on.
pub fn capture_begins(stream: hipStream_t) {
    if let Some(mut handles) = handles() {
        handles.captures.insert(stream.addr(), Captured::default());
    }
}

/// A graph has what was recorded, if one was made.
///
/// # Safety
/// The pointer holds a graph.
pub unsafe fn capture_ends(stream: hipStream_t, graph: Option<*mut hipGraph_t>) {
    let Some(mut handles) = handles() else { return };
    if let (Some(captured), Some(graph)) = (handles.captures.remove(&stream.addr()), graph) {
        // SAFETY: by contract.
        handles.graphs.insert(unsafe { graph.read() }.addr(), captured);
    }
}

/// A graph was made ready.
///
/// # Safety
/// The pointer holds what it was made into.
pub unsafe fn instantiated(graph: hipGraph_t, executable: *const hipGraphExec_t) {
    let Some(mut handles) = handles() else { return };
    let captured = handles.graphs.get(&graph.addr()).cloned().unwrap_or_default();
    // SAFETY: by contract.
    handles.executables.insert(unsafe { executable.read() }.addr(), captured);
}

/// Counts all that a graph does.
pub fn graph_launch(executable: hipGraphExec_t) {
    let Some(handles) = handles() else { return };
    let Some(captured) = handles.executables.get(&executable.addr()) else { return };
    captured.kernels.iter().for_each(|name| record::launch(name));
    (0..captured.copies).for_each(|_| record::count(Done::Copy));
}
