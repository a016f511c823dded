//! Descriptors of convolutions.

use std::ffi::c_int;
use std::slice;

use api::miopen::*;
use candle_rocm_emulator_link::Handles;

use crate::handle::store;
use crate::problem::{Direction, output_dims};
use crate::tensor::shape;
use crate::{Status, exports};

/// What a convolution descriptor says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Convolution {
    /// Whether it is the transpose of a convolution.
    pub transposed: bool,
    pub groups: usize,
    /// Of each spatial dimension.
    pub pad: Vec<usize>,
    pub stride: Vec<usize>,
    pub dilation: Vec<usize>,
}

static CONVOLUTIONS: Handles<Convolution> = Handles::new();

/// What a descriptor says.
///
/// # Errors
/// `miopenStatusBadParm` if it is none or says nothing yet.
pub fn convolution(descriptor: miopenConvolutionDescriptor_t) -> Status<Convolution> {
    let said = CONVOLUTIONS.with(descriptor, |convolution| convolution.clone());
    said.filter(|convolution| !convolution.pad.is_empty()).ok_or(miopenStatusBadParm)
}

fn set(
    descriptor: miopenConvolutionDescriptor_t,
    mode: miopenConvolutionMode_t,
    pad: &[c_int],
    stride: &[c_int],
    dilation: &[c_int],
) -> Status {
    let at_least = |least: usize, numbers: &[c_int]| -> Status<Vec<usize>> {
        let number = |number: &c_int| usize::try_from(*number).ok().filter(|number| *number >= least);
        numbers.iter().map(number).collect::<Option<_>>().ok_or(miopenStatusBadParm)
    };
    let transposed = match mode {
        miopenConvolution | miopenGroupConv | miopenDepthwise => false,
        miopenTranspose => true,
        _ => return Err(miopenStatusBadParm),
    };
    let (pad, stride, dilation) = (at_least(0, pad)?, at_least(1, stride)?, at_least(1, dilation)?);
    let new = Convolution { transposed, groups: 1, pad, stride, dilation };
    CONVOLUTIONS.with(descriptor, |convolution| *convolution = new).ok_or(miopenStatusBadParm)
}

exports! {
    /// Makes a descriptor.
    fn miopenCreateConvolutionDescriptor(descriptor: *mut miopenConvolutionDescriptor_t) {
        let new = Convolution { transposed: false, groups: 1, pad: vec![], stride: vec![], dilation: vec![] };
        // SAFETY: the caller's pointer.
        unsafe { store(descriptor, CONVOLUTIONS.insert(new)) }
    }

    /// Ends a descriptor.
    fn miopenDestroyConvolutionDescriptor(descriptor: miopenConvolutionDescriptor_t) {
        CONVOLUTIONS.remove(descriptor).map(|_| ()).ok_or(miopenStatusBadParm)
    }

    /// Describes a convolution with two spatial dimensions.
    fn miopenInitConvolutionDescriptor(
        descriptor: miopenConvolutionDescriptor_t,
        mode: miopenConvolutionMode_t,
        pad_h: c_int,
        pad_w: c_int,
        stride_h: c_int,
        stride_w: c_int,
        dilation_h: c_int,
        dilation_w: c_int,
    ) {
        set(descriptor, mode, &[pad_h, pad_w], &[stride_h, stride_w], &[dilation_h, dilation_w])
    }

    /// Describes a convolution with one to three spatial dimensions.
    fn miopenInitConvolutionNdDescriptor(
        descriptor: miopenConvolutionDescriptor_t,
        spatial_dim: c_int,
        pad: *const c_int,
        stride: *const c_int,
        dilation: *const c_int,
        mode: miopenConvolutionMode_t,
    ) {
        if !(1..=3).contains(&spatial_dim) || pad.is_null() || stride.is_null() || dilation.is_null() {
            return Err(miopenStatusBadParm);
        }
        // SAFETY: the caller's arrays of that many numbers.
        let [pad, stride, dilation] =
            [pad, stride, dilation].map(|array| unsafe { slice::from_raw_parts(array, spatial_dim as usize) });
        set(descriptor, mode, pad, stride, dilation)
    }

    /// Divides the channels into groups.
    fn miopenSetConvolutionGroupCount(descriptor: miopenConvolutionDescriptor_t, group_count: c_int) {
        let Some(groups @ 1..) = usize::try_from(group_count).ok() else { return Err(miopenStatusBadParm) };
        CONVOLUTIONS.with(descriptor, |convolution| convolution.groups = groups).ok_or(miopenStatusBadParm)
    }

    /// Takes an attribute, of which none changes anything here.
    fn miopenSetConvolutionAttribute(
        descriptor: miopenConvolutionDescriptor_t,
        attr: miopenConvolutionAttrib_t,
        _value: c_int,
    ) {
        convolution(descriptor)?;
        match attr {
            MIOPEN_CONVOLUTION_ATTRIB_FP16_ALT_IMPL | MIOPEN_CONVOLUTION_ATTRIB_DETERMINISTIC => Ok(()),
            _ => Err(miopenStatusBadParm),
        }
    }

    /// The dimensions of what a convolution with two spatial dimensions makes.
    fn miopenGetConvolutionForwardOutputDim(
        descriptor: miopenConvolutionDescriptor_t,
        input: miopenTensorDescriptor_t,
        filter: miopenTensorDescriptor_t,
        n: *mut c_int,
        c: *mut c_int,
        h: *mut c_int,
        w: *mut c_int,
    ) {
        let dims = output_dims(&convolution(descriptor)?, Direction::Forward, &shape(input)?.dims, &shape(filter)?.dims)?;
        let &[batch, channels, height, width] = dims.as_slice() else { return Err(miopenStatusBadParm) };
        for (pointer, size) in [(n, batch), (c, channels), (h, height), (w, width)] {
            // SAFETY: the caller's pointers.
            unsafe { store(pointer, size as c_int)? };
        }
        Ok(())
    }
}
