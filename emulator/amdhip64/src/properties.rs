//! What a device says about itself.

use std::ffi::{c_char, c_int};

use api::amdhip64::*;
use candle_rocm_emulator_runtime::error::{HipError, HipResult};
use candle_rocm_emulator_runtime::model::{Card, LDS_BYTES, MAX_GRID, MAX_THREADS};
use candle_rocm_emulator_runtime::settings::settings;

use crate::call::{api, store};
use crate::device;

/// Copies a text into a field that ends with a zero.
fn write_text<const LENGTH: usize>(field: &mut [c_char; LENGTH], text: &str) {
    for (to, from) in field[..LENGTH - 1].iter_mut().zip(text.bytes()) {
        *to = from as c_char;
    }
}

/// The properties of a device; what has no meaning for it, such as textures, is zero.
pub fn properties(index: usize) -> hipDeviceProp_tR0600 {
    let Card { model, number } = settings().devices[index];
    let (clock, memory_clock, bus_width) = model.clocks;
    // SAFETY: integers, arrays of them and pointers that may be null.
    let mut properties: hipDeviceProp_tR0600 = unsafe { std::mem::zeroed() };
    write_text(&mut properties.name, model.product);
    write_text(&mut properties.gcnArchName, model.architecture);
    properties.totalGlobalMem = settings().memory;
    properties.sharedMemPerBlock = LDS_BYTES;
    properties.sharedMemPerMultiprocessor = LDS_BYTES;
    properties.maxSharedMemoryPerMultiProcessor = LDS_BYTES;
    properties.regsPerBlock = model.registers_per_block;
    properties.regsPerMultiprocessor = model.registers_per_block;
    properties.warpSize = model.wave_size as c_int;
    properties.memPitch = i32::MAX as usize;
    properties.maxThreadsPerBlock = MAX_THREADS as c_int;
    properties.maxThreadsDim = [MAX_THREADS as c_int; 3];
    properties.maxGridSize = MAX_GRID.map(|blocks| blocks as c_int);
    properties.clockRate = clock;
    properties.clockInstructionRate = clock;
    properties.memoryClockRate = memory_clock;
    properties.memoryBusWidth = bus_width;
    properties.totalConstMem = i32::MAX as usize;
    (properties.major, properties.minor) = model.version;
    properties.multiProcessorCount = model.multiprocessors;
    properties.maxThreadsPerMultiProcessor = model.threads_per_multiprocessor;
    properties.maxBlocksPerMultiProcessor = 2;
    properties.l2CacheSize = model.l2_bytes;
    properties.pciBusID = number as c_int + 1;
    properties.concurrentKernels = 1;
    properties.canMapHostMemory = 1;
    properties.unifiedAddressing = 1;
    properties.hostRegisterSupported = 1;
    properties.memoryPoolsSupported = 1;
    properties.asyncEngineCount = 2;
    properties.isLargeBar = 1;
    // Each is a bit of its own.
    properties.arch.bits = [
        hipDeviceArch_t::hasGlobalInt32Atomics,
        hipDeviceArch_t::hasSharedInt32Atomics,
        hipDeviceArch_t::hasFloatAtomicAdd,
        hipDeviceArch_t::hasGlobalInt64Atomics,
        hipDeviceArch_t::hasSharedInt64Atomics,
        hipDeviceArch_t::hasDoubles,
    ]
    .iter()
    .sum();
    properties
}

/// The attribute of a device that is one of its properties; zero for what has no meaning for it.
fn attribute(index: usize, attribute: hipDeviceAttribute_t) -> HipResult<c_int> {
    let properties = properties(index);
    let saturated = |bytes: usize| c_int::try_from(bytes).unwrap_or(c_int::MAX);
    #[allow(non_upper_case_globals, reason = "the names are HIP's")]
    Ok(match attribute {
        hipDeviceAttributeWarpSize => properties.warpSize,
        hipDeviceAttributeMaxThreadsPerBlock => properties.maxThreadsPerBlock,
        hipDeviceAttributeMaxBlockDimX => properties.maxThreadsDim[0],
        hipDeviceAttributeMaxBlockDimY => properties.maxThreadsDim[1],
        hipDeviceAttributeMaxBlockDimZ => properties.maxThreadsDim[2],
        hipDeviceAttributeMaxGridDimX => properties.maxGridSize[0],
        hipDeviceAttributeMaxGridDimY => properties.maxGridSize[1],
        hipDeviceAttributeMaxGridDimZ => properties.maxGridSize[2],
        hipDeviceAttributeMaxSharedMemoryPerBlock => saturated(properties.sharedMemPerBlock),
        hipDeviceAttributeSharedMemPerMultiprocessor | hipDeviceAttributeMaxSharedMemoryPerMultiprocessor => {
            saturated(properties.sharedMemPerMultiprocessor)
        }
        hipDeviceAttributeMaxRegistersPerBlock => properties.regsPerBlock,
        hipDeviceAttributeMaxRegistersPerMultiprocessor => properties.regsPerMultiprocessor,
        hipDeviceAttributeMultiprocessorCount | hipDeviceAttributePhysicalMultiProcessorCount => {
            properties.multiProcessorCount
        }
        hipDeviceAttributeMaxThreadsPerMultiProcessor => properties.maxThreadsPerMultiProcessor,
        hipDeviceAttributeMaxBlocksPerMultiProcessor => properties.maxBlocksPerMultiProcessor,
        hipDeviceAttributeClockRate => properties.clockRate,
        hipDeviceAttributeClockInstructionRate => properties.clockInstructionRate,
        hipDeviceAttributeMemoryClockRate => properties.memoryClockRate,
        hipDeviceAttributeMemoryBusWidth => properties.memoryBusWidth,
        hipDeviceAttributeL2CacheSize => properties.l2CacheSize,
        hipDeviceAttributeTotalConstantMemory => saturated(properties.totalConstMem),
        hipDeviceAttributeTotalGlobalMem => saturated(properties.totalGlobalMem),
        hipDeviceAttributeMaxPitch => saturated(properties.memPitch),
        hipDeviceAttributeComputeCapabilityMajor => properties.major,
        hipDeviceAttributeComputeCapabilityMinor => properties.minor,
        hipDeviceAttributePciBusId => properties.pciBusID,
        hipDeviceAttributeConcurrentKernels => properties.concurrentKernels,
        hipDeviceAttributeCanMapHostMemory => properties.canMapHostMemory,
        hipDeviceAttributeUnifiedAddressing => properties.unifiedAddressing,
        hipDeviceAttributeHostRegisterSupported => properties.hostRegisterSupported,
        hipDeviceAttributeMemoryPoolsSupported => properties.memoryPoolsSupported,
        hipDeviceAttributeAsyncEngineCount => properties.asyncEngineCount,
        hipDeviceAttributeIsLargeBar => properties.isLargeBar,
        known if known < hipDeviceAttributeHostNumaId => 0,
        _ => return Err(HipError::INVALID_VALUE),
    })
}

api! {
    /// All properties of a device.
    fn hipGetDevicePropertiesR0600(to: *mut hipDeviceProp_tR0600, device: c_int) {
        let index = device::index(device)?;
        // SAFETY: the caller's pointer.
        unsafe { store(to, properties(index)) }
    }

    /// One property of a device as a number.
    fn hipDeviceGetAttribute(value: *mut c_int, wanted: hipDeviceAttribute_t, device: c_int) {
        let index = device::index(device)?;
        // SAFETY: the caller's pointer.
        unsafe { store(value, attribute(index, wanted)?) }
    }
}
