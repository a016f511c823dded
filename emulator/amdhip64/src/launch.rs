//! Launches.

use std::ffi::{c_uint, c_void};

use api::amdhip64::{
    HIP_LAUNCH_PARAM_BUFFER_POINTER, HIP_LAUNCH_PARAM_BUFFER_SIZE, HIP_LAUNCH_PARAM_END, dim3, hipError_t,
    hipFunction_t, hipStream_t,
};
use candle_rocm_emulator_runtime::error::{HipError, HipResult};
use candle_rocm_emulator_runtime::exec::{Arguments, Launch};
use candle_rocm_emulator_runtime::machine;
use candle_rocm_emulator_runtime::module::{Function, Module, abi};
use candle_rocm_emulator_runtime::queue::{Action, Work};

use crate::call::{api, call};
use crate::{module, stream};

/// The arguments of a launch, from `params` or from the buffer that `extra` describes.
unsafe fn arguments(function: &Function, params: *mut *mut c_void, extra: *mut *mut c_void) -> HipResult<Arguments> {
    let parameters = &function.kernel().parameters;
    if !extra.is_null() {
        // SAFETY: by HIP's contract the array ends with the marker.
        let buffer = unsafe { buffer_of(extra) }?;
        return if params.is_null() {
            Arguments::from_buffer(parameters, buffer)
        } else {
            Err(HipError::INVALID_VALUE)
        };
    }
    if params.is_null() && !parameters.is_empty() {
        return Err(HipError::INVALID_VALUE);
    }
    // SAFETY: by HIP's contract there is a pointer for each parameter.
    Ok(unsafe { Arguments::from_pointers(parameters, params.cast_const().cast()) })
}

unsafe fn buffer_of<'a>(extra: *mut *mut c_void) -> HipResult<&'a [u8]> {
    let (mut start, mut size) = (std::ptr::null(), 0);
    let mut entry = extra;
    loop {
        // SAFETY: markers and values alternate up to the end marker.
        unsafe {
            match *entry {
                HIP_LAUNCH_PARAM_BUFFER_POINTER => start = (*entry.add(1)).cast::<u8>().cast_const(),
                HIP_LAUNCH_PARAM_BUFFER_SIZE => size = *(*entry.add(1)).cast::<usize>(),
                HIP_LAUNCH_PARAM_END if start.is_null() => return Err(HipError::INVALID_VALUE),
                HIP_LAUNCH_PARAM_END => return Ok(std::slice::from_raw_parts(start, size)),
                _ => return Err(HipError::INVALID_VALUE),
            }
            entry = entry.add(2);
        }
    }
}

/// Threads and LDS of a launch.
struct Shape {
    grid: [u32; 3],
    block: [u32; 3],
    dynamic_lds: usize,
}

fn enqueue(function: Function, arguments: Arguments, shape: Shape, stream: hipStream_t) -> HipResult {
    let stream = stream::resolve(stream)?;
    let (device, reachable, only_blocks, random) = {
        let mut machine = machine::lock();
        let device = machine.queues.device_of(stream).ok_or(HipError::INVALID_HANDLE)?;
        (device, machine.peers[device], machine.only_blocks.clone(), machine.queues.draw())
    };
    let Shape { grid, block, dynamic_lds } = shape;
    let launch = Launch { function, grid, only_blocks, block, dynamic_lds, arguments, device, reachable };
    launch.validate()?;
    let run = move || {
        launch.run(random.clone())?;
        record::launch(&launch.function.kernel().name);
        Ok(())
    };
    machine::enqueue(stream, Work::Run(Action::new(run)))
}

/// For programs whose kernels are part of themselves (emulator/include/hip/emulator/launch.h).
///
/// # Safety
/// The descriptions are a program's own, and there is a pointer to each argument.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn candle_rocm_emulator_launch(
    module: *const abi::Module,
    kernel: *const abi::Kernel,
    grid: dim3,
    block: dim3,
    dynamic_lds: usize,
    stream: hipStream_t,
    arguments: *const *const c_void,
) -> hipError_t {
    call(
        "hipLaunchKernel",
        || format!("grid={grid:?}, block={block:?}, stream={stream:?}"),
        || {
            // SAFETY: by contract.
            let function = unsafe { Module::of_program(&*module, &*kernel) }?;
            // SAFETY: by contract.
            let arguments = unsafe { Arguments::from_pointers(&function.kernel().parameters, arguments) };
            let shape = Shape { grid: [grid.x, grid.y, grid.z], block: [block.x, block.y, block.z], dynamic_lds };
            enqueue(function, arguments, shape, stream)
        },
    )
}

api! {
    /// Puts a kernel on a stream.
    fn hipModuleLaunchKernel(
        function: hipFunction_t,
        grid_x: c_uint,
        grid_y: c_uint,
        grid_z: c_uint,
        block_x: c_uint,
        block_y: c_uint,
        block_z: c_uint,
        shared_bytes: c_uint,
        stream: hipStream_t,
        params: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) {
        let function = module::function(function).ok_or(HipError::INVALID_HANDLE)?;
        // SAFETY: the caller's arrays.
        let arguments = unsafe { arguments(&function, params, extra) }?;
        let shape = Shape {
            grid: [grid_x, grid_y, grid_z],
            block: [block_x, block_y, block_z],
            dynamic_lds: shared_bytes as usize,
        };
        enqueue(function, arguments, shape, stream)
    }
}
