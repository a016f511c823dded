//! Work on tensors, done when its stream gets there.

use api::miopen::{miopenHandle_t, miopenStatusUnknownError};
use candle_rocm_emulator_link::{Extent, enqueue, uses};

use crate::Status;
use crate::handle::with;
use crate::tensor::Tensor;

/// Computes a tensor from others.
#[derive(Debug)]
pub struct Job {
    /// Who asked for it.
    pub function: &'static str,
    /// What is read, in the order in which `compute` gets it.
    pub inputs: Vec<Tensor>,
    /// What is written.
    pub output: Tensor,
    /// Scratch memory that is written as well.
    pub workspace: Option<Extent>,
}

impl Job {
    /// Puts it on the handle's stream. `compute` gets the elements of the inputs and returns those of the output.
    ///
    /// # Errors
    /// `miopenStatusBadParm` for a wrong handle, `miopenStatusUnknownError` if its stream is none or its device has
    /// failed.
    pub fn enqueue(
        self,
        handle: miopenHandle_t,
        compute: impl Fn(&[Vec<f64>]) -> Vec<f64> + Send + Sync + 'static,
    ) -> Status {
        let stream = with(handle, |handle| handle.stream)?;
        match enqueue(stream.cast(), self.function, move || {
            self.perform(&compute);
        }) {
            0 => Ok(()),
            _ => Err(miopenStatusUnknownError),
        }
    }

    /// Does the work; none if something was reported.
    fn perform(&self, compute: impl Fn(&[Vec<f64>]) -> Vec<f64>) -> Option<()> {
        for input in &self.inputs {
            self.uses(input.name, &input.extents(false))?;
        }
        self.uses("the workspace", self.workspace.as_slice())?;
        // SAFETY: the memory was checked.
        let inputs: Vec<_> = self.inputs.iter().map(|input| unsafe { input.load() }).collect();
        let elements = compute(&inputs);
        self.uses(self.output.name, &self.output.extents(true))?;
        // SAFETY: the memory was checked.
        unsafe { self.output.store(&elements) };
        Some(())
    }

    fn uses(&self, name: &str, extents: &[Extent]) -> Option<()> {
        uses(&format!("{}, {name}", self.function), extents).then_some(())
    }
}
