//! Stands in for a library in C that hipcc compiles: it gets addresses and a stream, and launches on that.
use candle_core::rocm::driver::{LaunchConfig, PushKernelArg};
use candle_core::rocm::WrapErr;
use candle_core::{Result, RocmDevice};
use std::ffi::c_void;

const HIP: &str = include_str!("kernels/norm.hip");

/// 0 if the rows were queued.
///
/// # Safety
/// `x` and `y` are `rows * columns` elements of a device, `alpha` is `columns`; `stream` is one of it.
#[allow(clippy::too_many_arguments)]
pub unsafe extern "C" fn row_norm(
    x: *const c_void,
    alpha: *const c_void,
    y: *mut c_void,
    rows: u32,
    columns: u32,
    eps: f32,
    is_bf16: i32,
    stream: *mut c_void,
) -> i32 {
    let launch = || -> Result<()> {
        // SAFETY: the caller's promise.
        let device = unsafe { RocmDevice::from_raw_stream(0, stream)? };
        let name = if is_bf16 == 1 {
            "norm_bf16"
        } else {
            "norm_f32"
        };
        let func = device.get_or_load_custom_func(name, "norm.hip", HIP)?;
        let (x, alpha, y) = (x as u64, alpha as u64, y as u64);
        let mut builder = func.builder();
        builder
            .arg(&x)
            .arg(&alpha)
            .arg(&y)
            .arg(&rows)
            .arg(&columns)
            .arg(&eps);
        // SAFETY: as above; these are the kernel's parameters.
        unsafe { builder.launch(LaunchConfig::for_num_elems(rows)) }.w()
    };
    i32::from(launch().is_err())
}
