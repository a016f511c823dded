//! A kernel that was compiled when the program was built: found by name, launched with a builder.
use candle_core::backend::BackendStorage;
use candle_core::rocm::driver::{LaunchConfig, PushKernelArg};
use candle_core::rocm::WrapErr;
use candle_core::rocm_builder_arg;
use candle_core::{CpuStorage, CustomOp1, Layout, Result, RocmStorage, Shape};

const HIP: &str = include_str!("kernels/scale.hip");

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

    fn rocm_fwd(&self, storage: &RocmStorage, layout: &Layout) -> Result<(RocmStorage, Shape)> {
        let dev = storage.device().clone();
        let src = storage.as_rocm_slice::<f32>()?;
        let src = match layout.contiguous_offsets() {
            Some((start, end)) => src.slice(start..end),
            None => candle_core::bail!("scale: the input has to be contiguous"),
        };
        let elements = layout.shape().elem_count();
        // SAFETY: the kernel writes all elements.
        let dst = unsafe { dev.alloc::<f32>(elements) }?;
        let func = dev.get_or_load_custom_func("scale_f32", "scale", HIP)?;
        let mut builder = func.builder();
        builder.arg(&src);
        builder.arg(&dst);
        rocm_builder_arg!(builder, self.scale, self.bias, elements as u32);
        // SAFETY: the kernel's parameters, and `elements` numbers in both blocks.
        unsafe { builder.launch(LaunchConfig::for_num_elems(elements as u32)) }.w()?;
        let dst = RocmStorage::wrap_rocm_slice(dst, dev);
        Ok((dst, layout.shape().clone()))
    }
}
