//! Pooling with two spatial dimensions.

use std::ffi::{c_int, c_void};

use api::miopen::*;
use candle_rocm_emulator_link::{Handles, note};

use crate::handle::{must_be_plain, store};
use crate::job::Job;
use crate::tensor::{Shape, Tensor, shape};
use crate::{Status, exports};

/// What a pooling descriptor says; of height and width.
#[derive(Clone, Copy, Debug)]
struct Pooling {
    mode: miopenPoolingMode_t,
    window: [usize; 2],
    pad: [usize; 2],
    stride: [usize; 2],
}

static POOLINGS: Handles<Pooling> = Handles::new();

/// What a descriptor says.
fn pooling(descriptor: miopenPoolingDescriptor_t) -> Status<Pooling> {
    let said = POOLINGS.with(descriptor, |pooling| *pooling);
    said.filter(|pooling| pooling.window[0] > 0).ok_or(miopenStatusBadParm)
}

impl Pooling {
    fn output(&self, input: &Shape) -> Status<[usize; 4]> {
        let &[batch, channels, height, width] = input.dims.as_slice() else { return Err(miopenStatusBadParm) };
        let size = |axis: usize, size: usize| -> Status<usize> {
            let room = (size + 2 * self.pad[axis]).checked_sub(self.window[axis]).ok_or(miopenStatusBadParm)?;
            Ok(room / self.stride[axis] + 1)
        };
        Ok([batch, channels, size(0, height)?, size(1, width)?])
    }

    /// Pools a plane into one of another size.
    fn plane(&self, [height, width]: [usize; 2], output: [usize; 2], elements: &[f64]) -> Vec<f64> {
        let inside = |axis: usize, place: usize, size: usize| {
            let (pad, window) = (self.pad[axis], self.window[axis]);
            let start = place * self.stride[axis];
            start.saturating_sub(pad).min(size)..(start + window).saturating_sub(pad).min(size)
        };
        let pooled = |row: usize, column: usize| {
            let rows = inside(0, row, height);
            let columns = inside(1, column, width);
            let seen: Vec<f64> =
                rows.flat_map(|row| columns.clone().map(move |column| elements[row * width + column])).collect();
            match self.mode {
                miopenPoolingMax => seen.into_iter().fold(f64::NEG_INFINITY, f64::max),
                miopenPoolingAverageInclusive => seen.iter().sum::<f64>() / (self.window[0] * self.window[1]) as f64,
                _ => seen.iter().sum::<f64>() / seen.len() as f64,
            }
        };
        (0..output[0])
            .flat_map(|row| (0..output[1]).map(move |column| (row, column)))
            .map(|(r, c)| pooled(r, c))
            .collect()
    }
}

exports! {
    /// Makes a descriptor.
    fn miopenCreatePoolingDescriptor(descriptor: *mut miopenPoolingDescriptor_t) {
        let new = Pooling { mode: miopenPoolingMax, window: [0; 2], pad: [0; 2], stride: [1; 2] };
        // SAFETY: the caller's pointer.
        unsafe { store(descriptor, POOLINGS.insert(new)) }
    }

    /// Ends a descriptor.
    fn miopenDestroyPoolingDescriptor(descriptor: miopenPoolingDescriptor_t) {
        POOLINGS.remove(descriptor).map(|_| ()).ok_or(miopenStatusBadParm)
    }

    /// Describes pooling.
    fn miopenSet2dPoolingDescriptor(
        descriptor: miopenPoolingDescriptor_t,
        mode: miopenPoolingMode_t,
        window_height: c_int,
        window_width: c_int,
        pad_h: c_int,
        pad_w: c_int,
        stride_h: c_int,
        stride_w: c_int,
    ) {
        let positive = [window_height, window_width, stride_h, stride_w].iter().all(|size| *size > 0);
        if !positive || pad_h < 0 || pad_w < 0 || mode > miopenPoolingAverageInclusive {
            return Err(miopenStatusBadParm);
        }
        let pair = |height: c_int, width: c_int| [height as usize, width as usize];
        let new = Pooling {
            mode,
            window: pair(window_height, window_width),
            pad: pair(pad_h, pad_w),
            stride: pair(stride_h, stride_w),
        };
        POOLINGS.with(descriptor, |pooling| *pooling = new).ok_or(miopenStatusBadParm)
    }

    /// The dimensions of what pooling makes.
    fn miopenGetPoolingForwardOutputDim(
        descriptor: miopenPoolingDescriptor_t,
        tensor: miopenTensorDescriptor_t,
        n: *mut c_int,
        c: *mut c_int,
        h: *mut c_int,
        w: *mut c_int,
    ) {
        let dims = pooling(descriptor)?.output(&shape(tensor)?)?;
        for (pointer, size) in [n, c, h, w].into_iter().zip(dims) {
            // SAFETY: the caller's pointers.
            unsafe { store(pointer, size as c_int)? };
        }
        Ok(())
    }

    /// Bytes for the place of each maximum: one each, and none for averages.
    fn miopenPoolingGetWorkSpaceSizeV2(
        descriptor: miopenPoolingDescriptor_t,
        y_desc: miopenTensorDescriptor_t,
        work_space_size: *mut usize,
    ) {
        let is_max = pooling(descriptor)?.mode == miopenPoolingMax;
        let bytes = if is_max { shape(y_desc)?.count() } else { 0 };
        // SAFETY: the caller's pointer.
        unsafe { store(work_space_size, bytes) }
    }

    /// Pooling, without what its gradient would need.
    fn miopenPoolingForward(
        handle: miopenHandle_t,
        descriptor: miopenPoolingDescriptor_t,
        alpha: *const c_void,
        x_desc: miopenTensorDescriptor_t,
        x: *const c_void,
        beta: *const c_void,
        y_desc: miopenTensorDescriptor_t,
        y: *mut c_void,
        do_backward: bool,
        _work_space: *mut c_void,
        _work_space_size: usize,
    ) {
        // SAFETY: the caller's pointers.
        unsafe { must_be_plain("miopenPoolingForward", alpha, beta)? };
        if do_backward {
            note("miopenPoolingForward: do_backward is not supported by the emulated device");
            return Err(miopenStatusNotImplemented);
        }
        let pooling = pooling(descriptor)?;
        let (x, y) = (Tensor::new("tensor x", x_desc, x)?, Tensor::new("tensor y", y_desc, y)?);
        let [batch, channels, height, width] = pooling.output(&x.shape)?;
        if y.shape.dims != [batch, channels, height, width] || x.shape.format != y.shape.format {
            return Err(miopenStatusBadParm);
        }
        let input = [x.shape.dims[2], x.shape.dims[3]];
        let job = Job { function: "miopenPoolingForward", inputs: vec![x], output: y, workspace: None };
        job.enqueue(handle, move |inputs| {
            let planes = inputs[0].chunks_exact(input[0] * input[1]);
            planes.flat_map(|plane| pooling.plane(input, [height, width], plane)).collect()
        })
    }
}
