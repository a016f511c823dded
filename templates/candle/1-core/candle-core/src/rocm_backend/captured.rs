//! Work whose shapes repeat, such as a step of decoding, captured once and then done with one call of the host.
use super::driver::{RocmGraph, RocmStream, StreamCaptureMode};
use crate::{Device, Result};
use std::sync::Arc;

/// Work that is done again and again on the same tensors.
///
/// On a ROCm device it is captured in a graph: `replay` costs the host one call, however many kernels there are. On other
/// devices `replay` calls the work, so that a program has one form for all.
///
/// - The work reads tensors that stay where they are. New inputs are copied into them with `Tensor::slice_set`, which does
///   not wait for the device, or the work writes them itself, as a step that leaves its token to the next one does.
/// - What the host computes in the work is computed in `new` only: shapes, scalars, which operations there are, and seeds of
///   random numbers. What changes from step to step, such as a position, has to lie in a tensor.
/// - The work cannot read a tensor on the host, or wait for the device. That is `RocmError::Captured` in `new`.
///
/// The memory of all tensors that the work uses is kept as long as this value.
pub struct Captured<T, F> {
    // Dropped first: nothing that it uses ends before it.
    graph: Option<RocmGraph>,
    /// What the graph writes, until it has been launched once.
    pending: Option<T>,
    output: T,
    work: F,
}

impl<T, F: Fn() -> Result<T>> Captured<T, F> {
    /// Does the work once, and captures it on a ROCm device: one with a stream of its own (`Device::new_rocm_with_stream`),
    /// on which no other thread does anything meanwhile.
    pub fn new(device: &Device, work: F) -> Result<Self> {
        // Kernels are compiled and loaded here, and memory is taken from the GPU.
        let output = work()?;
        let (pending, graph) = match device {
            Device::Rocm(device) => capture(device.rocm_stream(), &work)?,
            _ => (None, None),
        };
        Ok(Self {
            graph,
            pending,
            output,
            work,
        })
    }

    /// Does the work once more, with what the tensors that it reads hold now. The host does not wait.
    ///
    /// On ROCm the output is the same tensors each time: what is wanted after the next `replay` has to be copied or read
    /// before.
    pub fn replay(&mut self) -> Result<&T> {
        match &self.graph {
            None => self.output = (self.work)()?,
            Some(graph) => {
                graph.launch()?;
                if let Some(output) = self.pending.take() {
                    self.output = output;
                }
            }
        }
        Ok(&self.output)
    }

    /// What the work made when it was done last.
    pub fn output(&self) -> &T {
        &self.output
    }

    /// Whether `replay` launches a graph.
    pub fn is_graph(&self) -> bool {
        self.graph.is_some()
    }
}

/// A capture that ends, even if the work panics.
struct Capture(Arc<RocmStream>);

impl Drop for Capture {
    fn drop(&mut self) {
        if self.0.is_capturing() {
            // Nobody wants the graph. What fails here fails again when the stream is used.
            let _ = self.0.end_capture();
        }
    }
}

/// What work would make, and the graph that makes it. There is none where the work has nothing to do on the stream.
fn capture<T>(
    stream: Arc<RocmStream>,
    work: impl Fn() -> Result<T>,
) -> Result<(Option<T>, Option<RocmGraph>)> {
    stream.begin_capture(StreamCaptureMode::Relaxed)?;
    let capture = Capture(stream);
    let made = work()?;
    let graph = capture.0.end_capture()?;
    Ok((Some(made).filter(|_| graph.is_some()), graph))
}
