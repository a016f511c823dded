#[cfg(feature = "rocm")]
fn rocm_fwd(
    &self,
    storage: &candle::RocmStorage,
    layout: &Layout,
) -> Result<(candle::RocmStorage, Shape)> {
    use candle::rocm::{KernelArg, LaunchConfig};
    use candle::{DType, RocmStorage};
    const SOURCE: &str = include_str!("kernels/layernorm_kernels.hip");
    const F32: usize = std::mem::size_of::<f32>();

    let (rows, columns) = layout.shape().dims2()?;
    let Some((start, end)) = layout.contiguous_offsets() else {
        candle::bail!("input has to be contiguous")
    };
    if storage.dtype() != DType::F32 {
        candle::bail!("input has to be f32, not {:?}", storage.dtype())
    }
    let device = storage.device();
    let mut output = RocmStorage::new((end - start) * F32, DType::F32, device)?;
    if start < end {
        // Compiled once: later calls find it in the disk cache.
        let kernel = device
            .compile("layernorm_kernels.hip", SOURCE)?
            .function("rms_f32")?;
        let (rows, columns) = (rows as u32, columns as u32);
        let config = LaunchConfig {
            grid: [rows, 1, 1],
            block: [256, 1, 1],
            shared: 0,
        };
        let args = [
            KernelArg::write(output.hip_memory_mut(), 0),
            KernelArg::read(storage.hip_memory(), start * F32),
            KernelArg::value(&self.eps),
            KernelArg::value(&columns),
        ];
        // SAFETY: these are the kernel's parameters, and both blocks have `rows * columns` floats from there on.
        unsafe { kernel.launch(config, &args)? };
    }
    Ok((output, layout.shape().clone()))
}
