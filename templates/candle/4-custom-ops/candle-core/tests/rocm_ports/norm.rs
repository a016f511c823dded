//! A library in C that takes addresses and a stream: one branch for each type, and a storage made of its parts.
use candle_core::backend::BackendStorage;
use candle_core::rocm::driver::{DevicePtr, DeviceRepr, RocmSlice};
use candle_core::rocm::{RocmDType, RocmStorageSlice, WrapErr};
use candle_core::{CpuStorage, CustomOp2, DType, Layout, Result, RocmStorage, Shape, WithDType};
use half::bf16;
use std::ffi::c_void;

use super::c::row_norm;

/// Each row of a contiguous tensor divided by its root mean square, and multiplied with the row `alpha`.
pub struct RowNorm {
    pub eps: f32,
}

impl RowNorm {
    fn on_device<T: RocmDType + DeviceRepr + WithDType>(
        &self,
        x: &RocmStorage,
        x_l: &Layout,
        alpha: &RocmStorage,
        alpha_l: &Layout,
        wrap: impl Fn(RocmSlice<T>) -> RocmStorageSlice,
    ) -> Result<(RocmStorage, Shape)> {
        let dev = x.device();
        let stream = dev.rocm_stream();
        let (rows, columns) = x_l.shape().dims2()?;
        let x = x.as_rocm_slice::<T>()?.slice(x_l.start_offset()..);
        let alpha = alpha.as_rocm_slice::<T>()?.slice(alpha_l.start_offset()..);
        // SAFETY: the kernel writes all elements.
        let out = unsafe { dev.alloc::<T>(rows * columns) }?;
        {
            let (x, _x) = x.device_ptr(&stream);
            let (alpha, _alpha) = alpha.device_ptr(&stream);
            let (out, _out) = out.device_ptr(&stream);
            let is_bf16 = i32::from(T::DTYPE == DType::BF16);
            // SAFETY: these are elements of the device, and its stream.
            let status = unsafe {
                row_norm(
                    x as *const c_void,
                    alpha as *const c_void,
                    out as *mut c_void,
                    rows as u32,
                    columns as u32,
                    self.eps,
                    is_bf16,
                    stream.hip_stream().cast(),
                )
            };
            if status != 0 {
                candle_core::bail!("row_norm failed with {status}")
            }
        }
        let storage = RocmStorage {
            slice: wrap(out),
            device: dev.clone(),
        };
        Ok((storage, x_l.shape().clone()))
    }
}

impl CustomOp2 for RowNorm {
    fn name(&self) -> &'static str {
        "row-norm"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        x_l: &Layout,
        alpha: &CpuStorage,
        alpha_l: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (_, columns) = x_l.shape().dims2()?;
        let x = &x.as_slice::<f32>()?[x_l.start_offset()..][..x_l.shape().elem_count()];
        let alpha = &alpha.as_slice::<f32>()?[alpha_l.start_offset()..][..columns];
        let rows = x.chunks(columns).flat_map(|row| {
            let squares = row.iter().map(|x| x * x).sum::<f32>();
            let scale = 1. / (squares / columns as f32 + self.eps).sqrt();
            row.iter().zip(alpha).map(move |(x, a)| x * scale * a)
        });
        Ok((CpuStorage::F32(rows.collect()), x_l.shape().clone()))
    }

    fn rocm_fwd(
        &self,
        x: &RocmStorage,
        x_l: &Layout,
        alpha: &RocmStorage,
        alpha_l: &Layout,
    ) -> Result<(RocmStorage, Shape)> {
        if !(x_l.is_contiguous() && alpha_l.is_contiguous()) {
            candle_core::bail!("row-norm: the inputs have to be contiguous")
        }
        // What the library has queued is done when the next call of it begins.
        x.device().rocm_stream().synchronize().w()?;
        match &x.slice {
            RocmStorageSlice::BF16(_) => {
                self.on_device::<bf16>(x, x_l, alpha, alpha_l, RocmStorageSlice::BF16)
            }
            RocmStorageSlice::F32(_) => {
                self.on_device::<f32>(x, x_l, alpha, alpha_l, RocmStorageSlice::F32)
            }
            _ => candle_core::bail!("row-norm has no kernel for {:?}", x.dtype()),
        }
    }
}
