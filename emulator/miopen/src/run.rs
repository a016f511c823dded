//! Convolutions by an algorithm that was found before, alone or with bias and activation.

use std::ffi::c_void;

use api::miopen::*;
use candle_rocm_emulator_link::note;

use crate::activation::activation;
use crate::convolution::convolution;
use crate::handle::{factor, must_be_plain, with};
use crate::job::Job;
use crate::op_tensor::bias_of;
use crate::problem::{Algorithm, Direction, Problem};
use crate::tensor::Tensor;
use crate::{Status, exports};

/// A convolution with its tensors.
pub struct Call {
    pub function: &'static str,
    /// Where to put it.
    pub handle: miopenHandle_t,
    /// What it is.
    pub problem: Problem,
    pub input: Tensor,
    pub weights: Tensor,
    pub output: Tensor,
}

impl Call {
    /// Checks descriptors and tensors.
    ///
    /// # Errors
    /// `miopenStatusBadParm` if something is none or does not fit.
    pub fn new(
        function: &'static str,
        direction: Direction,
        handle: miopenHandle_t,
        descriptor: miopenConvolutionDescriptor_t,
        [input, weights, output]: [Tensor; 3],
    ) -> Status<Self> {
        with(handle, |_| ())?;
        let shapes = [input.shape.clone(), weights.shape.clone(), output.shape.clone()];
        let problem = Problem::new(direction, convolution(descriptor)?, shapes)?;
        Ok(Self { function, handle, problem, input, weights, output })
    }

    /// The algorithm of a number, if one was looked for before.
    ///
    /// # Errors
    /// `miopenStatusUnknownError` if none was.
    pub fn found(&self, number: u32) -> Status<Algorithm> {
        let known = with(self.handle, |handle| handle.found.contains(&self.problem.key()))?;
        let algorithm = Algorithm::ALL.into_iter().find(|algorithm| algorithm.number() == number);
        algorithm.filter(|_| known).ok_or_else(|| {
            note(&format!("{}: no search for an algorithm found this one for this convolution", self.function));
            miopenStatusUnknownError
        })
    }

    /// Puts the convolution on the stream.
    ///
    /// # Errors
    /// As [`Problem::scratch`] and [`Job::enqueue`].
    pub fn enqueue(self, algorithm: Algorithm, workspace: *mut c_void, size: usize) -> Status {
        let workspace = self.problem.scratch(algorithm, workspace.addr(), size)?;
        let inputs = vec![self.input, self.weights];
        let job = Job { function: self.function, inputs, output: self.output, workspace };
        job.enqueue(self.handle, move |inputs| self.problem.compute(&inputs[0], &inputs[1]))
    }
}

exports! {
    /// A convolution.
    fn miopenConvolutionForward(
        handle: miopenHandle_t,
        alpha: *const c_void,
        x_desc: miopenTensorDescriptor_t,
        x: *const c_void,
        w_desc: miopenTensorDescriptor_t,
        w: *const c_void,
        conv_desc: miopenConvolutionDescriptor_t,
        algo: miopenConvFwdAlgorithm_t,
        beta: *const c_void,
        y_desc: miopenTensorDescriptor_t,
        y: *mut c_void,
        work_space: *mut c_void,
        work_space_size: usize,
    ) {
        // SAFETY: the caller's pointers.
        unsafe { must_be_plain("miopenConvolutionForward", alpha, beta)? };
        let tensors = [
            Tensor::new("tensor x", x_desc, x)?,
            Tensor::new("tensor w", w_desc, w)?,
            Tensor::new("tensor y", y_desc, y)?,
        ];
        let call = Call::new("miopenConvolutionForward", Direction::Forward, handle, conv_desc, tensors)?;
        let algorithm = call.found(algo)?;
        call.enqueue(algorithm, work_space, work_space_size)
    }

    /// The gradient of a convolution's input; in effect a transposed convolution.
    fn miopenConvolutionBackwardData(
        handle: miopenHandle_t,
        alpha: *const c_void,
        dy_desc: miopenTensorDescriptor_t,
        dy: *const c_void,
        w_desc: miopenTensorDescriptor_t,
        w: *const c_void,
        conv_desc: miopenConvolutionDescriptor_t,
        algo: miopenConvBwdDataAlgorithm_t,
        beta: *const c_void,
        dx_desc: miopenTensorDescriptor_t,
        dx: *mut c_void,
        work_space: *mut c_void,
        work_space_size: usize,
    ) {
        // SAFETY: the caller's pointers.
        unsafe { must_be_plain("miopenConvolutionBackwardData", alpha, beta)? };
        let tensors = [
            Tensor::new("tensor dy", dy_desc, dy)?,
            Tensor::new("tensor w", w_desc, w)?,
            Tensor::new("tensor dx", dx_desc, dx)?,
        ];
        let call = Call::new("miopenConvolutionBackwardData", Direction::BackwardData, handle, conv_desc, tensors)?;
        let algorithm = call.found(algo)?;
        call.enqueue(algorithm, work_space, work_space_size)
    }

    /// `y = activation(alpha1 * convolution(x) + alpha2 * z + bias)`.
    fn miopenConvolutionBiasActivationForward(
        handle: miopenHandle_t,
        alpha1: *const c_void,
        x_desc: miopenTensorDescriptor_t,
        x: *const c_void,
        w_desc: miopenTensorDescriptor_t,
        w: *const c_void,
        conv_desc: miopenConvolutionDescriptor_t,
        algo: miopenConvFwdAlgorithm_t,
        workspace: *mut c_void,
        workspace_size_in_bytes: usize,
        alpha2: *const c_void,
        z_desc: miopenTensorDescriptor_t,
        z: *const c_void,
        bias_desc: miopenTensorDescriptor_t,
        bias: *const c_void,
        activation_desc: miopenActivationDescriptor_t,
        y_desc: miopenTensorDescriptor_t,
        y: *mut c_void,
    ) {
        const FUNCTION: &str = "miopenConvolutionBiasActivationForward";
        // SAFETY: the caller's pointers.
        let (alpha1, alpha2) = unsafe { (factor(alpha1)?, factor(alpha2)?) };
        let tensors = [
            Tensor::new("tensor x", x_desc, x)?,
            Tensor::new("tensor w", w_desc, w)?,
            Tensor::new("tensor y", y_desc, y)?,
        ];
        let (z, bias) = (Tensor::new("tensor z", z_desc, z)?, Tensor::new("the bias", bias_desc, bias)?);
        let activation = activation(activation_desc)?;
        let Call { problem, input, weights, output, .. } =
            Call::new(FUNCTION, Direction::Forward, handle, conv_desc, tensors)?;
        let algorithm = Algorithm::ALL.into_iter().find(|algorithm| algorithm.number() == algo);
        let algorithm = algorithm.ok_or(miopenStatusBadParm)?;
        if z.shape.dims != output.shape.dims {
            return Err(miopenStatusBadParm);
        }
        let channel = bias_of(&bias.shape, &output.shape)?;
        let workspace = problem.scratch(algorithm, workspace.addr(), workspace_size_in_bytes)?;
        let job = Job { function: FUNCTION, inputs: vec![input, weights, z, bias], output, workspace };
        job.enqueue(handle, move |inputs| {
            let sums = problem.compute(&inputs[0], &inputs[1]);
            let (z, bias) = (&inputs[2], &inputs[3]);
            let combine = |(index, sum)| alpha1 * sum + alpha2 * z[index] + bias[channel.of(index)];
            sums.into_iter().enumerate().map(combine).map(|sum| activation.apply(sum)).collect()
        })
    }
}
