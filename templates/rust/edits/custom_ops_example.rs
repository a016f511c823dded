#[cfg(feature = "rocm")]
fn rocm_fwd(
    &self,
    storage: &candle::RocmStorage,
    layout: &Layout,
) -> Result<(candle::RocmStorage, Shape)> {
    use candle::backend::BackendStorage;
    use candle::rocm::driver::{LaunchConfig, PushKernelArg};
    use candle::rocm::WrapErr;
    const SOURCE: &str = include_str!("kernels/layernorm_kernels.hip");

    let (rows, columns) = layout.shape().dims2()?;
    let Some((start, end)) = layout.contiguous_offsets() else {
        candle::bail!("input has to be contiguous")
    };
    let device = storage.device();
    let input = storage.as_rocm_slice::<f32>()?.slice(start..end);
    // SAFETY: the kernel writes all elements.
    let output = unsafe { device.alloc::<f32>(end - start)? };
    if start < end {
        // Compiled once: later calls find it loaded.
        let kernel = device.get_or_load_custom_func("rms_f32", "layernorm_kernels.hip", SOURCE)?;
        let config = LaunchConfig {
            grid_dim: (rows as u32, 1, 1),
            block_dim: (256, 1, 1),
            shared_mem_bytes: 0,
        };
        let columns = columns as u32;
        let mut builder = kernel.builder();
        builder.arg(&output).arg(&input).arg(&self.eps).arg(&columns);
        // SAFETY: these are the kernel's parameters, and both blocks have `rows * columns` floats.
        unsafe { builder.launch(config) }.w()?;
    }
    let output = candle::RocmStorage::wrap_rocm_slice(output, device.clone());
    Ok((output, layout.shape().clone()))
}
