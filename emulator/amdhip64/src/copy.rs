//! Copies whose direction is part of the name.

use std::ffi::c_void;

use api::amdhip64::{
    hipDeviceptr_t, hipMemcpyDeviceToDevice, hipMemcpyDeviceToHost, hipMemcpyHostToDevice, hipMemcpyKind, hipStream_t,
};
use candle_rocm_emulator_runtime::error::HipResult;
use candle_rocm_emulator_runtime::machine::{self, current_device};
use candle_rocm_emulator_runtime::queue::StreamId;

use crate::call::api;
use crate::memory::{Copy, is_host};
use crate::stream;

/// Copies on the null stream, and waits if the host takes part.
fn copy_now(copy: Copy, kind: hipMemcpyKind) -> HipResult {
    copy_and_wait(copy, kind, StreamId::Null(current_device()))
}

fn copy_and_wait(copy: Copy, kind: hipMemcpyKind, stream: StreamId) -> HipResult {
    copy.validate(kind)?;
    let waits = is_host(copy.to) || is_host(copy.from);
    copy.enqueue(stream)?;
    if waits { machine::synchronize_stream(stream) } else { Ok(()) }
}

fn copy_on(copy: Copy, kind: hipMemcpyKind, stream: hipStream_t) -> HipResult {
    copy.validate(kind)?;
    copy.enqueue(stream::resolve(stream)?)
}

api! {
    /// Copies to the device.
    fn hipMemcpyHtoD(to: hipDeviceptr_t, from: *const c_void, size: usize) {
        let copy = Copy { function: "hipMemcpyHtoD", to: to as usize, from: from as usize, size };
        copy_now(copy, hipMemcpyHostToDevice)
    }

    /// Copies to the host.
    fn hipMemcpyDtoH(to: *mut c_void, from: hipDeviceptr_t, size: usize) {
        let copy = Copy { function: "hipMemcpyDtoH", to: to as usize, from: from as usize, size };
        copy_now(copy, hipMemcpyDeviceToHost)
    }

    /// Copies on devices.
    fn hipMemcpyDtoD(to: hipDeviceptr_t, from: hipDeviceptr_t, size: usize) {
        let copy = Copy { function: "hipMemcpyDtoD", to: to as usize, from: from as usize, size };
        copy_now(copy, hipMemcpyDeviceToDevice)
    }

    /// Copies to the device on a stream.
    fn hipMemcpyHtoDAsync(to: hipDeviceptr_t, from: *const c_void, size: usize, stream: hipStream_t) {
        let copy = Copy { function: "hipMemcpyHtoDAsync", to: to as usize, from: from as usize, size };
        copy_on(copy, hipMemcpyHostToDevice, stream)
    }

    /// Copies to the host on a stream.
    fn hipMemcpyDtoHAsync(to: *mut c_void, from: hipDeviceptr_t, size: usize, stream: hipStream_t) {
        let copy = Copy { function: "hipMemcpyDtoHAsync", to: to as usize, from: from as usize, size };
        copy_on(copy, hipMemcpyDeviceToHost, stream)
    }

    /// Copies on devices, on a stream.
    fn hipMemcpyDtoDAsync(to: hipDeviceptr_t, from: hipDeviceptr_t, size: usize, stream: hipStream_t) {
        let copy = Copy { function: "hipMemcpyDtoDAsync", to: to as usize, from: from as usize, size };
        copy_on(copy, hipMemcpyDeviceToDevice, stream)
    }

    /// Copies in order with a stream, and waits if the host takes part.
    fn hipMemcpyWithStream(
        to: *mut c_void,
        from: *const c_void,
        size: usize,
        kind: hipMemcpyKind,
        stream: hipStream_t,
    ) {
        let copy = Copy { function: "hipMemcpyWithStream", to: to as usize, from: from as usize, size };
        copy_and_wait(copy, kind, stream::resolve(stream)?)
    }
}
