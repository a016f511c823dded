//! Operations of tensors that all ranks do together.
use super::{api, check, Comm, ReduceOp};
use crate::backend::{BackendDevice, BackendStorage};
use crate::rocm_backend::{RocmError, RocmStorage};
use crate::{CpuStorage, CustomOp1, Layout, Result, Shape};
use std::ffi::c_int;
use std::sync::Arc;

/// NCCL's version since which RCCL adds floats of 8 bits (ROCm 6.2).
const ADDS_F8: c_int = 22_005;

/// The elements of all ranks' tensors, reduced one by one, as a tensor on each. It has no gradient.
#[derive(Debug, Clone)]
pub struct AllReduce {
    comm: Arc<Comm>,
    op: ReduceOp,
}

/// All ranks' tensors, concatenated along a dimension in the order of the ranks, on each. It has no gradient.
#[derive(Debug, Clone)]
pub struct AllGather {
    comm: Arc<Comm>,
    dim: usize,
}

impl AllReduce {
    /// The sum of all.
    pub fn new(comm: &Arc<Comm>) -> Self {
        Self::with(comm, ReduceOp::Sum)
    }

    /// Another operation than the sum.
    pub fn with(comm: &Arc<Comm>, op: ReduceOp) -> Self {
        let comm = comm.clone();
        Self { comm, op }
    }
}

impl AllGather {
    pub fn new(comm: &Arc<Comm>, dim: usize) -> Self {
        let comm = comm.clone();
        Self { comm, dim }
    }
}

impl CustomOp1 for AllReduce {
    fn name(&self) -> &'static str {
        "all-reduce"
    }

    fn cpu_fwd(&self, _: &CpuStorage, _: &Layout) -> Result<(CpuStorage, Shape)> {
        Err(on_the_cpu())
    }

    fn rocm_fwd(&self, storage: &RocmStorage, layout: &Layout) -> Result<(RocmStorage, Shape)> {
        let mut packed = storage.packed(layout)?;
        let number = match packed.dtype().as_str() {
            "u8" => api::ncclUint8,
            "u32" => api::ncclUint32,
            "i32" => api::ncclInt32,
            "i64" => api::ncclInt64,
            "f16" => api::ncclFloat16,
            "bf16" => api::ncclBfloat16,
            "f32" => api::ncclFloat32,
            "f64" => api::ncclFloat64,
            "f8e4m3" => f8(&self.comm)?,
            name => return Err(RocmError::Other(format!("RCCL does not reduce {name}")).into()),
        };
        let count = layout.shape().elem_count();
        self.comm.same_stream_as("all-reduce", packed.memory())?;
        let at = packed.memory_mut().as_mut_ptr();
        // SAFETY: so many elements of that type lie there, on the communicator's stream.
        unsafe { self.comm.reduce_all(at, at, count, number, self.op) }?;
        Ok((packed, layout.shape().clone()))
    }
}

impl CustomOp1 for AllGather {
    fn name(&self) -> &'static str {
        "all-gather"
    }

    fn cpu_fwd(&self, _: &CpuStorage, _: &Layout) -> Result<(CpuStorage, Shape)> {
        Err(on_the_cpu())
    }

    fn rocm_fwd(&self, storage: &RocmStorage, layout: &Layout) -> Result<(RocmStorage, Shape)> {
        let dims = layout.dims();
        let Some(&dim) = dims.get(self.dim) else {
            let message = format!("all-gather: no dimension {} of {dims:?}", self.dim);
            return Err(RocmError::Other(message).into());
        };
        let packed = storage.packed(layout)?;
        self.comm.same_stream_as("all-gather", packed.memory())?;
        let world = self.comm.world_size();
        let (device, dtype) = (BackendStorage::device(&packed).clone(), packed.dtype());
        let ranks = Shape::from([&[world], dims].concat());
        // SAFETY: the call writes all of it before anyone reads it.
        let mut all = unsafe { device.alloc_uninit(&ranks, dtype)? };
        let (from, to) = (packed.memory().as_ptr(), all.memory_mut().as_mut_ptr());
        // SAFETY: so many bytes lie there, and as many times that as there are ranks at the other address.
        unsafe { self.comm.gather(from, to, packed.size(), api::ncclUint8) }?;
        let mut shape = dims.to_vec();
        shape[self.dim] = world * dim;
        // The ranks come before the dimension that they are joined along.
        let order: Vec<usize> = (1..=self.dim)
            .chain([0])
            .chain(self.dim + 1..=dims.len())
            .collect();
        match self.dim {
            0 => Ok((all, Shape::from(shape))),
            _ => Ok((
                all.packed(&Layout::contiguous(ranks).permute(&order)?)?,
                Shape::from(shape),
            )),
        }
    }
}

/// RCCL's number of the 8-bit float that Candle has, where it adds that one.
fn f8(comm: &Comm) -> Result<api::ncclDataType_t> {
    let mut version = 0;
    // SAFETY: `version` lives through the call.
    check("ncclGetVersion", "this process", unsafe {
        api::ncclGetVersion(&mut version)
    })?;
    let target = &comm.rank.stream().gpu().properties().gcn_arch_name;
    if version < ADDS_F8 || target.starts_with("gfx942") {
        let message = format!(
            "RCCL {version} on {target} does not add f8e4m3 as Candle has it: gfx942's has one zero and other exponents"
        );
        return Err(RocmError::Other(message).into());
    }
    Ok(api::ncclFloat8e4m3)
}

fn on_the_cpu() -> crate::Error {
    RocmError::Other("collectives are of tensors on ROCm devices".to_string()).into()
}
