//! A custom op with a HIP kernel of its own: `x / (1 + |x|)`, compared with the CPU.
//!
//! Run with `cargo run -p candle-core --features rocm --example rocm_custom_kernel`.
use candle_core::backend::BackendStorage;
use candle_core::rocm::driver::{LaunchConfig, PushKernelArg};
use candle_core::rocm::WrapErr;
use candle_core::{
    bail, CpuStorage, CustomOp1, Device, Layout, Result, RocmStorage, Shape, Tensor,
};

const SOURCE: &str = r#"
#if !defined(__HIPCC_RTC__) // hipRTC has it built in, and need not have the file.
#include <hip/hip_runtime.h>
#endif

extern "C" __global__ void soft_sign(const float *x, float *y, unsigned int count) {
    unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        y[i] = x[i] / (1.0f + fabsf(x[i]));
    }
}
"#;

/// `x / (1 + |x|)` of a contiguous f32 tensor.
struct SoftSign;

impl CustomOp1 for SoftSign {
    fn name(&self) -> &'static str {
        "soft-sign"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let Some((start, end)) = layout.contiguous_offsets() else {
            bail!("soft-sign: the input has to be contiguous")
        };
        let x = &storage.as_slice::<f32>()?[start..end];
        let y = x.iter().map(|x| x / (1. + x.abs())).collect();
        Ok((CpuStorage::F32(y), layout.shape().clone()))
    }

    fn rocm_fwd(&self, storage: &RocmStorage, layout: &Layout) -> Result<(RocmStorage, Shape)> {
        let Some((start, end)) = layout.contiguous_offsets() else {
            bail!("soft-sign: the input has to be contiguous")
        };
        let device = storage.device();
        let x = storage.as_rocm_slice::<f32>()?.slice(start..end);
        // SAFETY: the kernel writes all elements.
        let y = unsafe { device.alloc::<f32>(x.len())? };
        if !x.is_empty() {
            // Compiled by the first call; the others find it.
            let kernel = device.get_or_load_custom_func("soft_sign", "soft_sign.hip", SOURCE)?;
            let count = x.len() as u32;
            let mut builder = kernel.builder();
            builder.arg(&x).arg(&y).arg(&count);
            // SAFETY: these are the kernel's parameters, and both blocks have `count` floats.
            unsafe { builder.launch(LaunchConfig::for_num_elems(count)) }.w()?;
        }
        let y = RocmStorage::wrap_rocm_slice(y, device.clone());
        Ok((y, layout.shape().clone()))
    }
}

fn main() -> Result<()> {
    let device = Device::new_rocm(0)?;
    let x = Tensor::randn(0f32, 3f32, (1000, 7), &Device::Cpu)?;
    let expected = x.apply_op1(SoftSign)?;
    let got = x.to_device(&device)?.apply_op1(SoftSign)?;
    let error = (got.to_device(&Device::Cpu)? - expected)?.abs()?;
    let error = error.flatten_all()?.max(0)?.to_scalar::<f32>()?;
    println!("largest difference from the CPU: {error:e}");
    if error > 1e-6 {
        bail!("the kernel and the CPU differ")
    }
    Ok(())
}
