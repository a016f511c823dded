//! A custom op with a HIP kernel of its own: `x / (1 + |x|)`, compared with the CPU.
//!
//! Run with `cargo run -p candle-core --features rocm --example rocm_custom_kernel`.
use candle_core::backend::BackendStorage;
use candle_core::rocm::{KernelArg, LaunchConfig, RocmModule};
use candle_core::{bail, CpuStorage, CustomOp1, DType, Device, Layout, Result, Shape, Tensor};
use candle_core::{RocmDevice, RocmStorage};

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
struct SoftSign {
    module: Option<RocmModule>,
}

impl SoftSign {
    /// Compiles the kernel if the device is a ROCm one.
    fn new(device: &Device) -> Result<Self> {
        let module = match device {
            Device::Rocm(device) => Some(device.compile("soft_sign.hip", SOURCE)?),
            _ => None,
        };
        Ok(Self { module })
    }
}

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
        let Some(module) = &self.module else {
            bail!("soft-sign was not made for a ROCm device")
        };
        let device: &RocmDevice = BackendStorage::device(storage);
        if device != module.device() {
            bail!("soft-sign was compiled for another device than {device:?}")
        }
        if storage.dtype() != DType::F32 {
            bail!("soft-sign: the input has to be f32")
        }
        let Some((start, end)) = layout.contiguous_offsets() else {
            bail!("soft-sign: the input has to be contiguous")
        };
        let bytes = std::mem::size_of::<f32>();
        let mut output = RocmStorage::new((end - start) * bytes, DType::F32, device)?;
        if start < end {
            let count = (end - start) as u32;
            let args = [
                KernelArg::read(storage.hip_memory(), start * bytes),
                KernelArg::write(output.hip_memory_mut(), 0),
                KernelArg::value(&count),
            ];
            let config = LaunchConfig::for_elements(end - start)?;
            // SAFETY: these are the kernel's parameters, and both blocks have `count` floats from there on.
            unsafe { module.function("soft_sign")?.launch(config, &args)? };
        }
        Ok((output, layout.shape().clone()))
    }
}

fn main() -> Result<()> {
    let device = Device::new_rocm(0)?;
    let x = Tensor::randn(0f32, 3f32, (1000, 7), &Device::Cpu)?;
    let expected = x.apply_op1(SoftSign::new(&Device::Cpu)?)?;
    let got = x.to_device(&device)?.apply_op1(SoftSign::new(&device)?)?;
    let error = (got.to_device(&Device::Cpu)? - expected)?.abs()?;
    let error = error.flatten_all()?.max(0)?.to_scalar::<f32>()?;
    println!("largest difference from the CPU: {error:e}");
    if error > 1e-6 {
        bail!("the kernel and the CPU differ")
    }
    Ok(())
}
