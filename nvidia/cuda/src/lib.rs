//! The functions of CUDA's libraries that HIP's are made of, opened when the first of them is called.
//!
//! Signatures and numbers are those of the CUDA driver API, NVRTC and cuBLAS of CUDA 12 and 13
//! (<https://docs.nvidia.com/cuda/>).

mod edition;
pub mod library;
mod unsupported;

pub use edition::edition;
pub use unsupported::say_unsupported;

use std::ffi::{c_char, c_int, c_longlong, c_uint, c_ulonglong, c_void};

/// What a function of the driver returns; 0 is success.
pub type DriverResult = c_uint;
/// What a function of NVRTC returns; 0 is success.
pub type CompilerResult = c_int;
/// What a function of cuBLAS returns; 0 is success.
pub type BlasResult = c_int;
/// An address on a device.
pub type Address = u64;
/// Any opaque handle.
pub type Handle = *mut c_void;

/// A copy of rows; all that the driver's `CUDA_MEMCPY2D` has.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the driver's reference says what they are")]
pub struct Copy2D {
    pub src_x: usize,
    pub src_y: usize,
    pub src_memory_type: c_uint,
    pub src_host: *const c_void,
    pub src_device: Address,
    pub src_array: Handle,
    pub src_pitch: usize,
    pub dst_x: usize,
    pub dst_y: usize,
    pub dst_memory_type: c_uint,
    pub dst_host: *mut c_void,
    pub dst_device: Address,
    pub dst_array: Handle,
    pub dst_pitch: usize,
    pub width: usize,
    pub height: usize,
}

/// `CUipcMemHandle`, of as many bytes as HIP's.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct IpcHandle(pub [c_char; 64]);

/// An address that the driver itself knows to be of the host or of a device.
pub const MEMORY_UNIFIED: c_uint = 4;

/// `CU_STREAM_CAPTURE_MODE_GLOBAL`: while a capture lasts, no thread may make calls that could disturb it.
pub const CAPTURE_GLOBAL: c_uint = 0;
/// `CU_STREAM_CAPTURE_MODE_THREAD_LOCAL`: that holds for the thread that began it.
pub const CAPTURE_THREAD_LOCAL: c_uint = 1;
/// `CU_STREAM_CAPTURE_MODE_RELAXED`: it holds for none.
pub const CAPTURE_RELAXED: c_uint = 2;

library::functions! {
    /// The CUDA driver.
    pub struct Driver in ["libcuda.so.1", "libcuda.so"] {
        init: "cuInit" (flags: c_uint) -> DriverResult;
        driver_version: "cuDriverGetVersion" (version: *mut c_int) -> DriverResult;
        device_count: "cuDeviceGetCount" (count: *mut c_int) -> DriverResult;
        device_name: "cuDeviceGetName" (name: *mut c_char, length: c_int, device: c_int) -> DriverResult;
        device_memory: "cuDeviceTotalMem_v2" (bytes: *mut usize, device: c_int) -> DriverResult;
        device_attribute: "cuDeviceGetAttribute" (value: *mut c_int, attribute: c_int, device: c_int) -> DriverResult;
        can_access_peer: "cuDeviceCanAccessPeer" (can: *mut c_int, device: c_int, peer: c_int) -> DriverResult;
        retain_context: "cuDevicePrimaryCtxRetain" (context: *mut Handle, device: c_int) -> DriverResult;
        set_context: "cuCtxSetCurrent" (context: Handle) -> DriverResult;
        synchronize: "cuCtxSynchronize" () -> DriverResult;
        enable_peer_access: "cuCtxEnablePeerAccess" (context: Handle, flags: c_uint) -> DriverResult;
        allocate: "cuMemAlloc_v2" (address: *mut Address, bytes: usize) -> DriverResult;
        free: "cuMemFree_v2" (address: Address) -> DriverResult;
        ipc_handle: "cuIpcGetMemHandle" (handle: *mut IpcHandle, address: Address) -> DriverResult;
        ipc_open: "cuIpcOpenMemHandle_v2" (address: *mut Address, handle: IpcHandle, flags: c_uint) -> DriverResult;
        ipc_close: "cuIpcCloseMemHandle" (address: Address) -> DriverResult;
        memory_info: "cuMemGetInfo_v2" (free: *mut usize, total: *mut usize) -> DriverResult;
        allocate_host: "cuMemHostAlloc" (pointer: *mut *mut c_void, bytes: usize, flags: c_uint) -> DriverResult;
        free_host: "cuMemFreeHost" (pointer: *mut c_void) -> DriverResult;
        copy: "cuMemcpy" (to: Address, from: Address, bytes: usize) -> DriverResult;
        copy_async: "cuMemcpyAsync" (to: Address, from: Address, bytes: usize, stream: Handle) -> DriverResult;
        copy_2d_async: "cuMemcpy2DAsync_v2" (copy: *const Copy2D, stream: Handle) -> DriverResult;
        copy_peer_async: "cuMemcpyPeerAsync" (
            to: Address, to_context: Handle, from: Address, from_context: Handle, bytes: usize, stream: Handle
        ) -> DriverResult;
        fill: "cuMemsetD8_v2" (to: Address, byte: u8, bytes: usize) -> DriverResult;
        fill_async: "cuMemsetD8Async" (to: Address, byte: u8, bytes: usize, stream: Handle) -> DriverResult;
        stream_create: "cuStreamCreate" (stream: *mut Handle, flags: c_uint) -> DriverResult;
        stream_destroy: "cuStreamDestroy_v2" (stream: Handle) -> DriverResult;
        stream_query: "cuStreamQuery" (stream: Handle) -> DriverResult;
        stream_synchronize: "cuStreamSynchronize" (stream: Handle) -> DriverResult;
        stream_wait_event: "cuStreamWaitEvent" (stream: Handle, event: Handle, flags: c_uint) -> DriverResult;
        capture_begin: "cuStreamBeginCapture_v2" (stream: Handle, mode: c_uint) -> DriverResult;
        capture_end: "cuStreamEndCapture" (stream: Handle, graph: *mut Handle) -> DriverResult;
        graph_instantiate: "cuGraphInstantiateWithFlags" (
            exec: *mut Handle, graph: Handle, flags: c_ulonglong
        ) -> DriverResult;
        graph_launch: "cuGraphLaunch" (exec: Handle, stream: Handle) -> DriverResult;
        graph_exec_destroy: "cuGraphExecDestroy" (exec: Handle) -> DriverResult;
        graph_destroy: "cuGraphDestroy" (graph: Handle) -> DriverResult;
        event_create: "cuEventCreate" (event: *mut Handle, flags: c_uint) -> DriverResult;
        event_destroy: "cuEventDestroy_v2" (event: Handle) -> DriverResult;
        event_record: "cuEventRecord" (event: Handle, stream: Handle) -> DriverResult;
        event_query: "cuEventQuery" (event: Handle) -> DriverResult;
        event_synchronize: "cuEventSynchronize" (event: Handle) -> DriverResult;
        event_elapsed: "cuEventElapsedTime" (milliseconds: *mut f32, start: Handle, stop: Handle) -> DriverResult;
        module_load: "cuModuleLoadData" (module: *mut Handle, image: *const c_void) -> DriverResult;
        module_load_file: "cuModuleLoad" (module: *mut Handle, name: *const c_char) -> DriverResult;
        module_unload: "cuModuleUnload" (module: Handle) -> DriverResult;
        module_function: "cuModuleGetFunction" (
            function: *mut Handle, module: Handle, name: *const c_char
        ) -> DriverResult;
        function_attribute: "cuFuncGetAttribute" (
            value: *mut c_int, attribute: c_int, function: Handle
        ) -> DriverResult;
        set_function_attribute: "cuFuncSetAttribute" (function: Handle, attribute: c_int, value: c_int) -> DriverResult;
        launch: "cuLaunchKernel" (
            function: Handle, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint,
            block_x: c_uint, block_y: c_uint, block_z: c_uint,
            shared_bytes: c_uint, stream: Handle, arguments: *mut *mut c_void, extra: *mut *mut c_void
        ) -> DriverResult;
    }
}

library::functions! {
    /// NVRTC, which compiles sources when a program runs.
    pub struct Compiler in ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"] {
        version: "nvrtcVersion" (major: *mut c_int, minor: *mut c_int) -> CompilerResult;
        create: "nvrtcCreateProgram" (
            program: *mut Handle, source: *const c_char, name: *const c_char, header_count: c_int,
            headers: *const *const c_char, include_names: *const *const c_char
        ) -> CompilerResult;
        destroy: "nvrtcDestroyProgram" (program: *mut Handle) -> CompilerResult;
        compile: "nvrtcCompileProgram" (
            program: Handle, option_count: c_int, options: *const *const c_char
        ) -> CompilerResult;
        add_name_expression: "nvrtcAddNameExpression" (program: Handle, expression: *const c_char) -> CompilerResult;
        lowered_name: "nvrtcGetLoweredName" (
            program: Handle, expression: *const c_char, name: *mut *const c_char
        ) -> CompilerResult;
        code_size: "nvrtcGetCUBINSize" (program: Handle, size: *mut usize) -> CompilerResult;
        code: "nvrtcGetCUBIN" (program: Handle, to: *mut c_char) -> CompilerResult;
        log_size: "nvrtcGetProgramLogSize" (program: Handle, size: *mut usize) -> CompilerResult;
        log: "nvrtcGetProgramLog" (program: Handle, to: *mut c_char) -> CompilerResult;
    }
}

library::functions! {
    /// cuBLAS.
    pub struct Blas in ["libcublas.so.13", "libcublas.so.12", "libcublas.so"] {
        create: "cublasCreate_v2" (handle: *mut Handle) -> BlasResult;
        destroy: "cublasDestroy_v2" (handle: Handle) -> BlasResult;
        set_stream: "cublasSetStream_v2" (handle: Handle, stream: Handle) -> BlasResult;
        set_math_mode: "cublasSetMathMode" (handle: Handle, mode: c_int) -> BlasResult;
        set_workspace: "cublasSetWorkspace_v2" (handle: Handle, workspace: *mut c_void, size: usize) -> BlasResult;
        gemm_strided_batched: "cublasGemmStridedBatchedEx" (
            handle: Handle, trans_a: c_int, trans_b: c_int, m: c_int, n: c_int, k: c_int, alpha: *const c_void,
            a: *const c_void, a_type: c_int, lda: c_int, stride_a: c_longlong,
            b: *const c_void, b_type: c_int, ldb: c_int, stride_b: c_longlong, beta: *const c_void,
            c: *mut c_void, c_type: c_int, ldc: c_int, stride_c: c_longlong,
            batch_count: c_int, compute_type: c_int, algorithm: c_int
        ) -> BlasResult;
    }
}
