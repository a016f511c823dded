//! Convolutions by the number of a solution, without a search.

use std::ffi::c_void;

use api::miopen::*;

use crate::convolution::convolution;
use crate::handle::{store, with};
use crate::problem::{Algorithm, Direction, Problem};
use crate::run::Call;
use crate::tensor::{Tensor, shape};
use crate::{Status, exports};

fn algorithm_of(solution: u64) -> Status<Algorithm> {
    Algorithm::ALL.into_iter().find(|algorithm| algorithm.solution() == solution).ok_or(miopenStatusBadParm)
}

fn problem(
    direction: Direction,
    handle: miopenHandle_t,
    descriptor: miopenConvolutionDescriptor_t,
    [input, weights, output]: [miopenTensorDescriptor_t; 3],
) -> Status<Problem> {
    with(handle, |_| ())?;
    Problem::new(direction, convolution(descriptor)?, [shape(input)?, shape(weights)?, shape(output)?])
}

/// Writes at most `most` solutions and how many they are.
///
/// # Safety
/// The pointers are null or have room for that.
unsafe fn write_solutions(
    problem: &Problem,
    most: usize,
    count: *mut usize,
    solutions: *mut miopenConvSolution_t,
) -> Status {
    if solutions.is_null() || most == 0 {
        return Err(miopenStatusBadParm);
    }
    let written = most.min(Algorithm::ALL.len());
    // SAFETY: by contract.
    unsafe {
        store(count, written)?;
        for (index, algorithm) in Algorithm::ALL.into_iter().enumerate().take(written) {
            let solution = miopenConvSolution_t {
                time: algorithm.time(),
                workspace_size: problem.workspace(algorithm),
                solution_id: algorithm.solution(),
                algorithm: algorithm.number(),
            };
            solutions.add(index).write(solution);
        }
    }
    Ok(())
}

/// The functions of one direction: they differ in the order of their arguments.
macro_rules! immediate {
    (
        $direction:ident, arguments: $first:ident $second:ident, input: $input:ident, weights: $weights:ident,
        output: $output:ident; $count:ident $get:ident $compile:ident $size:ident
    ) => {
        exports! {
            /// How many solutions there are.
            fn $count(
                handle: miopenHandle_t,
                $first: miopenTensorDescriptor_t,
                $second: miopenTensorDescriptor_t,
                conv_desc: miopenConvolutionDescriptor_t,
                $output: miopenTensorDescriptor_t,
                solution_count: *mut usize,
            ) {
                problem(Direction::$direction, handle, conv_desc, [$input, $weights, $output])?;
                // SAFETY: the caller's pointer.
                unsafe { store(solution_count, Algorithm::ALL.len()) }
            }

            /// The solutions, the fastest first.
            fn $get(
                handle: miopenHandle_t,
                $first: miopenTensorDescriptor_t,
                $second: miopenTensorDescriptor_t,
                conv_desc: miopenConvolutionDescriptor_t,
                $output: miopenTensorDescriptor_t,
                max_solution_count: usize,
                solution_count: *mut usize,
                solutions: *mut miopenConvSolution_t,
            ) {
                let problem = problem(Direction::$direction, handle, conv_desc, [$input, $weights, $output])?;
                // SAFETY: the caller's pointers.
                unsafe { write_solutions(&problem, max_solution_count, solution_count, solutions) }
            }

            /// Makes a solution ready; there is nothing to do.
            fn $compile(
                handle: miopenHandle_t,
                $first: miopenTensorDescriptor_t,
                $second: miopenTensorDescriptor_t,
                conv_desc: miopenConvolutionDescriptor_t,
                $output: miopenTensorDescriptor_t,
                solution_id: u64,
            ) {
                problem(Direction::$direction, handle, conv_desc, [$input, $weights, $output])?;
                algorithm_of(solution_id).map(|_| ())
            }

            /// Bytes of workspace that a solution needs.
            fn $size(
                handle: miopenHandle_t,
                $first: miopenTensorDescriptor_t,
                $second: miopenTensorDescriptor_t,
                conv_desc: miopenConvolutionDescriptor_t,
                $output: miopenTensorDescriptor_t,
                solution_id: u64,
                work_space_size: *mut usize,
            ) {
                let problem = problem(Direction::$direction, handle, conv_desc, [$input, $weights, $output])?;
                // SAFETY: the caller's pointer.
                unsafe { store(work_space_size, problem.workspace(algorithm_of(solution_id)?)) }
            }
        }
    };
}

immediate! {
    Forward, arguments: w_desc x_desc, input: x_desc, weights: w_desc, output: y_desc;
    miopenConvolutionForwardGetSolutionCount
    miopenConvolutionForwardGetSolution
    miopenConvolutionForwardCompileSolution
    miopenConvolutionForwardGetSolutionWorkspaceSize
}

immediate! {
    BackwardData, arguments: dy_desc w_desc, input: dy_desc, weights: w_desc, output: dx_desc;
    miopenConvolutionBackwardDataGetSolutionCount
    miopenConvolutionBackwardDataGetSolution
    miopenConvolutionBackwardDataCompileSolution
    miopenConvolutionBackwardDataGetSolutionWorkspaceSize
}

exports! {
    /// A convolution.
    fn miopenConvolutionForwardImmediate(
        handle: miopenHandle_t,
        w_desc: miopenTensorDescriptor_t,
        w: *const c_void,
        x_desc: miopenTensorDescriptor_t,
        x: *const c_void,
        conv_desc: miopenConvolutionDescriptor_t,
        y_desc: miopenTensorDescriptor_t,
        y: *mut c_void,
        work_space: *mut c_void,
        work_space_size: usize,
        solution_id: u64,
    ) {
        let tensors = [
            Tensor::new("tensor x", x_desc, x)?,
            Tensor::new("tensor w", w_desc, w)?,
            Tensor::new("tensor y", y_desc, y)?,
        ];
        let call = Call::new("miopenConvolutionForwardImmediate", Direction::Forward, handle, conv_desc, tensors)?;
        call.enqueue(algorithm_of(solution_id)?, work_space, work_space_size)
    }

    /// The gradient of a convolution's input.
    fn miopenConvolutionBackwardDataImmediate(
        handle: miopenHandle_t,
        dy_desc: miopenTensorDescriptor_t,
        dy: *const c_void,
        w_desc: miopenTensorDescriptor_t,
        w: *const c_void,
        conv_desc: miopenConvolutionDescriptor_t,
        dx_desc: miopenTensorDescriptor_t,
        dx: *mut c_void,
        work_space: *mut c_void,
        work_space_size: usize,
        solution_id: u64,
    ) {
        const FUNCTION: &str = "miopenConvolutionBackwardDataImmediate";
        let tensors = [
            Tensor::new("tensor dy", dy_desc, dy)?,
            Tensor::new("tensor w", w_desc, w)?,
            Tensor::new("tensor dx", dx_desc, dx)?,
        ];
        let call = Call::new(FUNCTION, Direction::BackwardData, handle, conv_desc, tensors)?;
        call.enqueue(algorithm_of(solution_id)?, work_space, work_space_size)
    }
}
