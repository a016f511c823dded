//! Devices that use each other's memory.

use std::ffi::{c_int, c_uint, c_void};

use api::amdhip64::*;
use candle_rocm_emulator_runtime::error::{HipError, HipResult};
use candle_rocm_emulator_runtime::machine::{self, current_device};
use candle_rocm_emulator_runtime::memory::Place;
use candle_rocm_emulator_runtime::queue::StreamId;

use crate::call::{api, store};
use crate::device;
use crate::memory::Copy;
use crate::stream;

/// A copy between the memories of two devices.
///
/// # Errors
/// `hipErrorInvalidDevice` for a device that there is none of, `hipErrorInvalidValue` for memory that is not on its
/// device.
fn peer_copy(copy: Copy, to_device: c_int, from_device: c_int, stream: StreamId) -> HipResult {
    for (address, device) in [(copy.to, to_device), (copy.from, from_device)] {
        let place = machine::lock().memory.find(address).map(|allocation| allocation.place);
        if place != Some(Place::Device(device::index(device)?)) {
            return Err(HipError::INVALID_VALUE);
        }
    }
    copy.validate(hipMemcpyDeviceToDevice)?;
    copy.enqueue(stream)
}

api! {
    /// Whether a device can be given access to another one's memory: to every other one's.
    fn hipDeviceCanAccessPeer(can: *mut c_int, device: c_int, peer: c_int) {
        let different = device::index(device)? != device::index(peer)?;
        // SAFETY: the caller's pointer.
        unsafe { store(can, different.into()) }
    }

    /// Gives the current device's kernels access to another device's memory.
    fn hipDeviceEnablePeerAccess(peer: c_int, flags: c_uint) {
        let peer = device::index(peer)?;
        if flags != 0 {
            return Err(HipError::INVALID_VALUE);
        }
        if peer == current_device() {
            return Err(HipError::INVALID_DEVICE);
        }
        let reachable = &mut machine::lock().peers[current_device()];
        if *reachable & 1 << peer != 0 {
            return Err(HipError::PEER_ACCESS_ALREADY_ENABLED);
        }
        *reachable |= 1 << peer;
        Ok(())
    }

    /// Takes that access back.
    fn hipDeviceDisablePeerAccess(peer: c_int) {
        let peer = device::index(peer)?;
        let reachable = &mut machine::lock().peers[current_device()];
        if peer == current_device() || *reachable & 1 << peer == 0 {
            return Err(HipError::PEER_ACCESS_NOT_ENABLED);
        }
        *reachable &= !(1 << peer);
        Ok(())
    }

    /// How well one device reaches another one's memory.
    fn hipDeviceGetP2PAttribute(value: *mut c_int, attribute: hipDeviceP2PAttr, from: c_int, to: c_int) {
        if device::index(from)? == device::index(to)? {
            return Err(HipError::INVALID_DEVICE);
        }
        let known = match attribute {
            hipDevP2PAttrAccessSupported | hipDevP2PAttrNativeAtomicSupported => 1,
            hipDevP2PAttrPerformanceRank | hipDevP2PAttrHipArrayAccessSupported => 0,
            _ => return Err(HipError::INVALID_VALUE),
        };
        // SAFETY: the caller's pointer.
        unsafe { store(value, known) }
    }

    /// Copies between devices, in order with the current device's null stream only.
    fn hipMemcpyPeer(to: *mut c_void, to_device: c_int, from: *const c_void, from_device: c_int, size: usize) {
        let copy = Copy { function: "hipMemcpyPeer", to: to as usize, from: from as usize, size };
        peer_copy(copy, to_device, from_device, StreamId::Null(current_device()))
    }

    /// Copies between devices on a stream.
    fn hipMemcpyPeerAsync(
        to: *mut c_void,
        to_device: c_int,
        from: *const c_void,
        from_device: c_int,
        size: usize,
        stream: hipStream_t,
    ) {
        let copy = Copy { function: "hipMemcpyPeerAsync", to: to as usize, from: from as usize, size };
        peer_copy(copy, to_device, from_device, stream::resolve(stream)?)
    }
}
