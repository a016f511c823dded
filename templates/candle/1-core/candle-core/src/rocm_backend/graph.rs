//! Work of a stream that is captured once, and launched as a whole as often as is wanted.
//!
//! A launch costs the host one call, however many kernels there are. They read and write the addresses that they had when
//! they were captured: new inputs are copied into the tensors that the capture read, as `Tensor::slice_set` does.
use super::api;
use super::gpu::lock;
use super::hip::{check, HipResult};
use super::queue::Queue;
use super::stream::RocmStream;
use super::RocmError;
use std::sync::{Arc, Mutex};

/// Whose HIP calls are refused during a capture because they could disturb it, such as allocations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamCaptureMode {
    /// Those of all threads.
    Global,
    /// Those of the thread that captures.
    ThreadLocal,
    /// Nobody's: the device may take memory from the GPU, and load kernels that have not run before.
    Relaxed,
}

/// What a stream was told between `RocmStream::begin_capture` and `RocmStream::end_capture`.
///
/// It keeps the memory that was allocated, used or given back meanwhile: tensors can be dropped, and those that the capture
/// made hold what the last launch wrote until then. Only memory of another process has to be kept by who launches it. It is
/// `Send` and `Sync`: launches of several threads come one after another.
pub struct RocmGraph {
    handles: Mutex<Handles>,
    queue: Arc<Queue>,
    /// Which of the allocator's graphs it is.
    memory: usize,
}

struct Handles {
    graph: api::hipGraph_t,
    /// Null until it has been instantiated.
    executable: api::hipGraphExec_t,
}

// SAFETY: HIP takes calls for a graph from any thread, one at a time, as the lock around the handles makes sure.
unsafe impl Send for Handles {}

impl RocmStream {
    /// From now on what is queued on the stream is not done, but captured, until `end_capture`.
    ///
    /// Only a device's stream of its own can be captured, that of `new_with_stream`. Kernels should have run before: those
    /// that have not are compiled and loaded now. What is copied from the host is the same at each launch. Copies to the
    /// host, and waits for the stream, are refused with `RocmError::Captured`; indices are not checked.
    pub fn begin_capture(&self, mode: StreamCaptureMode) -> HipResult<()> {
        let queue = self.queue()?;
        if self.is_shared() {
            return Err(
                "the default stream cannot be captured: make the device with `new_with_stream`"
                    .into(),
            );
        }
        self.gpu().make_current()?;
        let before = self.record_event()?;
        let memory = queue.begin_capture()?;
        let mode = match mode {
            StreamCaptureMode::Global => api::hipStreamCaptureModeGlobal,
            StreamCaptureMode::ThreadLocal => api::hipStreamCaptureModeThreadLocal,
            StreamCaptureMode::Relaxed => api::hipStreamCaptureModeRelaxed,
        };
        // SAFETY: the handle is valid as long as the stream.
        let status = unsafe { api::hipStreamBeginCapture(self.handle(), mode) };
        let begun = check("hipStreamBeginCapture", status);
        match begun {
            Ok(()) => {
                queue.set_before_capture(Some(before));
                self.set_captured(Some(memory));
            }
            Err(_) => queue.forget_graph(memory),
        }
        begun
    }

    /// Ends the capture. None if nothing came of it.
    ///
    /// After an error, the stream is captured no longer, and nothing that was captured is ever done. HIP cannot use its own
    /// stream again then, so that `hip_stream` is another.
    pub fn end_capture(&self) -> HipResult<Option<RocmGraph>> {
        let queue = self.queue()?;
        let Some(memory) = self.captured() else {
            return Err("nothing is captured: `begin_capture` comes before `end_capture`".into());
        };
        self.gpu().make_current()?;
        let (graph, ended) = end(self, &queue);
        // From here on `drop` gives everything back.
        let made = RocmGraph {
            handles: Mutex::new(Handles {
                graph,
                executable: std::ptr::null_mut(),
            }),
            queue,
            memory,
        };
        made.queue.allocator.end_capture();
        ended?;
        if graph.is_null() {
            return Ok(None);
        }
        made.instantiate()?;
        Ok(Some(made))
    }

    /// Whether what is queued on the stream is captured.
    pub fn is_capturing(&self) -> bool {
        self.captured().is_some()
    }

    /// An error during a capture, of which `call` cannot be a part.
    pub(super) fn refuse_capture(&self, call: &'static str) -> HipResult<()> {
        match self.captured() {
            None => Ok(()),
            Some(_) => Err(RocmError::Captured { call }),
        }
    }
}

/// Ends the capture of a stream that is captured: the graph, or null, and how that went.
fn end(stream: &RocmStream, queue: &Queue) -> (api::hipGraph_t, HipResult<()>) {
    let mut graph = std::ptr::null_mut();
    // SAFETY: the handle is valid, and `graph` lives through the call.
    let status = unsafe { api::hipStreamEndCapture(stream.handle(), &mut graph) };
    let ended = check("hipStreamEndCapture", status);
    let before = queue.set_before_capture(None);
    if let (Err(_), Some(before)) = (&ended, before) {
        // HIP leaves a stream captured whose capture it has given up.
        if let Err(error) = queue.renew_stream(&before) {
            return (graph, Err(error));
        }
    }
    stream.set_captured(None);
    (graph, ended)
}

/// Ends the capture of a stream that nobody has any more, if there is one.
pub(super) fn abandon(queue: &Queue) {
    let stream = queue.stream();
    if let Some(memory) = stream.captured() {
        let (graph, _) = end(stream, queue);
        destroy(graph);
        queue.forget_graph(memory);
    }
}

/// A failure means that the runtime is gone, and the graph with it.
fn destroy(graph: api::hipGraph_t) {
    if !graph.is_null() {
        // SAFETY: it came from `hipStreamEndCapture`, and nobody has it any more.
        let _ = unsafe { api::hipGraphDestroy(graph) };
    }
}

impl RocmGraph {
    fn instantiate(&self) -> HipResult<()> {
        let mut handles = lock(&self.handles);
        let graph = handles.graph;
        let none = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the graph is one, and the executable lives through the call. No details of failures are asked for.
        let status =
            unsafe { api::hipGraphInstantiate(&mut handles.executable, graph, none.0, none.1, 0) };
        check("hipGraphInstantiate", status)
    }

    /// Queues everything on the stream that was captured. The host goes on.
    pub fn launch(&self) -> HipResult<()> {
        let stream = self.queue.stream();
        stream.gpu().make_current()?;
        let handles = lock(&self.handles);
        // SAFETY: both handles are valid, and the memory that the work uses is kept.
        let status = unsafe { api::hipGraphLaunch(handles.executable, stream.handle()) };
        check("hipGraphLaunch", status)?;
        self.queue.parts.launched()
    }
}

impl std::fmt::Debug for RocmGraph {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RocmGraph({} of {:?})", self.memory, self.queue.stream())
    }
}

impl Drop for RocmGraph {
    fn drop(&mut self) {
        let stream = self.queue.stream();
        let handles = self.handles.get_mut();
        let handles = handles.unwrap_or_else(std::sync::PoisonError::into_inner);
        if !handles.executable.is_null() {
            // Some releases of HIP cannot give up a graph that runs. During a capture this one cannot be waited for, and
            // what was launched before has been queued long ago.
            let _ = stream.synchronize();
            // SAFETY: it was instantiated once, and nobody has it any more. A failure means that the runtime is gone.
            let _ = unsafe { api::hipGraphExecDestroy(handles.executable) };
        }
        destroy(handles.graph);
        self.queue.forget_graph(self.memory);
    }
}

#[cfg(test)]
mod tests {
    use super::super::memory::DeviceMemory;
    use super::super::testing::{gpu_of, is_alone, with_calls};
    use super::super::RocmDevice;
    use super::*;

    fn bytes(memory: &DeviceMemory) -> HipResult<Vec<u8>> {
        let mut bytes = vec![0; memory.size()];
        memory.copy_to_host(&mut bytes)?;
        Ok(bytes)
    }

    /// Device memory with these bytes.
    fn uploaded(bytes: &[u8], device: &RocmDevice) -> HipResult<DeviceMemory> {
        let mut memory = DeviceMemory::alloc(bytes.len(), device)?;
        memory.copy_from_host(bytes)?;
        Ok(memory)
    }

    fn begun(device: &RocmDevice) -> HipResult<Arc<RocmStream>> {
        let stream = device.rocm_stream();
        stream.begin_capture(StreamCaptureMode::Relaxed)?;
        Ok(stream)
    }

    fn ended(stream: &RocmStream) -> HipResult<RocmGraph> {
        Ok(stream.end_capture()?.expect("something was captured"))
    }

    #[test]
    fn a_graph_does_again_what_was_captured() -> HipResult<()> {
        let Some(device) = gpu_of("a_graph_does_again_what_was_captured", 0) else {
            return Ok(());
        };
        let mut input = uploaded(&[1, 2, 3, 4], &device)?;
        let mut output = uploaded(&[0; 4], &device)?;
        let stream = begun(&device)?;
        assert!(stream.is_capturing());
        let between = input.try_clone()?;
        output.copy_from(1, &between, 0, 3)?;
        drop(between);
        let graph = ended(&stream)?;
        assert!(!stream.is_capturing());
        assert_eq!(bytes(&output)?, [0; 4], "nothing was done yet");
        for first in [1, 7] {
            input.copy_from_host(&[first, 2, 3, 4])?;
            graph.launch()?;
            assert_eq!(bytes(&output)?, [0, first, 2, 3]);
        }
        Ok(())
    }

    #[test]
    fn what_a_graph_writes_is_nobody_elses() -> HipResult<()> {
        let Some(device) = gpu_of("what_a_graph_writes_is_nobody_elses", 0) else {
            return Ok(());
        };
        let input = uploaded(&[5; 600], &device)?;
        let stream = begun(&device)?;
        let dropped = input.try_clone()?;
        let address = dropped.as_ptr();
        drop(dropped);
        let made = input.try_clone()?;
        assert_eq!(made.as_ptr(), address, "one capture uses a block again");
        let graph = ended(&stream)?;
        graph.launch()?;
        assert_eq!(bytes(&made)?, [5; 600]);
        drop(made);
        let others = [(); 3].map(|()| uploaded(&[6; 600], &device));
        graph.launch()?;
        for other in others {
            let other = other?;
            assert_ne!(other.as_ptr(), address);
            assert_eq!(bytes(&other)?, [6; 600]);
        }
        let used = device.memory_stats().allocated;
        drop(graph);
        assert!(device.memory_stats().allocated < used, "the memory is back");
        Ok(())
    }

    #[test]
    fn what_a_graph_reads_is_nobody_elses() -> HipResult<()> {
        let Some(device) = gpu_of("what_a_graph_reads_is_nobody_elses", 0) else {
            return Ok(());
        };
        let [dropped, kept] = [5, 6].map(|byte| uploaded(&[byte; 600], &device));
        let (dropped, kept) = (dropped?, kept?);
        let addresses = [dropped.as_ptr(), kept.as_ptr()];
        let mut output = uploaded(&[0; 1200], &device)?;
        let stream = begun(&device)?;
        output.copy_from(0, &dropped, 0, 600)?;
        drop(dropped);
        let made = kept.try_clone()?;
        assert!(
            !addresses.contains(&made.as_ptr()),
            "each launch reads what lies there"
        );
        output.copy_from(600, &made, 0, 600)?;
        let graph = ended(&stream)?;
        drop(kept);
        let others = [(); 3].map(|()| uploaded(&[7; 600], &device));
        for _ in 0..2 {
            output.fill_zero()?;
            graph.launch()?;
            assert_eq!(bytes(&output)?, [[5; 600], [6; 600]].concat());
        }
        for other in others {
            assert!(!addresses.contains(&other?.as_ptr()));
        }
        let used = device.memory_stats().allocated;
        drop(graph);
        assert!(device.memory_stats().allocated < used, "the memory is back");
        Ok(())
    }

    #[test]
    fn what_the_host_gives_during_a_capture_comes_with_each_launch() -> HipResult<()> {
        let test = "what_the_host_gives_during_a_capture_comes_with_each_launch";
        let Some(device) = gpu_of(test, 0) else {
            return Ok(());
        };
        // More than a buffer of pinned memory has room for, and a few bytes.
        let large: Vec<u8> = (0..5 << 20).map(|i| (i % 253) as u8).collect();
        let mut memory = DeviceMemory::alloc(large.len(), &device)?;
        let stream = begun(&device)?;
        memory.copy_from_host(&large)?;
        let small = uploaded(&[9, 8, 7], &device)?;
        let graph = ended(&stream)?;
        for other in [1, 2] {
            memory.copy_from_host(&vec![other; large.len()])?;
            uploaded(&[other; 300], &device)?;
            graph.launch()?;
            assert!(bytes(&memory)? == large, "launch {other}");
            assert_eq!(bytes(&small)?, [9, 8, 7], "launch {other}");
        }
        Ok(())
    }

    #[test]
    fn what_cannot_be_captured_is_refused_and_the_capture_goes_on() -> HipResult<()> {
        let Some(device) = gpu_of(
            "what_cannot_be_captured_is_refused_and_the_capture_goes_on",
            0,
        ) else {
            return Ok(());
        };
        let memory = uploaded(&[1; 4], &device)?;
        let mut target = uploaded(&[2; 4], &device)?;
        let stream = begun(&device)?;
        let refused = |result: HipResult<()>, what: &str| match result {
            Err(RocmError::Captured { call }) => assert_eq!(call, what),
            other => panic!("{what}: {other:?}"),
        };
        refused(memory.copy_to_host(&mut [0; 4]), "a copy to the host");
        refused(stream.synchronize(), "a wait for the stream");
        assert!(stream.begin_capture(StreamCaptureMode::Global).is_err());
        target.copy_from(0, &memory, 0, 4)?;
        let graph = ended(&stream)?;
        graph.launch()?;
        assert_eq!(bytes(&target)?, [1; 4]);
        Ok(())
    }

    #[test]
    fn a_default_stream_and_one_that_is_not_captured_say_so() -> HipResult<()> {
        let Some(own) = gpu_of("a_default_stream_and_one_that_is_not_captured_say_so", 0) else {
            return Ok(());
        };
        let error = own.rocm_stream().end_capture().expect_err("nothing began");
        assert!(
            error.to_string().contains("`begin_capture` comes before"),
            "{error}"
        );
        let device = RocmDevice::new(0).expect("there is a GPU");
        let shared = device.rocm_stream();
        let error = shared.begin_capture(StreamCaptureMode::Relaxed);
        let error = error.expect_err("it is shared");
        assert!(error.to_string().contains("`new_with_stream`"), "{error}");
        assert!(!shared.is_capturing());
        let stream = own.rocm_stream();
        drop(own);
        let error = stream.begin_capture(StreamCaptureMode::Relaxed);
        let error = error.expect_err("there is no device");
        assert!(error.to_string().contains("device has ended"), "{error}");
        Ok(())
    }

    #[test]
    fn a_capture_that_hip_gives_up_leaves_the_stream_as_it_was() -> HipResult<()> {
        let Some(device) = gpu_of("a_capture_that_hip_gives_up_leaves_the_stream_as_it_was", 0)
        else {
            return Ok(());
        };
        let other = RocmDevice::new_with_stream(0).expect("there is a GPU");
        let foreign = uploaded(&[1; 4], &other)?;
        let mut memory = uploaded(&[2; 4], &device)?;
        let used = device.memory_stats().allocated;
        let stream = begun(&device)?;
        let between = memory.try_clone()?;
        drop(between);
        // The other stream's work is no part of the capture.
        let error = memory.copy_from(0, &foreign, 0, 4).expect_err("refused");
        let captured = |error: &RocmError| matches!(error, RocmError::Captured { .. });
        assert!(captured(&error), "{error}");
        let mut other_memory = uploaded(&[3; 4], &other)?;
        let error = other_memory
            .copy_from(0, &memory, 0, 4)
            .expect_err("refused");
        assert!(captured(&error), "{error}");
        let error = foreign.read_by(&device).expect_err("refused");
        assert!(captured(&error), "{error}");
        // Nobody may wait for a stream that HIP captures: it gives up the capture.
        // SAFETY: the handle is valid.
        let status = unsafe { api::hipStreamSynchronize(stream.handle()) };
        assert_ne!(status, api::hipSuccess);
        assert!(stream.end_capture().is_err());
        assert!(!stream.is_capturing());
        assert_eq!(device.memory_stats().allocated, used);
        memory.copy_from(0, &foreign, 0, 4)?;
        assert_eq!(bytes(&memory)?, [1; 4]);
        let graph = {
            let stream = begun(&device)?;
            memory.fill_zero()?;
            ended(&stream)?
        };
        graph.launch()?;
        assert_eq!(bytes(&memory)?, [0; 4]);
        Ok(())
    }

    /// Memory that another stream reads, and that is written in a capture: the graph knows nothing of that stream.
    #[test]
    fn a_capture_waits_on_the_host_for_those_that_read_before_it() -> HipResult<()> {
        let test = "a_capture_waits_on_the_host_for_those_that_read_before_it";
        let Some(device) = gpu_of(test, 0) else {
            return Ok(());
        };
        if !is_alone(module_path!(), test, &[]) {
            return Ok(());
        }
        let other = RocmDevice::new_with_stream(0).expect("there is a GPU");
        let mut memory = uploaded(&[1; 4], &device)?;
        let copy = memory.transfer(&other)?;
        let stream = begun(&device)?;
        let calls = [("hipEventSynchronize", 1), ("hipStreamWaitEvent", 0)];
        with_calls(&calls, || memory.fill_zero())?;
        let graph = ended(&stream)?;
        graph.launch()?;
        assert_eq!(bytes(&memory)?, [0; 4]);
        assert_eq!(bytes(&copy)?, [1; 4]);
        Ok(())
    }

    #[test]
    fn a_device_may_end_during_a_capture() -> HipResult<()> {
        let Some(device) = gpu_of("a_device_may_end_during_a_capture", 0) else {
            return Ok(());
        };
        let stream = begun(&device)?;
        let memory = DeviceMemory::alloc(64, &device)?;
        drop((memory, device));
        assert!(!stream.is_capturing());
        assert!(stream.end_capture().is_err());
        Ok(())
    }

    #[test]
    fn a_graph_may_outlive_its_device_and_is_launched_from_any_thread() -> HipResult<()> {
        let test = "a_graph_may_outlive_its_device_and_is_launched_from_any_thread";
        let Some(device) = gpu_of(test, 0) else {
            return Ok(());
        };
        let mut memory = uploaded(&[3; 4], &device)?;
        let stream = begun(&device)?;
        memory.fill_zero()?;
        let graph = ended(&stream)?;
        drop(device);
        assert!(format!("{graph:?}").starts_with("RocmGraph("));
        std::thread::scope(|scope| {
            let launches = [(); 3].map(|()| scope.spawn(|| graph.launch()));
            let mut done = launches.into_iter().map(|launch| launch.join());
            done.try_for_each(|done| done.expect("no panic"))
        })?;
        assert_eq!(bytes(&memory)?, [0; 4]);
        Ok(())
    }
}
