"""A made-up workspace that has the shape of Candle and none of its text: the real specs plan it in milliseconds.

Every applied rule of specs/phases finds a site here, and most of the rules that are only scanned for. The tree parses
and is formatted, but it is no program: nothing here is ever compiled.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from codegen.release import in_range

if TYPE_CHECKING:
    from pathlib import Path

NEWEST = "0.11.1"
OLDEST = "0.9.1"
READY = {
    0: "setup",
    1: "core",
    2: "quantization",
    3: "tensors",
    4: "custom-ops",
    5: "nn",
    6: "python",
    7: "examples",
}
"""The phases that this version applies, and their names."""
UNTRIED = "0.12.0"

STORAGE = "candle-core/src/storage.rs"
DEVICE = "candle-core/src/device.rs"
LIB = "candle-core/src/lib.rs"
CORE_MANIFEST = "candle-core/Cargo.toml"

ROOT_MANIFEST = """\
[workspace]
members = ["candle-core", "candle-nn", "candle-transformers", "candle-examples", "candle-pyo3", "candle-ug"]
exclude = ["candle-kernels"]
resolver = "2"

[workspace.package]
version = "{release}"
edition = "2021"

[workspace.dependencies]
candle = {{ path = "./candle-core", package = "candle-core" }}
candle-nn = {{ path = "./candle-nn" }}
rand = "0.9"
"""

MANIFEST = """\
[package]
name = "{name}"
version.workspace = true
edition.workspace = true

[dependencies]
{dependencies}

[features]
default = []
cuda = [{cuda}]
metal = []
"""

MANIFESTS = {
    "candle-core": (
        'candle-kernels = { path = "../candle-kernels", optional = true }\nrand = { workspace = true }',
        '"dep:candle-kernels"',
    ),
    "candle-nn": ("candle = { workspace = true }", '"candle/cuda"'),
    "candle-transformers": ("candle = { workspace = true }", '"candle/cuda", "candle-nn/cuda"'),
    "candle-examples": ("candle = { workspace = true }", '"candle/cuda", "candle-nn?/cuda", "rand/cuda"'),
    "candle-pyo3": ("candle = { workspace = true }", '"candle/cuda"'),
    "candle-ug": ("rand = { workspace = true }", '"ug-cuda"'),
}

KERNELS_MANIFEST = '[package]\nname = "candle-kernels"\nversion = "{release}"\nedition = "2021"\n'

SOURCES = {
    "candle-core/src/lib.rs": """\
//! A made-up tensor library.
pub mod backend;
#[cfg(feature = "cuda")]
pub mod cuda_backend;
pub mod custom_op;
pub mod device;
pub mod display;
pub mod dummy_cuda_backend;
pub mod error;
pub mod quantized;
pub mod storage;
pub mod utils;

pub use device::{Device, DeviceLocation};
pub use error::{Error, Result};
pub use storage::Storage;

#[cfg(feature = "cudnn")]
pub use cuda_backend::cudnn;

#[cfg(feature = "cuda")]
pub use cuda_backend as cuda;

#[cfg(not(feature = "cuda"))]
pub use dummy_cuda_backend as cuda;

pub use cuda::{CudaDevice, CudaStorage};
""",
    "candle-core/src/backend.rs": """\
use crate::{CpuStorage, DType, Layout, Result, Shape};

pub trait BackendStorage: Sized {
    type Device: BackendDevice;
    fn try_clone(&self, _: &Layout) -> Result<Self>;
    fn dtype(&self) -> DType;
    fn device(&self) -> &Self::Device;
    fn to_cpu_storage(&self) -> Result<CpuStorage>;
    fn powf(&self, layout: &Layout, by: f64) -> Result<Self>;
}

pub trait BackendDevice: Sized + Clone {
    type Storage: BackendStorage;
    fn new(ordinal: usize) -> Result<Self>;
    fn location(&self) -> crate::DeviceLocation;
    fn same_device(&self, other: &Self) -> bool;
    fn zeros_impl(&self, shape: &Shape, dtype: DType) -> Result<Self::Storage>;
    fn set_seed(&self, seed: u64) -> Result<()>;
    fn synchronize(&self) -> Result<()>;
}
""",
    "candle-core/src/op.rs": """\
pub enum CmpOp {
    Eq,
    Ne,
    Le,
    Ge,
    Lt,
    Gt,
}

pub enum ReduceOp {
    Sum,
    Min,
    Max,
    ArgMin,
    ArgMax,
}

pub enum BinaryOp {
    Add,
    Maximum,
}

pub enum UnaryOp {
    Exp,
    GeluErf,
}

macro_rules! bin_op {
    ($op:ident, $name:ident, $e:expr) => {
        impl BinaryOpT for $op {
            const NAME: &'static str = stringify!($name);
        }
    };
}

bin_op!(Add, add, |v1, v2| v1 + v2);
bin_op!(Maximum, maximum, |v1, v2| if v1 < v2 { v2 } else { v1 });

macro_rules! unary_op {
    ($op:ident, $name:literal, $a:ident, $e:expr) => {
        impl UnaryOpT for $op {
            const NAME: &'static str = $name;
        }
    };
}

unary_op!(Exp, "exp", v, v.exp());

impl UnaryOpT for GeluErf {
    const NAME: &'static str = "gelu_erf";
    const KERNEL: &'static str = "ugelu_erf";
}
""",
    "candle-core/src/scalar.rs": """\
pub enum Scalar {
    F32(f32),
}
""",
    "candle-core/src/cpu_backend/mod.rs": """\
pub enum CpuStorage {
    F32(Vec<f32>),
}
""",
    "candle-core/src/dtype.rs": """\
pub enum DType {
    F32,
}

pub trait IntDType: WithDType + num_traits::Bounded {}
""",
    "candle-core/src/dummy_cuda_backend.rs": """\
//! Stands in for CUDA.
use crate::{DType, Error, Layout, Result};

#[derive(Debug, Clone)]
pub struct CudaDevice;

#[derive(Debug)]
pub struct CudaStorage;

impl CudaDevice {
    pub fn new_with_stream(_: usize) -> Result<Self> {
        Err(Error::NotCompiledWithCudaSupport)
    }
}

impl CudaStorage {
    pub fn transfer_to_device(&self, _: &CudaDevice) -> Result<Self> {
        Err(Error::NotCompiledWithCudaSupport)
    }
}
""",
    "candle-core/src/cuda_backend/mod.rs": """\
//! CUDA's own: a foreign file, whatever it says about Device::Cuda.
pub struct CudaStorage;
""",
    "candle-core/src/error.rs": """\
#[derive(thiserror::Error, Debug)]
pub enum Error {
    #[error("shapes {0} and {1} do not go together")]
    Shapes(String, String),

    #[error("built without cuda")]
    NotCompiledWithCudaSupport,

    #[error("built without metal")]
    NotCompiledWithMetalSupport,

    #[error(transparent)]
    Cuda(Box<dyn std::error::Error + Send + Sync>),

    #[error(transparent)]
    Metal(#[from] MetalError),
}

pub type Result<T> = std::result::Result<T, Error>;
""",
    "candle-core/src/utils.rs": """\
pub fn cuda_is_available() -> bool {
    cfg!(feature = "cuda")
}

pub fn metal_is_available() -> bool {
    cfg!(feature = "metal")
}
""",
    "candle-core/src/device.rs": """\
use crate::{Error, Result};

/// Where a device is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum DeviceLocation {
    Cpu,
    Cuda { gpu_id: usize },
    Metal { gpu_id: usize },
}

/// What computes.
#[derive(Debug, Clone)]
pub enum Device {
    Cpu,
    Cuda(crate::CudaDevice),
    Metal(crate::MetalDevice),
}

impl Device {
    pub fn new_cuda(ordinal: usize) -> Result<Self> {
        Ok(Self::Cuda(crate::CudaDevice::new(ordinal)?))
    }

    pub fn as_cuda_device(&self) -> Result<&crate::CudaDevice> {
        match self {
            Self::Cuda(device) => Ok(device),
            Self::Cpu => Err(Error::Shapes("cuda".into(), "cpu".into())),
            Self::Metal(_) => Err(Error::Shapes("cuda".into(), "metal".into())),
        }
    }

    pub fn location(&self) -> DeviceLocation {
        match self {
            Self::Cpu => DeviceLocation::Cpu,
            Self::Cuda(device) => device.location(),
            Self::Metal(device) => device.location(),
        }
    }

    pub fn is_cpu(&self) -> bool {
        matches!(self, Self::Cpu)
    }

    pub fn is_cuda(&self) -> bool {
        matches!(self, Self::Cuda(_))
    }

    pub fn is_metal(&self) -> bool {
        matches!(self, Self::Metal(_))
    }

    /// The GPU where there is one.
    pub fn cuda_if_available(ordinal: usize) -> Result<Self> {
        if crate::utils::cuda_is_available() {
            Self::new_cuda(ordinal)
        } else {
            Ok(Self::Cpu)
        }
    }

    pub fn same_device(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Cpu, Self::Cpu) => true,
            (Self::Cuda(one), Self::Cuda(two)) => one.same_device(two),
            (Self::Metal(one), Self::Metal(two)) => one.same_device(two),
            _ => false,
        }
    }

    fn rand_uniform_f64(&self, low: f64, high: f64) -> Result<crate::Storage> {
        match self {
            Self::Cpu => Ok(crate::Storage::Cpu(crate::cpu::uniform(low, high)?)),
            Self::Cuda(device) => Ok(crate::Storage::Cuda(device.uniform_f32(low, high)?)),
            Self::Metal(device) => Ok(crate::Storage::Metal(device.uniform(low, high)?)),
        }
    }
}
""",
    "candle-core/src/storage.rs": """\
use crate::backend::BackendStorage;
use crate::custom_op::CustomOp1;
use crate::{CpuStorage, CudaStorage, Device, Layout, MetalStorage, Result, Shape};

#[derive(Debug)]
pub enum Storage {
    Cpu(CpuStorage),
    Cuda(CudaStorage),
    Metal(MetalStorage),
}

impl Storage {
    pub fn device(&self) -> Device {
        match self {
            Self::Cpu(_) => Device::Cpu,
            Self::Cuda(storage) => Device::Cuda(storage.device().clone()),
            Self::Metal(storage) => Device::Metal(storage.device().clone()),
        }
    }

    pub fn same_device(&self, other: &Self) -> Result<bool> {
        let (mine, theirs) = (self.device().location(), other.device().location());
        if self.device().is_metal() {
            return Ok(self.device().same_device(&other.device()));
        }
        Ok(mine == theirs)
    }

    pub fn scale(&self, layout: &Layout, by: f64) -> Result<Self> {
        match self {
            Storage::Cpu(storage) => Ok(Self::Cpu(storage.powf(layout, by)?)),
            Self::Cuda(storage) => {
                let storage = storage.powf(layout, by)?;
                Ok(Self::Cuda(storage))
            }
            Self::Metal(storage) => {
                let storage = storage.powf(layout, by)?;
                Ok(Self::Metal(storage))
            }
        }
    }

    pub fn apply(&self, layout: &Layout, op: &dyn CustomOp1) -> Result<(Self, Shape)> {
        match self {
            Self::Cpu(storage) => {
                let (storage, shape) = op.cpu_fwd(storage, layout)?;
                Ok((Self::Cpu(storage), shape))
            }
            Self::Cuda(storage) => {
                let (storage, shape) = op.cuda_fwd(storage, layout)?;
                Ok((Self::Cuda(storage), shape))
            }
            Self::Metal(storage) => {
                let (storage, shape) = op.metal_fwd(storage, layout)?;
                Ok((Self::Metal(storage), shape))
            }
        }
    }

    pub fn copy(&self, to: &mut Self, layout: &Layout) -> Result<()> {
        match (self, to) {
            (Self::Cpu(from), Self::Cpu(to)) => from.copy(to, layout),
            (Self::Cuda(from), Self::Cuda(to)) => Ok(from.copy(to, layout)?),
            (Self::Metal(from), Self::Metal(to)) => Ok(from.copy(to, layout)?),
            (_, _) => crate::bail!("copy needs one device"),
        }
    }

    pub fn is_gpu(&self) -> bool {
        match self {
            Self::Cuda(_) | Self::Metal(_) => true,
            Self::Cpu(_) => false,
        }
    }
}
""",
    "candle-core/src/display.rs": """\
impl std::fmt::Debug for crate::Tensor {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let place = match self.device().location() {
            crate::DeviceLocation::Cpu => "".to_string(),
            crate::DeviceLocation::Cuda { gpu_id } => format!(", cuda:{gpu_id}"),
            crate::DeviceLocation::Metal { gpu_id } => format!(", metal:{gpu_id}"),
        };
        write!(f, "Tensor[{:?}{place}]", self.shape())
    }
}
""",
    "candle-core/src/tensor.rs": """\
use crate::{Device, Result, Storage};

impl Tensor {
    pub fn to_scalar(&self) -> Result<f32> {
        match &*self.storage() {
            Storage::Cpu(storage) => first(storage),
            Storage::Cuda(storage) => first(&storage.to_cpu_storage()?),
            Storage::Metal(storage) => first(&storage.to_cpu_storage()?),
        }
    }

    pub fn to_device(&self, device: &Device) -> Result<Storage> {
        let storage = match (&*self.storage(), device) {
            (Storage::Cpu(storage), Device::Cuda(cuda)) => Storage::Cuda(cuda.upload(storage)?),
            (Storage::Cpu(storage), Device::Metal(metal)) => Storage::Metal(metal.upload(storage)?),
            (Storage::Cuda(storage), Device::Cpu) => Storage::Cpu(storage.to_cpu_storage()?),
            (Storage::Metal(storage), Device::Cpu) => Storage::Cpu(storage.to_cpu_storage()?),
            _ => crate::bail!("no such move"),
        };
        Ok(storage)
    }
}
""",
    "candle-core/src/safetensors.rs": """\
pub fn load(raw: &[u8], device: &crate::Device) -> crate::Result<crate::Tensor> {
    match device {
        crate::Device::Cpu => crate::Tensor::from_bytes(raw),
        crate::Device::Cuda(device) => device.from_bytes(raw),
        crate::Device::Metal(device) => device.from_bytes(raw),
    }
}
""",
    "candle-core/src/strided.rs": """\
use crate::quantized::QStorage;

pub fn width(storage: &QStorage) -> usize {
    match storage {
        QStorage::Cuda(_) => 4,
        _ => 1,
    }
}
""",
    "candle-core/src/sort.rs": """\
#[cfg(feature = "cuda")]
mod cuda {
    use crate::cuda_backend::cudarc;
}

struct ArgSort;

impl crate::CustomOp1 for ArgSort {
    #[cfg(feature = "cuda")]
    fn cuda_fwd(&self, storage: &crate::CudaStorage) -> crate::Result<crate::CudaStorage> {
        cuda::sort(storage)
    }
}
""",
    "candle-core/src/test_utils.rs": """\
#[macro_export]
macro_rules! test_device {
    ($body:ident, $cpu:ident, $cuda:ident, $metal:ident) => {
        #[test]
        fn $cpu() -> Result<()> {
            $body(&Device::Cpu)
        }

        #[cfg(feature = "cuda")]
        #[test]
        fn $cuda() -> Result<()> {
            $body(&Device::new_cuda(0)?)
        }
    };
}
""",
    "candle-core/src/quantized/mod.rs": """\
use crate::{Device, Result};

#[cfg(feature = "cuda")]
pub mod cuda;
mod dummy_cuda;
#[cfg(feature = "cuda")]
pub mod fast_mmq;

#[cfg(not(feature = "cuda"))]
mod cuda {
    pub use super::dummy_cuda::*;
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum GgmlDType {
    F32,
    F16,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q8_1,
    Q2K,
    Q3K,
    Q4K,
    Q5K,
    Q6K,
    Q8K,
}

pub enum QStorage {
    Cpu(Vec<u8>),
    Cuda(cuda::QCudaStorage),
    Metal(metal::QMetalStorage),
}

impl Device {
    fn quantized_zeros(&self, count: usize) -> Result<QStorage> {
        match self {
            Device::Cpu => Ok(QStorage::Cpu(vec![0; count])),
            Device::Cuda(device) => Ok(QStorage::Cuda(cuda::zeros(device, count)?)),
            Device::Metal(device) => Ok(QStorage::Metal(metal::zeros(device, count)?)),
        }
    }
}

impl QStorage {
    pub fn from_data(data: &[u8], device: &Device, dtype: DType) -> Result<Self> {
        match device {
            Device::Cpu => Ok(Self::Cpu(data.to_vec())),
            Device::Cuda(device) => cuda::load_quantized(device, data, dtype),
            Device::Metal(device) => metal::load_quantized(device, data, dtype),
        }
    }

    fn width(&self) -> usize {
        match self {
            QStorage::Cpu(storage) => storage.len(),
            QStorage::Cuda(storage) => storage.width(),
            QStorage::Metal(storage) => storage.width(),
        }
    }

    #[cfg(feature = "cuda")]
    pub fn device_ptr_with_guard(&self, stream: &crate::cuda_backend::Stream) -> Result<*const u8> {
        match self {
            QStorage::Cuda(storage) => storage.pointer(stream),
            QStorage::Metal(_) | QStorage::Cpu(_) => crate::bail!("no CUDA pointer"),
        }
    }
}

impl crate::CustomOp1 for QTensor {
    fn cuda_fwd(&self, storage: &crate::CudaStorage) -> Result<crate::CudaStorage> {
        match &self.storage {
            QStorage::Cuda(own) => own.fwd(storage),
            _ => crate::bail!("wrong device"),
        }
    }
}
""",
    "candle-core/src/quantized/ggml_file.rs": """\
use crate::{Device, Result};

fn from_raw_data<T>(raw_data: &[u8], dims: Vec<usize>, device: &Device) -> Result<QTensor> {
    let data = match device {
        Device::Cpu => QStorage::Cpu(raw_data.to_vec()),
        Device::Cuda(device) => super::cuda::load_quantized(device, raw_data)?,
        Device::Metal(device) => super::metal::load_quantized(device, raw_data)?,
    };
    QTensor::new(data, dims)
}

fn read_one_tensor<R: Read>(reader: &mut R, device: &Device) -> Result<QTensor> {
    let (name, dims) = names_and_dims(reader)?;
    let tensor_elems = dims.iter().product::<usize>();
    let size_in_bytes = bytes_of(tensor_elems);
    from_raw_data(&read(reader, size_in_bytes)?, dims, device)
}
""",
    "candle-core/src/quantized/gguf_file.rs": """use crate::{Device, Result};

impl TensorInfo {
    pub fn read<R: Read>(&self, reader: &mut R, start: u64, device: &Device) -> Result<QTensor> {
        let mut raw_data = self.space();
        reader.read_exact(&mut raw_data)?;
        qtensor_from_ggml(&raw_data, self.dims(), device)
    }
}

impl Content {
    pub fn tensor<R: Read>(&self, reader: &mut R, name: &str, device: &Device) -> Result<QTensor> {
        let tensor_info = self.tensor_info(name)?;
        tensor_info.read(reader, self.tensor_data_offset, device)
    }
}
""",
    "candle-core/src/quantized/cuda.rs": """\
//! CUDA's own: a foreign file, but for the kernels that it names.
use super::GgmlDType;
use crate::{CudaDevice, CudaStorage, Result};

pub fn numbers(blocks: &Blocks, dtype: GgmlDType, device: &CudaDevice) -> Result<CudaStorage> {
    let (kernel, threads) = match dtype {
        GgmlDType::Q4_0 => ("dequantize_block_q4_0_f32", 32),
        GgmlDType::Q6K => ("dequantize_block_q6_K_f32", 64),
        _ => crate::bail!("no numbers of {dtype:?}"),
    };
    let function = device.get_or_load_func(kernel, &candle_kernels::QUANTIZED)?;
    blocks.launched(&function, threads)
}

pub fn few_rows(blocks: &Blocks, dtype: GgmlDType, rows: usize, device: &CudaDevice) -> Result<CudaStorage> {
    let kernel = match dtype {
        GgmlDType::Q4_0 => "mul_mat_vec_q4_0_q8_1_cuda",
        _ => crate::bail!("no product with {dtype:?}"),
    };
    let kernel = format!("{kernel}{rows}");
    let function = device.get_or_load_func(&kernel, &candle_kernels::QUANTIZED)?;
    blocks.launched(&function, rows)
}
""",
    "candle-core/src/quantized/dummy_cuda.rs": """\
use crate::{CudaStorage, Error, Result};

pub struct QCudaStorage;

impl QCudaStorage {
    pub fn fwd(&self, _storage: &CudaStorage) -> Result<CudaStorage> {
        Err(Error::NotCompiledWithCudaSupport)
    }
}
""",
    "candle-core/tests/quantized_tests.rs": """\
use candle_core::{test_device, Device, Result};

macro_rules! on_every_device {
    ($name:ident) => {
        test_device!($name, cpu_cpu, cpu_cuda, cpu_metal);
    };
}

fn test_matmul(device: &Device) -> bool {
    if device.is_cuda() {
        return true;
    }
    false
}

fn qmm_batch(device: &Device) -> f32 {
    if device.is_cuda() {
        0.5
    } else {
        0.0
    }
}

fn rows(device: &Device) -> Result<()> {
    if device.is_cuda() {
        return Ok(());
    }
    if device.is_metal() {
        return Ok(());
    }
    let expected = match device {
        Device::Cpu => 1.0,
        Device::Cuda(_) => 1.5,
        Device::Metal(_) => 1.25,
    };
    assert_eq!(sum(device)?, expected);
    Ok(())
}

test_device!(rows, rows_cpu, rows_cuda, rows_metal);

#[cfg(feature = "cuda")]
#[test]
fn two_streams() -> Result<()> {
    Device::new_cuda(0)?.two_streams()
}
""",
    "candle-core/tests/place_tests.rs": """\
fn near(device: &candle_core::Device, off: f32) -> bool {
    off < if device.is_cuda() { 1e-3 } else { 1e-6 }
}
""",
    "candle-core/benches/benchmarks/mod.rs": """\
#[cfg(feature = "cuda")]
use candle_core::backend::BackendDevice;
use candle_core::{Device, Result};

impl BenchDevice for Device {
    fn sync(&self) -> Result<()> {
        match self {
            Device::Cpu => Ok(()),
            Device::Cuda(device) => Ok(device.synchronize()?),
            Device::Metal(device) => Ok(device.synchronize()?),
        }
    }
}

fn devices() -> Vec<Device> {
    let mut found = vec![Device::Cpu];
    if cfg!(feature = "cuda") {
        found.push(Device::new_cuda(0).unwrap());
    }
    found
}
""",
    "candle-nn/src/lib.rs": "pub mod ops;\n",
    "candle-nn/src/ops.rs": """\
struct Swish;

impl candle::CustomOp1 for Swish {
    #[cfg(feature = "cuda")]
    fn cuda_fwd(&self, storage: &candle::CudaStorage) -> candle::Result<candle::CudaStorage> {
        storage.swish()
    }
}

struct Fused;

impl candle::CustomOp1 for Fused {
    #[cfg(feature = "metal")]
    fn metal_fwd(&self, storage: &candle::MetalStorage) -> candle::Result<candle::MetalStorage> {
        storage.fused()
    }
}

struct Sigmoid;

impl candle::CustomOp1 for Sigmoid {
    #[cfg(feature = "cuda")]
    fn cuda_fwd(&self, x: &candle::CudaStorage) -> candle::Result<candle::CudaStorage> {
        x.sigmoid()
    }
}

struct RmsNorm;

impl candle::CustomOp2 for RmsNorm {
    #[cfg(feature = "cuda")]
    fn cuda_fwd(
        &self,
        x: &candle::CudaStorage,
        scale: &candle::CudaStorage,
    ) -> candle::Result<candle::CudaStorage> {
        x.rmsnorm()
    }
}

struct LayerNorm;

impl candle::CustomOp3 for LayerNorm {
    #[cfg(feature = "cuda")]
    fn cuda_fwd(
        &self,
        x: &candle::CudaStorage,
        scale: &candle::CudaStorage,
        shift: &candle::CudaStorage,
    ) -> candle::Result<candle::CudaStorage> {
        x.layernorm()
    }
}

struct Sdpa;

impl candle::CustomOp3 for Sdpa {
    #[cfg(feature = "metal")]
    fn metal_fwd(&self, q: &candle::MetalStorage) -> candle::Result<candle::MetalStorage> {
        q.attend()
    }
}
""",
    "candle-nn/src/rotary_emb.rs": """\
struct RotaryEmbI;

impl candle::CustomOp3 for RotaryEmbI {
    #[cfg(feature = "cuda")]
    fn cuda_fwd(
        &self,
        x: &candle::CudaStorage,
        cos: &candle::CudaStorage,
        sin: &candle::CudaStorage,
    ) -> candle::Result<candle::CudaStorage> {
        x.rotaryembi()
    }
}
""",
    "candle-nn/src/moe.rs": """\
#[cfg(feature = "cuda")]
use candle::cuda_backend::kernels;

#[cfg(feature = "cuda")]
pub fn moe_gemm(count: usize) -> candle::Result<usize> {
    kernels::moe_gemm(count)
}

#[cfg(not(feature = "cuda"))]
pub fn moe_gemm(_: usize) -> candle::Result<usize> {
    candle::bail!("only on CUDA")
}
""",
    "candle-nn/src/place.rs": """\
pub fn place(device: &candle::Device) -> &'static str {
    match device {
        candle::Device::Cpu => "host",
        candle::Device::Cuda(_) => "cuda card",
        candle::Device::Metal(_) => "metal card",
    }
}

#[cfg(feature = "cuda")]
use candle::backend::BackendStorage;

pub fn any_place() -> Result<Device> {
    Device::cuda_if_available(0)
}
""",
    "candle-transformers/src/models/tower.rs": """\
impl Tower {
    fn attention(&self, q: &Tensor) -> Result<Tensor> {
        if q.device().is_cuda() {
            return self.attention_cuda(q);
        }
        if q.device().is_metal() && q.rows() == 1 {
            return candle_nn::ops::fused(q);
        }
        self.attention_plain(q)
    }

    fn attention_cuda(&self, q: &Tensor) -> Result<Tensor> {
        candle_flash_attn::attention(q)
    }

    fn new(rows: usize) -> Self {
        if cfg!(feature = "cuda") {
            Self::Fused(rows)
        } else {
            Self::Plain(rows)
        }
    }
}
""",
    "candle-examples/build.rs": """\
fn main() {
    println!("cargo::rerun-if-changed=examples/custom-ops/cuda_kernels.rs");
}
""",
    "candle-examples/src/lib.rs": """\
use candle::utils::{cuda_is_available, metal_is_available};

pub fn device(cpu: bool) -> candle::Result<candle::Device> {
    if cpu {
        Ok(candle::Device::Cpu)
    } else if cuda_is_available() {
        candle::Device::new_cuda(0)
    } else if metal_is_available() {
        candle::Device::new_metal(0)
    } else {
        println!("running on CPU: build with `--features cuda`");
        Ok(candle::Device::Cpu)
    }
}
""",
    "candle-examples/examples/chat/main.rs": """\
use candle::Device;

#[cfg(feature = "cuda")]
fn on_cpu() -> bool {
    false
}

fn main() -> anyhow::Result<()> {
    let device = candle_examples::device(on_cpu())?;
    let half = if device.is_cuda() { 16 } else { 32 };
    let whole = if device.is_metal() { 16 } else { 32 };
    if let Device::Cuda(_) = device {
        println!("{half} {whole}");
    }
    #[cfg(feature = "cuda")]
    candle::quantized::cuda::set_force_dmmv(true);
    #[cfg(feature = "cuda")]
    if let Device::Cuda(card) = &device {
        card.disable_event_tracking();
    }
    candle::cuda::set_gemm_reduced_precision_f16(true);
    Ok(())
}
""",
    "candle-examples/examples/digits/main.rs": """\
fn main() -> candle::Result<()> {
    let device = candle::Device::cuda_if_available(0)?;
    println!("{device:?}");
    Ok(())
}
""",
    "candle-examples/examples/custom-ops/main.rs": """\
#[cfg(feature = "cuda")]
mod cuda_kernels;

struct LayerNorm;

impl candle::CustomOp1 for LayerNorm {
    #[cfg(feature = "cuda")]
    fn cuda_fwd(&self, storage: &candle::CudaStorage) -> candle::Result<candle::CudaStorage> {
        cuda_kernels::norm(storage)
    }
}
""",
    "candle-examples/examples/llama_multiprocess/main.rs": """\
use cudarc::nccl::Comm;
""",
    "candle-pyo3/src/lib.rs": """\
use candle::Device;

mod utils;

static CUDA_DEVICE: Slot = Slot::new();
static METAL_DEVICE: Slot = Slot::new();

#[derive(Clone, Copy)]
enum PyDevice {
    Cpu,
    Cuda,
    Metal,
}

impl PyDevice {
    fn from_device(device: &Device) -> Self {
        match device {
            Device::Cpu => Self::Cpu,
            Device::Cuda(_) => Self::Cuda,
            Device::Metal(_) => Self::Metal,
        }
    }

    fn make(&self) -> PyResult<Device> {
        match self {
            Self::Cpu => Ok(Device::Cpu),
            Self::Cuda => CUDA_DEVICE.or(Device::new_cuda(0)),
            Self::Metal => METAL_DEVICE.or(Device::new_metal(0)),
        }
    }

    fn parse(name: &str) -> PyResult<Self> {
        let device = match name {
            "cpu" => PyDevice::Cpu,
            "cuda" => PyDevice::Cuda,
            "metal" => PyDevice::Metal,
            _ => return Err(unknown(name)),
        };
        Ok(device)
    }

    fn spell(self) -> &'static str {
        match self {
            PyDevice::Cpu => "cpu",
            PyDevice::Cuda => "cuda",
            PyDevice::Metal => "metal",
        }
    }
}

#[pyfunction]
fn cuda_is_available() -> bool {
    candle::utils::cuda_is_available()
}

fn module(m: &Module) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(cuda_is_available, m)?)?;
    Ok(())
}
""",
    "candle-pyo3/pyproject.toml": "[project]\nname = 'candle'\n",
    "candle-pyo3/py_src/candle/__init__.py": """\
def locate_cuda_dlls():
    pass


locate_cuda_dlls()
""",
    "candle-pyo3/py_src/candle/module.py": """\
from candle.utils import cuda_is_available

# Comments on CUDA are no sites.
CUDA: str = "cuda"
Device = TypeVar("Device", "cpu", "cuda")
METAL: str = "metal"


class Module:
    \"""Nor are docstrings on CUDA.\"""

    def __move_tensor_to_device(self, tensor):
        raise NotImplementedError("not to cuda")

    def cuda(self):
        return self.to("cuda")

    def to(self, name):
        if name == "cuda" or name == "cpu":
            return name
        raise TypeError(f"neither cpu nor cuda: {name}")
""",
    "candle-ug/src/lib.rs": "pub use ug_cuda as cuda;\n",
    "candle-kernels/src/lib.rs": "pub fn cuda_kernels() {}\n",
    "README.md": "A made-up tree: cuda, metal.\n",
}
"""Files that every release has."""

CUSTOM_OP = """\
use crate::{bail, CpuStorage, CudaStorage, Layout, MetalStorage, Result, Shape};

pub trait CustomOp1 {
    fn name(&self) -> &'static str;

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)>;

    /// Only when this is run on a gpu device.
    fn cuda_fwd(&self, _: &CudaStorage, _: &Layout) -> Result<(CudaStorage, Shape)> {
        bail!("{} has no cuda implementation", self.name())
    }

    fn metal_fwd(&self, _: &MetalStorage, _: &Layout) -> Result<(MetalStorage, Shape)> {
        bail!("{} has no metal implementation", self.name())
    }
}
"""

ALIASED_OP = """
pub trait InplaceOpN {
    fn cuda_fwd_aliased(&self, _: &mut CudaStorage) -> Result<()> {
        bail!("no aliased cpu implementation")
    }
}
"""

UG_OP = """
pub struct UgIOp1 {
    name: &'static str,
    #[cfg(feature = "cuda")]
    func: cudarc::Function,
    #[cfg(feature = "metal")]
    func: metal::Pipeline,
}

impl UgIOp1 {
    pub fn new(name: &'static str, kernel: Kernel, device: &crate::Device) -> Result<Self> {
        #[cfg(feature = "cuda")]
        {
            let func = device.as_cuda_device()?.compile(name, kernel)?;
            Ok(Self { name, func })
        }
        #[cfg(not(any(feature = "cuda", feature = "metal")))]
        {
            Ok(Self { name })
        }
    }
}

impl InplaceOp1 for UgIOp1 {
    fn cpu_fwd(&self, _: &mut CpuStorage, _: &Layout) -> Result<()> {
        crate::bail!("ug ops run on cuda only")
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(&self, storage: &mut CudaStorage, layout: &Layout) -> Result<()> {
        storage.launch(layout)
    }
}
"""

UG_TEST = """\
#[cfg(feature = "cuda")]
#[test]
fn ug_op() {}
"""


def candle_sources(release: str = NEWEST) -> dict[str, str]:
    """Every file of the tree by path."""
    texts = dict(SOURCES)
    texts["Cargo.toml"] = ROOT_MANIFEST.format(release=release)
    texts["candle-kernels/Cargo.toml"] = KERNELS_MANIFEST.format(release=release)
    for name, (dependencies, cuda) in MANIFESTS.items():
        texts[f"{name}/Cargo.toml"] = MANIFEST.format(name=name, dependencies=dependencies, cuda=cuda)
    if in_range(release, since=NEWEST):
        texts["candle-core/src/dtype.rs"] = texts["candle-core/src/dtype.rs"].replace(
            "    F32,\n", "    F32,\n    F8E8M0,\n"
        )
        texts["candle-core/src/custom_op.rs"] = CUSTOM_OP + ALIASED_OP
    else:
        texts["candle-core/src/custom_op.rs"] = CUSTOM_OP + UG_OP
        texts["candle-core/tests/custom_op_tests.rs"] = UG_TEST
    return texts


def grow(root: Path, texts: dict[str, str]) -> Path:
    """Write files below `root`, which need not exist, and return it."""
    for path, text in texts.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(text.encode())
    return root


def candle_tree(root: Path, release: str = NEWEST) -> Path:
    """The whole tree below `root`."""
    return grow(root, candle_sources(release))


def tree_hash(root: Path) -> str:
    """SHA-256 over every path, permission bit and byte below `root`, but for git's folder and what the record keeps."""
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if name.split("/", 1)[0] == ".git" or name == ".candle-rocm" or name.startswith(".candle-rocm/local"):
            continue
        content = path.read_bytes() if path.is_file() else b""
        digest.update(f"{name}\0{path.lstat().st_mode:o}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def replace_in(path: Path, old: str, new: str, *, count: int = -1) -> None:
    """Edit a file by hand, as a user would; the old text must be there."""
    text = path.read_bytes().decode()
    assert old in text, f"{path} has no {old!r}"
    path.write_bytes(text.replace(old, new, count).encode())
