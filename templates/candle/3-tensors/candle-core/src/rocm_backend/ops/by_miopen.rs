//! What MIOpen computes where the program has the feature `rocm-miopen`: convolutions of packed f16, bf16 and f32, and
//! activations of packed f16 and f32.
use super::conv::Convolution;
use super::operand::{uninit, Operand};
use crate::rocm_backend::miopen::{miopen_activations, Activation, Problem, Types};
use crate::rocm_backend::plan::Pointer;
use crate::rocm_backend::RocmStorage;
use crate::Result;

/// Elements of the largest tensor that MIOpen, which counts in 32 bits with sign, is asked for.
const MOST: usize = i32::MAX as usize;

impl Convolution<'_> {
    /// Computes all of the result; false if MIOpen does not.
    pub(super) fn by_miopen(&self, y: Pointer) -> Result<bool> {
        let [height, width] = self.results;
        let results = [self.x.shape[0], self.channels, height, width];
        let packed = self.x.contiguous_from(0) && self.w.contiguous_from(0);
        let counts = [self.x.shape, self.w.shape, results].map(|shape| shape.iter().product());
        // MIOpen multiplies with rocBLAS, which ends the process where it has no kernels.
        let multiplied = self.device.gpu().rocblas_serves();
        let taken = packed && multiplied && counts.iter().all(|count| (1..=MOST).contains(count));
        let (Some(types), true) = (Types::of(self.element), taken) else {
            return Ok(false);
        };
        let problem = Problem {
            types,
            x: self.x.shape,
            w: self.w.shape,
            y: results,
            padding: self.window.padding,
            stride: self.window.stride,
            dilation: self.window.dilation,
        };
        self.device.gpu().make_current()?;
        let memory = [self.x.start, self.w.start, y];
        Ok(self.device.queue().with_miopen(|miopen| {
            // SAFETY: the GPU is the current device, x and w are packed and stay within their storages, y has an element
            // for each result, and whatever is done to those later is queued behind this.
            unsafe { miopen.convolve(self.device, &problem, memory) }
        })?)
    }
}

/// A function by its name in Candle, `None` if MIOpen does not compute it.
pub(super) fn activation(x: Operand<'_>, name: &'static str) -> Result<Option<RocmStorage>> {
    match name {
        "relu" => activated(x, Activation::Relu, name),
        "tanh" => activated(x, Activation::Tanh, name),
        _ => Ok(None),
    }
}

/// As `activation`, of elu.
pub(super) fn elu(x: Operand<'_>, alpha: f64) -> Result<Option<RocmStorage>> {
    activated(x, Activation::Elu { alpha }, "elu")
}

fn activated(
    x: Operand<'_>,
    activation: Activation,
    name: &'static str,
) -> Result<Option<RocmStorage>> {
    let count = x.layout.shape().elem_count();
    let wanted = miopen_activations() && x.layout.is_contiguous() && (1..=MOST).contains(&count);
    let (Some(types), true) = (Types::of_activation(x.element(name)?), wanted) else {
        return Ok(None);
    };
    let device = x.device();
    let y = uninit(count, x.dtype(), device)?;
    device.gpu().make_current()?;
    device.queue().with_miopen(|miopen| {
        // SAFETY: the GPU is the current device, x is contiguous, y has as many elements, and whatever is done to them
        // later is queued behind this.
        unsafe { miopen.activate(activation, types, count, x.start(), y.pointer()) }
    })?;
    Ok(Some(y))
}
