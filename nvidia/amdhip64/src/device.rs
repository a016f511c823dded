//! Devices: how many, which one, and what they are.

use std::ffi::{c_char, c_int, c_uint};

use api::amdhip64::*;
use record::Done;

use crate::call::{Status, api, check, store};
use crate::context::{attribute, choose, chosen, count, driver, enter, of};

/// Numbers of the driver's attributes (`CUdevice_attribute`).
mod number {
    use std::ffi::c_int;

    pub const MAX_THREADS_PER_BLOCK: c_int = 1;
    pub const MAX_BLOCK_DIM_X: c_int = 2;
    pub const MAX_GRID_DIM_X: c_int = 5;
    pub const SHARED_PER_BLOCK: c_int = 8;
    pub const WARP_SIZE: c_int = 10;
    pub const CLOCK_RATE: c_int = 13;
    pub const MULTIPROCESSORS: c_int = 16;
    pub const MEMORY_CLOCK_RATE: c_int = 36;
    pub const MEMORY_BUS_WIDTH: c_int = 37;
    pub const L2_CACHE_SIZE: c_int = 38;
    pub const THREADS_PER_MULTIPROCESSOR: c_int = 39;
    pub const MAJOR: c_int = 75;
    pub const MINOR: c_int = 76;
    pub const SHARED_PER_MULTIPROCESSOR: c_int = 81;
    pub const SHARED_PER_BLOCK_OPTIN: c_int = 97;
}
pub use number::{SHARED_PER_BLOCK, SHARED_PER_BLOCK_OPTIN};

/// The driver's number of an attribute of HIP.
fn of_hip(attribute: hipDeviceAttribute_t) -> Option<c_int> {
    Some(match attribute {
        hipDeviceAttributeMaxThreadsPerBlock => number::MAX_THREADS_PER_BLOCK,
        hipDeviceAttributeMaxBlockDimX => number::MAX_BLOCK_DIM_X,
        hipDeviceAttributeMaxGridDimX => number::MAX_GRID_DIM_X,
        hipDeviceAttributeMaxSharedMemoryPerBlock => number::SHARED_PER_BLOCK,
        hipDeviceAttributeSharedMemPerBlockOptin => number::SHARED_PER_BLOCK_OPTIN,
        hipDeviceAttributeWarpSize => number::WARP_SIZE,
        hipDeviceAttributeClockRate => number::CLOCK_RATE,
        hipDeviceAttributeMultiprocessorCount => number::MULTIPROCESSORS,
        hipDeviceAttributeMemoryClockRate => number::MEMORY_CLOCK_RATE,
        hipDeviceAttributeMemoryBusWidth => number::MEMORY_BUS_WIDTH,
        hipDeviceAttributeL2CacheSize => number::L2_CACHE_SIZE,
        hipDeviceAttributeMaxThreadsPerMultiProcessor => number::THREADS_PER_MULTIPROCESSOR,
        hipDeviceAttributeComputeCapabilityMajor => number::MAJOR,
        hipDeviceAttributeComputeCapabilityMinor => number::MINOR,
        _ => return None,
    })
}

/// The release of HIP whose structures these functions fill, as HIP counts.
const HIP_7_0: c_int = 70_000_000;

/// Text as a zero-terminated field.
fn fill(field: &mut [c_char], text: &str) {
    for (to, byte) in field.iter_mut().zip(text.bytes().chain([0])) {
        *to = byte as c_char;
    }
}

/// What HIP says of a device.
pub fn describe(properties: &mut hipDeviceProp_tR0600, device: c_int) -> Status {
    let driver = driver()?;
    let own = |number| attribute(device, number);
    // SAFETY: a valid pointer and its length.
    check(unsafe { driver.device_name(properties.name.as_mut_ptr(), properties.name.len() as c_int, device) })?;
    // SAFETY: a valid pointer.
    check(unsafe { driver.device_memory(&raw mut properties.totalGlobalMem, device) })?;
    (properties.major, properties.minor) = (own(number::MAJOR)?, own(number::MINOR)?);
    let name = format!("sm_{}{}", properties.major, properties.minor);
    fill(&mut properties.gcnArchName, &name);
    properties.sharedMemPerBlock = own(SHARED_PER_BLOCK_OPTIN)? as usize;
    properties.sharedMemPerMultiprocessor = own(number::SHARED_PER_MULTIPROCESSOR)? as usize;
    properties.warpSize = own(number::WARP_SIZE)?;
    properties.maxThreadsPerBlock = own(number::MAX_THREADS_PER_BLOCK)?;
    properties.maxThreadsPerMultiProcessor = own(number::THREADS_PER_MULTIPROCESSOR)?;
    for axis in 0..3 {
        properties.maxThreadsDim[axis as usize] = own(number::MAX_BLOCK_DIM_X + axis)?;
        properties.maxGridSize[axis as usize] = own(number::MAX_GRID_DIM_X + axis)?;
    }
    properties.multiProcessorCount = own(number::MULTIPROCESSORS)?;
    properties.l2CacheSize = own(number::L2_CACHE_SIZE)?;
    Ok(())
}

api! {
    /// How many devices there are.
    fn hipGetDeviceCount(count_: *mut c_int) {
        let number = count()?;
        // SAFETY: the caller's pointer.
        unsafe { store(count_, number) }?;
        if number == 0 { Err(hipErrorNoDevice) } else { Ok(()) }
    }

    /// Makes a device the thread's.
    fn hipSetDevice(device_id: c_int) {
        choose(device_id)
    }

    /// The thread's device.
    fn hipGetDevice(device_id: *mut c_int) {
        count()?;
        // SAFETY: the caller's pointer.
        unsafe { store(device_id, chosen()) }
    }

    /// Waits for all work on the thread's device.
    fn hipDeviceSynchronize() {
        // SAFETY: the thread has a context.
        check(unsafe { enter()?.synchronize() })?;
        record::count(Done::Synchronisation);
        Ok(())
    }

    /// What the device is; `gcnArchName` is what NVRTC takes, such as sm_90.
    fn hipGetDevicePropertiesR0600(properties: *mut hipDeviceProp_tR0600, device_id: c_int) {
        if !(0..count()?).contains(&device_id) {
            return Err(hipErrorInvalidDevice);
        }
        // SAFETY: all fields are numbers, arrays of them or pointers, for which zeros are valid.
        let mut described = unsafe { std::mem::zeroed() };
        describe(&mut described, device_id)?;
        // SAFETY: the caller's pointer.
        unsafe { store(properties, described) }
    }

    /// One attribute; `hipErrorNotSupported` for those that nobody here asks for.
    fn hipDeviceGetAttribute(value: *mut c_int, attribute_: hipDeviceAttribute_t, device_id: c_int) {
        let found = attribute(device_id, of_hip(attribute_).ok_or(hipErrorNotSupported)?)?;
        // SAFETY: the caller's pointer.
        unsafe { store(value, found) }
    }

    /// Whether a device can read the memory of another.
    fn hipDeviceCanAccessPeer(can: *mut c_int, device_id: c_int, peer_device_id: c_int) {
        // SAFETY: the caller's pointer.
        check(unsafe { driver()?.can_access_peer(can, device_id, peer_device_id) })
    }

    /// Lets the thread's device read the memory of another.
    fn hipDeviceEnablePeerAccess(peer_device_id: c_int, flags: c_uint) {
        let peer = of(peer_device_id)?;
        // SAFETY: a context of ours.
        check(unsafe { enter()?.enable_peer_access(peer, flags) })
    }

    /// HIP's, of which these functions are, with the driver's in place of the patch: 7.0.13000 with a driver for CUDA 13.0.
    fn hipRuntimeGetVersion(version: *mut c_int) {
        let mut of_driver = 0;
        // SAFETY: the number lives through the call.
        check(unsafe { driver()?.driver_version(&mut of_driver) })?;
        // SAFETY: the caller's pointer.
        unsafe { store(version, HIP_7_0 + of_driver) }
    }
}
