//! A cache of keys that is written in place through shared references, slot by slot.
use candle_core::rocm::driver::{DevicePtr, LaunchConfig, PushKernelArg};
use candle_core::rocm::WrapErr;
use candle_core::{Device, Result, Storage, Tensor};

const HIP: &str = include_str!("kernels/cache.hip");

/// Copies row `i` of `keys`, contiguous and f32, to row `slots[i]` of `cache`; a negative slot is left out.
pub fn write_slots(keys: &Tensor, cache: &Tensor, slots: &[i64]) -> Result<()> {
    let (rows, width) = keys.dims2()?;
    let Device::Rocm(dev) = keys.device() else {
        candle_core::bail!("the cache is on a device")
    };
    let (keys, keys_l) = keys.storage_and_layout();
    let (cache, cache_l) = cache.storage_and_layout();
    let (Storage::Rocm(keys), Storage::Rocm(cache)) = (&*keys, &*cache) else {
        candle_core::bail!("the cache is on a device")
    };
    let keys = keys.as_rocm_slice::<f32>()?.slice(keys_l.start_offset()..);
    let cache = cache
        .as_rocm_slice::<f32>()?
        .slice(cache_l.start_offset()..);
    let slots = dev.clone_htod(slots)?;
    let stream = dev.rocm_stream();
    let (cache_ptr, _guard) = cache.device_ptr(&stream);
    let func = dev.get_or_load_custom_func("write_slots", "cache", HIP)?;
    let cfg = LaunchConfig {
        grid_dim: (rows as u32, 1, 1),
        block_dim: (width.min(512) as u32, 1, 1),
        shared_mem_bytes: 0,
    };
    let width = width as u32;
    let mut builder = func.builder();
    builder.arg(&keys).arg(&cache_ptr).arg(&slots).arg(&width);
    // SAFETY: the kernel's parameters; slots are rows of the cache.
    unsafe { builder.launch(cfg) }.w()?;
    Ok(())
}
