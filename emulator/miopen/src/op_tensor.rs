//! Operations of two tensors, and bias.

use std::ffi::c_void;

use api::miopen::*;

use crate::handle::{factor, must_be_plain};
use crate::job::Job;
use crate::tensor::{Shape, Tensor};
use crate::{Status, exports};

/// Which element of a smaller tensor belongs to an element of a larger one.
#[derive(Clone, Debug)]
pub struct Broadcast {
    /// Sizes of the larger one, and for each dimension how far the smaller one moves.
    axes: Vec<(usize, usize)>,
}

impl Broadcast {
    /// Of a tensor that is as large as the other, or has the size one, in every dimension.
    ///
    /// # Errors
    /// `miopenStatusBadParm` if it is not.
    fn new(small: &Shape, large: &Shape) -> Status<Self> {
        let sizes = || small.dims.iter().zip(&large.dims);
        if small.dims.len() != large.dims.len() || sizes().any(|(small, large)| *small != 1 && small != large) {
            return Err(miopenStatusBadParm);
        }
        let steps = (0..small.dims.len()).map(|axis| small.dims[axis + 1..].iter().product::<usize>());
        let axes = sizes().zip(steps).map(|((&small, &large), step)| (large, if small == 1 { 0 } else { step }));
        Ok(Self { axes: axes.collect() })
    }

    /// The number of the smaller tensor's element.
    pub fn of(&self, mut index: usize) -> usize {
        let mut place = 0;
        for (size, step) in self.axes.iter().rev() {
            place += index % size * step;
            index /= size;
        }
        place
    }
}

/// How a bias lies over a tensor: it has one element for each channel.
///
/// # Errors
/// `miopenStatusBadParm` if it has not.
pub fn bias_of(bias: &Shape, tensor: &Shape) -> Status<Broadcast> {
    let is_per_channel = bias.dims.iter().enumerate().all(|(axis, size)| axis == 1 || *size == 1);
    if is_per_channel && bias.dims.get(1) == tensor.dims.get(1) {
        Broadcast::new(bias, tensor)
    } else {
        Err(miopenStatusBadParm)
    }
}

fn operation(number: miopenTensorOp_t) -> Status<fn(f64, f64) -> f64> {
    Ok(match number {
        miopenTensorOpAdd => |a, b| a + b,
        miopenTensorOpMul => |a, b| a * b,
        miopenTensorOpMin => f64::min,
        miopenTensorOpMax => f64::max,
        _ => return Err(miopenStatusBadParm),
    })
}

exports! {
    /// `c = operation(alpha1 * a, alpha2 * b) + beta * c`, where b may have the size one.
    fn miopenOpTensor(
        handle: miopenHandle_t,
        tensor_op: miopenTensorOp_t,
        alpha1: *const c_void,
        a_desc: miopenTensorDescriptor_t,
        a: *const c_void,
        alpha2: *const c_void,
        b_desc: miopenTensorDescriptor_t,
        b: *const c_void,
        beta: *const c_void,
        c_desc: miopenTensorDescriptor_t,
        c: *mut c_void,
    ) {
        // SAFETY: the caller's pointers.
        let (alpha1, alpha2, beta) = unsafe { (factor(alpha1)?, factor(alpha2)?, factor(beta)?) };
        let operation = operation(tensor_op)?;
        let (a, b) = (Tensor::new("tensor a", a_desc, a)?, Tensor::new("tensor b", b_desc, b)?);
        let c = Tensor::new("tensor c", c_desc, c)?;
        let formats = [a.shape.format, b.shape.format];
        if a.shape.dims != c.shape.dims || formats.iter().any(|format| *format != c.shape.format) {
            return Err(miopenStatusBadParm);
        }
        let broadcast = Broadcast::new(&b.shape, &c.shape)?;
        let inputs = if beta == 0.0 { vec![a, b] } else { vec![a, b, c.clone()] };
        let job = Job { function: "miopenOpTensor", inputs, output: c, workspace: None };
        job.enqueue(handle, move |inputs| {
            let b = &inputs[1];
            let old = |index: usize| inputs.get(2).map_or(0.0, |c| beta * c[index]);
            let element = |(index, a)| operation(alpha1 * a, alpha2 * b[broadcast.of(index)]) + old(index);
            inputs[0].iter().enumerate().map(element).collect()
        })
    }

    /// Adds to each element of y the bias of its channel.
    fn miopenConvolutionForwardBias(
        handle: miopenHandle_t,
        alpha: *const c_void,
        b_desc: miopenTensorDescriptor_t,
        b: *const c_void,
        beta: *const c_void,
        y_desc: miopenTensorDescriptor_t,
        y: *mut c_void,
    ) {
        // SAFETY: the caller's pointers.
        unsafe { must_be_plain("miopenConvolutionForwardBias", alpha, beta)? };
        let (bias, y) = (Tensor::new("the bias", b_desc, b)?, Tensor::new("tensor y", y_desc, y)?);
        let channel = bias_of(&bias.shape, &y.shape)?;
        let inputs = vec![y.clone(), bias];
        let job = Job { function: "miopenConvolutionForwardBias", inputs, output: y, workspace: None };
        job.enqueue(handle, move |inputs| {
            inputs[0].iter().enumerate().map(|(index, y)| y + inputs[1][channel.of(index)]).collect()
        })
    }
}

#[cfg(test)]
mod tests {
    use element::Format;

    use super::*;

    fn shape(dims: &[usize]) -> Shape {
        Shape { format: Format::F32, dims: dims.to_vec(), strides: vec![0; dims.len()] }
    }

    #[test]
    fn a_size_of_one_is_repeated() {
        let broadcast = Broadcast::new(&shape(&[2, 1, 3]), &shape(&[2, 2, 3])).unwrap();
        let places: Vec<_> = (0..12).map(|index| broadcast.of(index)).collect();
        assert_eq!(places, [0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5]);
        assert_eq!(Broadcast::new(&shape(&[3]), &shape(&[2])).unwrap_err(), miopenStatusBadParm);
    }

    #[test]
    fn a_bias_has_one_element_for_each_channel() {
        assert_eq!(bias_of(&shape(&[1, 3, 1]), &shape(&[2, 3, 2])).unwrap().of(7), 0);
        assert_eq!(bias_of(&shape(&[1, 3, 1]), &shape(&[2, 3, 2])).unwrap().of(9), 1);
        assert_eq!(bias_of(&shape(&[1, 1, 2]), &shape(&[2, 1, 2])).unwrap_err(), miopenStatusBadParm);
    }
}
