//! Activations.

use std::ffi::c_void;

use api::miopen::*;
use candle_rocm_emulator_link::Handles;
use element::Format;

use crate::handle::{must_be_plain, store};
use crate::job::Job;
use crate::tensor::Tensor;
use crate::{Status, exports};

/// What an activation descriptor says.
#[derive(Clone, Copy, Debug)]
pub struct Activation {
    mode: miopenActivationMode_t,
    alpha: f64,
    beta: f64,
    gamma: f64,
}

static ACTIVATIONS: Handles<Activation> = Handles::new();

/// What a descriptor says.
///
/// # Errors
/// `miopenStatusBadParm` if it is none.
pub fn activation(descriptor: miopenActivationDescriptor_t) -> Status<Activation> {
    ACTIVATIONS.with(descriptor, |activation| *activation).ok_or(miopenStatusBadParm)
}

impl Activation {
    /// Its value
    /// (<https://rocm.docs.amd.com/projects/MIOpen/en/latest/doxygen/html/group__activation.html>).
    pub fn apply(self, x: f64) -> f64 {
        let Self { alpha, beta, gamma, .. } = self;
        match self.mode {
            miopenActivationLOGISTIC => 1.0 / (1.0 + (-x).exp()),
            miopenActivationTANH => beta * (alpha * x).tanh(),
            miopenActivationRELU => x.max(0.0),
            // ln(1 + e^x), which does not overflow.
            miopenActivationSOFTRELU => x.max(0.0) + (-x.abs()).exp().ln_1p(),
            miopenActivationABS => x.abs(),
            miopenActivationPOWER => (alpha + beta * x).powf(gamma),
            miopenActivationCLIPPEDRELU => x.max(0.0).min(alpha),
            miopenActivationLEAKYRELU if x <= 0.0 => alpha * x,
            miopenActivationELU if x <= 0.0 => alpha * x.exp_m1(),
            miopenActivationCLAMP => x.min(beta).max(alpha),
            _ => x,
        }
    }
}

exports! {
    /// Makes a descriptor: of an activation that passes everything.
    fn miopenCreateActivationDescriptor(descriptor: *mut miopenActivationDescriptor_t) {
        let new = Activation { mode: miopenActivationPASTHRU, alpha: 0.0, beta: 0.0, gamma: 0.0 };
        // SAFETY: the caller's pointer.
        unsafe { store(descriptor, ACTIVATIONS.insert(new)) }
    }

    /// Ends a descriptor.
    fn miopenDestroyActivationDescriptor(descriptor: miopenActivationDescriptor_t) {
        ACTIVATIONS.remove(descriptor).map(|_| ()).ok_or(miopenStatusBadParm)
    }

    /// Describes an activation.
    fn miopenSetActivationDescriptor(
        descriptor: miopenActivationDescriptor_t,
        mode: miopenActivationMode_t,
        alpha: f64,
        beta: f64,
        gamma: f64,
    ) {
        if mode > miopenActivationCLAMP {
            return Err(miopenStatusBadParm);
        }
        let new = Activation { mode, alpha, beta, gamma };
        ACTIVATIONS.with(descriptor, |activation| *activation = new).ok_or(miopenStatusBadParm)
    }

    /// An activation of every element.
    fn miopenActivationForward(
        handle: miopenHandle_t,
        descriptor: miopenActivationDescriptor_t,
        alpha: *const c_void,
        x_desc: miopenTensorDescriptor_t,
        x: *const c_void,
        beta: *const c_void,
        y_desc: miopenTensorDescriptor_t,
        y: *mut c_void,
    ) {
        // SAFETY: the caller's pointers.
        unsafe { must_be_plain("miopenActivationForward", alpha, beta)? };
        let activation = activation(descriptor)?;
        let (x, y) = (Tensor::new("tensor x", x_desc, x)?, Tensor::new("tensor y", y_desc, y)?);
        if x.shape.count() != y.shape.count() || x.shape.format != y.shape.format {
            return Err(miopenStatusBadParm);
        }
        // AMD's has no kernels for others, bf16 among them.
        if !matches!(x.shape.format, Format::F16 | Format::F32) {
            return Err(miopenStatusNotImplemented);
        }
        let job = Job { function: "miopenActivationForward", inputs: vec![x], output: y, workspace: None };
        job.enqueue(handle, move |inputs| inputs[0].iter().map(|x| activation.apply(*x)).collect())
    }
}
