//! What a kernel says about itself, and how many of its blocks a multiprocessor holds.

use std::ffi::{c_int, c_uint, c_void};

use api::amdhip64::*;
use candle_rocm_emulator_runtime::error::{HipError, HipResult};
use candle_rocm_emulator_runtime::machine::current_device;
use candle_rocm_emulator_runtime::model::{LDS_BYTES, MAX_THREADS, Model};
use candle_rocm_emulator_runtime::module::Function;
use candle_rocm_emulator_runtime::settings::settings;

use crate::call::{api, must_be_of, store};
use crate::module;

fn function(handle: hipFunction_t) -> HipResult<Function> {
    module::function(handle).ok_or(HipError::INVALID_DEVICE_FUNCTION)
}

fn most_threads(function: &Function) -> u32 {
    function.kernel().max_threads.unwrap_or(MAX_THREADS)
}

/// What bounds the blocks of a kernel on a multiprocessor. Registers do not: the emulator knows of none.
struct Occupancy {
    function: Function,
    model: &'static Model,
    dynamic_lds: usize,
}

impl Occupancy {
    fn new(handle: hipFunction_t, dynamic_lds: usize) -> HipResult<Self> {
        Ok(Self { function: function(handle)?, model: settings().devices[current_device()].model, dynamic_lds })
    }

    /// Blocks of so many threads that a multiprocessor holds.
    fn blocks(&self, threads: u32) -> u32 {
        if threads > most_threads(&self.function) {
            return 0;
        }
        let by_threads = self.model.threads_per_multiprocessor as u32 / threads.next_multiple_of(self.model.wave_size);
        match self.function.kernel().static_lds_bytes() + self.dynamic_lds {
            0 => by_threads,
            lds => by_threads.min((LDS_BYTES / lds) as u32),
        }
    }

    /// The number of threads with which a multiprocessor holds most of them, at most `limit` if that is not zero.
    fn best_threads(&self, limit: u32) -> u32 {
        let most = most_threads(&self.function).min(if limit == 0 { MAX_THREADS } else { limit });
        let sizes = (1..=most / self.model.wave_size).map(|waves| waves * self.model.wave_size);
        sizes.max_by_key(|&threads| (self.blocks(threads) * threads, threads)).unwrap_or(most)
    }
}

fn active_blocks(handle: hipFunction_t, threads: c_int, dynamic_lds: usize) -> HipResult<c_int> {
    let Some(threads @ 1..) = u32::try_from(threads).ok() else { return Err(HipError::INVALID_VALUE) };
    Ok(Occupancy::new(handle, dynamic_lds)?.blocks(threads) as c_int)
}

/// Blocks that fill the device, and their threads.
fn potential(handle: hipFunction_t, dynamic_lds: usize, limit: c_int) -> HipResult<(c_int, c_int)> {
    let limit = u32::try_from(limit).map_err(|_| HipError::INVALID_VALUE)?;
    let occupancy = Occupancy::new(handle, dynamic_lds)?;
    let threads = occupancy.best_threads(limit);
    let blocks = occupancy.blocks(threads) as c_int * occupancy.model.multiprocessors;
    Ok((blocks, threads as c_int))
}

api! {
    /// An attribute of a kernel. Registers and scratch memory are none.
    fn hipFuncGetAttribute(value: *mut c_int, attribute: hipFunction_attribute, handle: hipFunction_t) {
        let function = function(handle)?;
        let lds = function.kernel().static_lds_bytes();
        let (major, minor) = settings().devices[current_device()].model.version;
        let known = match attribute {
            HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK => most_threads(&function) as c_int,
            HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES => lds as c_int,
            HIP_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES => (LDS_BYTES - lds) as c_int,
            HIP_FUNC_ATTRIBUTE_PTX_VERSION | HIP_FUNC_ATTRIBUTE_BINARY_VERSION => major * 10 + minor,
            HIP_FUNC_ATTRIBUTE_CONST_SIZE_BYTES
            | HIP_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES
            | HIP_FUNC_ATTRIBUTE_NUM_REGS
            | HIP_FUNC_ATTRIBUTE_CACHE_MODE_CA
            | HIP_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT => 0,
            _ => return Err(HipError::INVALID_VALUE),
        };
        // SAFETY: the caller's pointer.
        unsafe { store(value, known) }
    }

    /// Attributes of a kernel that is known by its address in the program: the emulator knows none so.
    fn hipFuncGetAttributes(_attributes: *mut hipFuncAttributes, _function: *const c_void) {
        Err(HipError::INVALID_DEVICE_FUNCTION)
    }

    /// Sets an attribute, of which none changes anything.
    fn hipFuncSetAttribute(function: *const c_void, attribute: hipFuncAttribute, value: c_int) {
        if function.is_null() {
            return Err(HipError::INVALID_DEVICE_FUNCTION);
        }
        let most = match attribute {
            hipFuncAttributeMaxDynamicSharedMemorySize => LDS_BYTES as c_int,
            hipFuncAttributePreferredSharedMemoryCarveout => 100,
            _ => return Err(HipError::INVALID_VALUE),
        };
        if value <= most { Ok(()) } else { Err(HipError::INVALID_VALUE) }
    }

    /// A launch of a kernel that is known by its address in the program: the emulator knows none so, but
    /// `hipLaunchKernelGGL` of its own headers.
    fn hipLaunchKernel(
        _function: *const c_void,
        _grid: dim3,
        _block: dim3,
        _arguments: *mut *mut c_void,
        _dynamic_lds: usize,
        _stream: hipStream_t,
    ) {
        Err(HipError::INVALID_DEVICE_FUNCTION)
    }

    /// Blocks that a multiprocessor holds.
    fn hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(
        blocks: *mut c_int,
        function: hipFunction_t,
        threads: c_int,
        dynamic_lds: usize,
    ) {
        // SAFETY: the caller's pointer.
        unsafe { store(blocks, active_blocks(function, threads, dynamic_lds)?) }
    }

    /// Blocks that a multiprocessor holds.
    fn hipModuleOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        blocks: *mut c_int,
        function: hipFunction_t,
        threads: c_int,
        dynamic_lds: usize,
        flags: c_uint,
    ) {
        must_be_of(&[hipOccupancyDisableCachingOverride], flags)?;
        // SAFETY: the caller's pointer.
        unsafe { store(blocks, active_blocks(function, threads, dynamic_lds)?) }
    }

    /// The threads of a block with which a multiprocessor is fullest, and how many blocks fill the device.
    fn hipModuleOccupancyMaxPotentialBlockSize(
        blocks: *mut c_int,
        threads: *mut c_int,
        function: hipFunction_t,
        dynamic_lds: usize,
        limit: c_int,
    ) {
        let (most_blocks, best_threads) = potential(function, dynamic_lds, limit)?;
        // SAFETY: the caller's pointers.
        unsafe {
            store(blocks, most_blocks)?;
            store(threads, best_threads)
        }
    }

    /// The threads of a block with which a multiprocessor is fullest, and how many blocks fill the device.
    fn hipModuleOccupancyMaxPotentialBlockSizeWithFlags(
        blocks: *mut c_int,
        threads: *mut c_int,
        function: hipFunction_t,
        dynamic_lds: usize,
        limit: c_int,
        flags: c_uint,
    ) {
        must_be_of(&[hipOccupancyDisableCachingOverride], flags)?;
        let (most_blocks, best_threads) = potential(function, dynamic_lds, limit)?;
        // SAFETY: the caller's pointers.
        unsafe {
            store(blocks, most_blocks)?;
            store(threads, best_threads)
        }
    }
}
