//! What libamdhip64 and a kernel module agree on. The same structs in C++: emulator/include/hip/emulator/abi.h.

use std::ffi::{c_char, c_int, c_uint, c_void};

/// Changes with every change to these structs, or to what their functions expect.
pub const VERSION: u32 = 4;

/// Operations among the lanes of a wave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
#[allow(missing_docs)]
pub enum CrossLane {
    Shuffle,
    ShuffleUp,
    ShuffleDown,
    ShuffleXor,
    Ballot,
    Any,
    All,
    Synchronize,
}

/// What `__syncthreads` and its variants return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
#[allow(missing_docs)]
pub enum Barrier {
    Plain,
    Count,
    Conjunction,
    Disjunction,
}

/// Checks an access of a fixed size: address, return address in the kernel.
pub type Access = unsafe extern "C" fn(*const c_void, *const c_void);
/// Checks an access of any size: address, bytes, return address in the kernel.
pub type RangeAccess = unsafe extern "C" fn(*const c_void, usize, *const c_void);

/// The functions that a kernel calls.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[allow(missing_docs)]
pub struct Runtime {
    /// Of 1, 2, 4, 8, 16 bytes at a multiple of these or of 8.
    pub read: [Access; 5],
    /// Of 1, 2, 4, 8, 16 bytes at a multiple of these or of 8.
    pub write: [Access; 5],
    pub read_range: RangeAccess,
    pub write_range: RangeAccess,
    /// Address, bytes, source line.
    pub atomic: unsafe extern "C" fn(*const c_void, usize, c_uint),
    /// Kind, predicate, source line.
    pub barrier: unsafe extern "C" fn(Barrier, c_int, c_uint) -> c_int,
    /// Operation, value, operand, width, mask, source line.
    pub cross_lane: unsafe extern "C" fn(CrossLane, u64, c_int, c_int, u64, c_uint) -> u64,
}

/// Where the running thread is.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[allow(missing_docs)]
pub struct Place {
    pub thread_index: [u32; 3],
    pub block_index: [u32; 3],
    pub block_dim: [u32; 3],
    pub grid_dim: [u32; 3],
    pub wave_size: c_int,
    pub lane: c_uint,
    pub dynamic_lds: *mut c_void,
}

/// Size and alignment of a kernel's parameter.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[allow(missing_docs)]
pub struct Parameter {
    pub size: u32,
    pub alignment: u32,
}

/// Calls a kernel with arguments that lie behind an array of pointers.
pub type Invoke = unsafe extern "C" fn(*const *mut c_void);

/// A kernel as its module describes it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[allow(missing_docs)]
pub struct Kernel {
    pub name: *const c_char,
    pub invoke: Invoke,
    pub parameters: *const Parameter,
    pub parameter_count: u32,
    /// Of `__launch_bounds__`, 0 without.
    pub max_threads: u32,
}

/// What a module exports as `candle_rocm_emulator_module`.
#[derive(Debug)]
#[repr(C)]
#[allow(missing_docs)]
pub struct Module {
    pub abi: u32,
    pub kernel_count: u32,
    pub kernels: *const Kernel,
    pub runtime: *mut Runtime,
    pub place: *mut Place,
    /// The compiler's target, empty for any.
    pub architecture: *const c_char,
}

const _: () = assert!(size_of::<Runtime>() == 120 && size_of::<Place>() == 64, "as emulator/include says");
