//! A kernel that was compiled when the program was built: found by name, launched with a builder.
use candle_core::backend::BackendStorage;
use candle_core::builder_arg;
use candle_core::cuda_backend::cudarc::driver::{LaunchConfig, PushKernelArg};
use candle_core::cuda_backend::WrapErr;
use candle_core::{CpuStorage, CudaStorage, CustomOp1, Layout, Result, Shape};

const PTX: &str = include_str!("kernels/scale.ptx");

/// `x * scale + bias` of a contiguous f32 tensor.
pub struct Scale {
    pub scale: f32,
    pub bias: f32,
}

impl CustomOp1 for Scale {
    fn name(&self) -> &'static str {
        "scale"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let Some((start, end)) = layout.contiguous_offsets() else {
            candle_core::bail!("scale: the input has to be contiguous")
        };
        let x = &storage.as_slice::<f32>()?[start..end];
        let y = x.iter().map(|x| x * self.scale + self.bias).collect();
        Ok((CpuStorage::F32(y), layout.shape().clone()))
    }

    fn cuda_fwd(&self, storage: &CudaStorage, layout: &Layout) -> Result<(CudaStorage, Shape)> {
        let dev = storage.device().clone();
        let src = storage.as_cuda_slice::<f32>()?;
        let src = match layout.contiguous_offsets() {
            Some((start, end)) => src.slice(start..end),
            None => candle_core::bail!("scale: the input has to be contiguous"),
        };
        let elements = layout.shape().elem_count();
        // SAFETY: the kernel writes all elements.
        let dst = unsafe { dev.alloc::<f32>(elements) }?;
        let func = dev.get_or_load_custom_func("scale_f32", "scale", PTX)?;
        let mut builder = func.builder();
        builder.arg(&src);
        builder.arg(&dst);
        builder_arg!(builder, self.scale, self.bias, elements as u32);
        // SAFETY: the kernel's parameters, and `elements` numbers in both blocks.
        unsafe { builder.launch(LaunchConfig::for_num_elems(elements as u32)) }.w()?;
        let dst = CudaStorage::wrap_cuda_slice(dst, dev);
        Ok((dst, layout.shape().clone()))
    }
}
