//! Fills with elements of one, two and four bytes.

use std::ffi::{c_int, c_uchar, c_ushort};

use api::amdhip64::{hipDeviceptr_t, hipStream_t};
use candle_rocm_emulator_runtime::machine::current_device;
use candle_rocm_emulator_runtime::queue::StreamId;

use crate::call::api;
use crate::memory::fill;
use crate::stream;

api! {
    /// Fills with bytes.
    fn hipMemsetD8(to: hipDeviceptr_t, value: c_uchar, count: usize) {
        fill("hipMemsetD8", to as usize, &value.to_ne_bytes(), count, StreamId::Null(current_device()))
    }

    /// Fills with elements of 16 bits.
    fn hipMemsetD16(to: hipDeviceptr_t, value: c_ushort, count: usize) {
        fill("hipMemsetD16", to as usize, &value.to_ne_bytes(), count, StreamId::Null(current_device()))
    }

    /// Fills with elements of 32 bits.
    fn hipMemsetD32(to: hipDeviceptr_t, value: c_int, count: usize) {
        fill("hipMemsetD32", to as usize, &value.to_ne_bytes(), count, StreamId::Null(current_device()))
    }

    /// Fills with bytes on a stream.
    fn hipMemsetD8Async(to: hipDeviceptr_t, value: c_uchar, count: usize, stream: hipStream_t) {
        fill("hipMemsetD8Async", to as usize, &value.to_ne_bytes(), count, stream::resolve(stream)?)
    }

    /// Fills with elements of 16 bits on a stream.
    fn hipMemsetD16Async(to: hipDeviceptr_t, value: c_ushort, count: usize, stream: hipStream_t) {
        fill("hipMemsetD16Async", to as usize, &value.to_ne_bytes(), count, stream::resolve(stream)?)
    }

    /// Fills with elements of 32 bits on a stream.
    fn hipMemsetD32Async(to: hipDeviceptr_t, value: c_int, count: usize, stream: hipStream_t) {
        fill("hipMemsetD32Async", to as usize, &value.to_ne_bytes(), count, stream::resolve(stream)?)
    }
}
