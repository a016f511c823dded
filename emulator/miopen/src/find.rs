//! The search for an algorithm, and how much workspace algorithms need.

use std::ffi::{c_int, c_void};

use api::miopen::*;

use crate::convolution::convolution;
use crate::handle::{store, with};
use crate::problem::{Algorithm, Direction, Problem};
use crate::run::Call;
use crate::tensor::{Tensor, shape};
use crate::{Status, exports};

/// Where a search puts what it found.
struct Results {
    /// Bytes of memory that an algorithm may work in.
    room: usize,
    work_space: *mut c_void,
    requested: c_int,
    count: *mut c_int,
    performance: *mut miopenConvAlgoPerf_t,
}

/// Writes what is known about each algorithm that has room, and runs the first one: a search overwrites the output.
/// Without any, the real library throws, and answers with the status of an unknown error.
///
/// # Safety
/// The caller's pointers have room for what was requested.
unsafe fn find(call: Call, results: &Results) -> Status {
    let Some(requested @ 1..) = usize::try_from(results.requested).ok() else { return Err(miopenStatusBadParm) };
    if results.performance.is_null() {
        return Err(miopenStatusBadParm);
    }
    let has_room = |algorithm: &Algorithm| call.problem.workspace(*algorithm) <= results.room;
    let found: Vec<_> = Algorithm::ALL.into_iter().filter(has_room).take(requested).collect();
    let Some(first) = found.first().copied() else { return Err(miopenStatusUnknownError) };
    // SAFETY: by contract.
    unsafe {
        store(results.count, found.len() as c_int)?;
        for (index, algorithm) in found.into_iter().enumerate() {
            let memory = call.problem.workspace(algorithm);
            let found = miopenConvAlgoPerf_t { fwd_algo: algorithm.number(), time: algorithm.time(), memory };
            results.performance.add(index).write(found);
        }
    }
    with(call.handle, |handle| handle.found.insert(call.problem.key()))?;
    call.enqueue(first, results.work_space, results.room)
}

/// The most workspace that an algorithm needs.
fn most_workspace(
    direction: Direction,
    handle: miopenHandle_t,
    descriptor: miopenConvolutionDescriptor_t,
    [input, weights, output]: [miopenTensorDescriptor_t; 3],
) -> Status<usize> {
    with(handle, |_| ())?;
    let problem = Problem::new(direction, convolution(descriptor)?, [shape(input)?, shape(weights)?, shape(output)?])?;
    Ok(problem.workspace(Algorithm::Gemm))
}

exports! {
    /// Looks for algorithms of a convolution.
    fn miopenFindConvolutionForwardAlgorithm(
        handle: miopenHandle_t,
        x_desc: miopenTensorDescriptor_t,
        x: *const c_void,
        w_desc: miopenTensorDescriptor_t,
        w: *const c_void,
        conv_desc: miopenConvolutionDescriptor_t,
        y_desc: miopenTensorDescriptor_t,
        y: *mut c_void,
        request_algo_count: c_int,
        returned_algo_count: *mut c_int,
        perf_results: *mut miopenConvAlgoPerf_t,
        work_space: *mut c_void,
        work_space_size: usize,
        _exhaustive_search: bool,
    ) {
        let tensors = [
            Tensor::new("tensor x", x_desc, x)?,
            Tensor::new("tensor w", w_desc, w)?,
            Tensor::new("tensor y", y_desc, y)?,
        ];
        let call = Call::new("miopenFindConvolutionForwardAlgorithm", Direction::Forward, handle, conv_desc, tensors)?;
        let results = Results {
            room: if work_space.is_null() { 0 } else { work_space_size },
            work_space,
            requested: request_algo_count,
            count: returned_algo_count,
            performance: perf_results,
        };
        // SAFETY: the caller's pointers.
        unsafe { find(call, &results) }
    }

    /// Looks for algorithms of the gradient of a convolution's input.
    fn miopenFindConvolutionBackwardDataAlgorithm(
        handle: miopenHandle_t,
        dy_desc: miopenTensorDescriptor_t,
        dy: *const c_void,
        w_desc: miopenTensorDescriptor_t,
        w: *const c_void,
        conv_desc: miopenConvolutionDescriptor_t,
        dx_desc: miopenTensorDescriptor_t,
        dx: *mut c_void,
        request_algo_count: c_int,
        returned_algo_count: *mut c_int,
        perf_results: *mut miopenConvAlgoPerf_t,
        work_space: *mut c_void,
        work_space_size: usize,
        _exhaustive_search: bool,
    ) {
        const FUNCTION: &str = "miopenFindConvolutionBackwardDataAlgorithm";
        let tensors = [
            Tensor::new("tensor dy", dy_desc, dy)?,
            Tensor::new("tensor w", w_desc, w)?,
            Tensor::new("tensor dx", dx_desc, dx)?,
        ];
        let call = Call::new(FUNCTION, Direction::BackwardData, handle, conv_desc, tensors)?;
        let results = Results {
            room: if work_space.is_null() { 0 } else { work_space_size },
            work_space,
            requested: request_algo_count,
            count: returned_algo_count,
            performance: perf_results,
        };
        // SAFETY: the caller's pointers.
        unsafe { find(call, &results) }
    }

    /// Bytes of workspace that are enough for every algorithm of a convolution.
    fn miopenConvolutionForwardGetWorkSpaceSize(
        handle: miopenHandle_t,
        w_desc: miopenTensorDescriptor_t,
        x_desc: miopenTensorDescriptor_t,
        conv_desc: miopenConvolutionDescriptor_t,
        y_desc: miopenTensorDescriptor_t,
        work_space_size: *mut usize,
    ) {
        let bytes = most_workspace(Direction::Forward, handle, conv_desc, [x_desc, w_desc, y_desc])?;
        // SAFETY: the caller's pointer.
        unsafe { store(work_space_size, bytes) }
    }

    /// Bytes of workspace that are enough for every algorithm of the gradient of a convolution's input.
    fn miopenConvolutionBackwardDataGetWorkSpaceSize(
        handle: miopenHandle_t,
        dy_desc: miopenTensorDescriptor_t,
        w_desc: miopenTensorDescriptor_t,
        conv_desc: miopenConvolutionDescriptor_t,
        dx_desc: miopenTensorDescriptor_t,
        work_space_size: *mut usize,
    ) {
        let bytes = most_workspace(Direction::BackwardData, handle, conv_desc, [dy_desc, w_desc, dx_desc])?;
        // SAFETY: the caller's pointer.
        unsafe { store(work_space_size, bytes) }
    }
}
