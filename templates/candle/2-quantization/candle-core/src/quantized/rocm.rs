//! Quantized tensors on a ROCm device.
use super::{ggml_file::qtensor_from_ggml, GgmlDType, QStorage, QTensor};
use crate::rocm_backend::{RocmDevice, RocmError, RocmStorage};
use crate::{CpuStorage, DType, Device, Result, Storage};
use std::io::{Read, Seek, SeekFrom};

mod compute;
mod imatrix;

/// The blocks of a quantized tensor in a GPU's memory, byte for byte as in a GGUF file.
#[derive(Debug)]
pub struct QRocmStorage {
    /// Bytes; of formats without blocks the numbers themselves.
    blocks: RocmStorage,
    dtype: GgmlDType,
}

impl QRocmStorage {
    /// Blocks of zeros for `elem_count` elements.
    pub fn zeros(device: &RocmDevice, elem_count: usize, dtype: GgmlDType) -> Result<Self> {
        let size = elem_count.div_ceil(dtype.block_size()) * dtype.type_size();
        let mut zeros = Self::uninit(device, size, dtype)?;
        zeros.blocks.memory_mut().fill_zero()?;
        Ok(zeros)
    }

    fn uninit(device: &RocmDevice, size: usize, dtype: GgmlDType) -> Result<Self> {
        let blocks = RocmStorage::new(size, plain(dtype).unwrap_or(DType::U8), device)?;
        Ok(Self { blocks, dtype })
    }

    fn from_bytes(device: &RocmDevice, bytes: &[u8], dtype: GgmlDType) -> Result<Self> {
        let mut made = Self::uninit(device, bytes.len(), dtype)?;
        made.blocks.copy_from_host(bytes)?;
        Ok(made)
    }

    /// The format of the blocks.
    pub fn dtype(&self) -> GgmlDType {
        self.dtype
    }

    /// The device that the blocks are on.
    pub fn device(&self) -> &RocmDevice {
        self.blocks.device()
    }

    /// Bytes of all blocks.
    pub fn storage_size_in_bytes(&self) -> usize {
        self.blocks.size()
    }

    /// A copy of the blocks in the host's memory.
    pub fn data(&self) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.blocks.size()];
        self.blocks.copy_to_host(&mut bytes)?;
        Ok(bytes)
    }

    /// The address of the blocks on the device.
    pub fn device_ptr(&self) -> Result<*const u8> {
        Ok(self.blocks.memory().as_ptr().cast())
    }

    /// Makes these the blocks of f32 numbers on the device. The host rounds them, as for CUDA.
    pub fn quantize(&mut self, src: &RocmStorage) -> Result<()> {
        let src = numbers(src)?;
        self.replace(src, |blocks, src| blocks.quantize(src))
    }

    /// Makes these the blocks of f32 numbers in the host's memory.
    pub fn quantize_onto(&mut self, src: &CpuStorage) -> Result<()> {
        let src = src.as_slice::<f32>()?.to_vec();
        self.replace(src, |blocks, src| blocks.quantize(src))
    }

    /// Has blocks of f32 numbers made in the host's memory, and copies them.
    fn replace(
        &mut self,
        src: Vec<f32>,
        quantize: impl FnOnce(&mut QStorage, &Storage) -> Result<()>,
    ) -> Result<()> {
        let block = self.dtype.block_size();
        let wanted = self.storage_size_in_bytes() / self.dtype.type_size() * block;
        if src.len() != wanted {
            let message = format!("{} numbers do not fill blocks of {wanted}", src.len());
            return Err(RocmError::Other(message).into());
        }
        let mut blocks = Device::Cpu.qzeros(src.len(), self.dtype)?;
        quantize(&mut blocks, &Storage::Cpu(CpuStorage::F32(src)))?;
        self.blocks.copy_from_host(&blocks.data()?)
    }
}

/// All f32 numbers of a tensor.
fn numbers(src: &RocmStorage) -> Result<Vec<f32>> {
    if src.dtype() != DType::F32 {
        return Err(crate::Error::UnsupportedDTypeForOp(src.dtype(), "quantize").bt());
    }
    let mut bytes = vec![0; src.size()];
    src.copy_to_host(&mut bytes)?;
    let numbers = bytes.chunks_exact(4);
    let numbers = numbers.map(|b| f32::from_ne_bytes([b[0], b[1], b[2], b[3]]));
    Ok(numbers.collect())
}

/// The element type of a format that is none of blocks.
fn plain(dtype: GgmlDType) -> Option<DType> {
    match (dtype.block_size(), dtype.type_size()) {
        (1, 4) => Some(DType::F32),
        (1, 2) if dtype == GgmlDType::F16 => Some(DType::F16),
        (1, 2) => Some(DType::BF16), // which Candle 0.9.1 has no name for
        _ => None,
    }
}

/// Asks whether a file has the tensor that it names, before anything of it is read for a ROCm device.
///
/// `start` is where its blocks begin. The reader stays where it is.
pub(super) fn check_in_file(
    device: &Device,
    name: &str,
    (dtype, shape): (GgmlDType, &[usize]),
    start: u64,
    reader: &mut impl Seek,
) -> Result<()> {
    if !device.is_rocm() {
        return Ok(());
    }
    let position = reader.stream_position()?;
    let end = reader.seek(SeekFrom::End(0))?;
    reader.seek(SeekFrom::Start(position))?;
    let left = end.saturating_sub(start);
    let problem = match size_of_tensor(dtype, shape) {
        Ok(size) if start <= end && size as u64 <= left => return Ok(()),
        Ok(size) => format!("a {dtype:?} tensor of {shape:?} has {size} bytes, the file {left}"),
        Err(problem) => problem.to_string(),
    };
    let message = format!("tensor {name} at offset {start}: {problem}");
    Err(RocmError::Other(message).into())
}

/// The tensor of `shape` whose blocks a file's reader has next, on a device.
///
/// They go through the device's pinned memory, and the host holds no more of them than is there. An error, and nothing
/// allocated, where the format has no such tensor or Candle loads no file of it; an error of the reader is returned as it
/// is.
pub(super) fn read_tensor(
    device: &RocmDevice,
    dtype: GgmlDType,
    shape: &[usize],
    reader: &mut impl Read,
) -> Result<QTensor> {
    let size = size_of_tensor(dtype, shape).map_err(RocmError::Other)?;
    // Candle knows which formats it loads: a tensor of no elements only asks for that.
    let block = vec![0; dtype.type_size()];
    qtensor_from_ggml(dtype, &block, vec![0], &Device::Rocm(device.clone()))?;
    let mut read = QRocmStorage::uninit(device, size, dtype)?;
    read.blocks.memory_mut().copy_from_reader(reader)?;
    QTensor::new(QStorage::Rocm(read), shape)
}

/// The blocks of a tensor of `shape`, which `bytes` begin with, on a device.
///
/// An error, and nothing allocated, where the format has no such tensor or the bytes end too early.
pub fn load_tensor(
    device: &RocmDevice,
    dtype: GgmlDType,
    bytes: &[u8],
    shape: &[usize],
) -> Result<QStorage> {
    let size = size_of_tensor(dtype, shape).map_err(RocmError::Other)?;
    let Some(blocks) = bytes.get(..size) else {
        let message = format!(
            "a {dtype:?} tensor of {shape:?} has {size} bytes, the data {}",
            bytes.len()
        );
        return Err(RocmError::Other(message).into());
    };
    load_blocks(device, dtype, blocks)
}

/// Blocks on a device. `bytes` need no alignment, and are free to change when this returns.
pub fn load_blocks(
    device: &RocmDevice,
    dtype: GgmlDType,
    bytes: impl AsRef<[u8]>,
) -> Result<QStorage> {
    let bytes = bytes.as_ref();
    let (size, block) = (bytes.len(), dtype.type_size());
    if size % block != 0 {
        let message = format!("{size} bytes are no whole number of {dtype:?} blocks of {block}");
        return Err(RocmError::Other(message).into());
    }
    let blocks = QRocmStorage::from_bytes(device, bytes, dtype)?;
    Ok(QStorage::Rocm(blocks))
}

/// Bytes of a tensor's blocks, or why there is no such tensor.
fn size_of_tensor(dtype: GgmlDType, shape: &[usize]) -> std::result::Result<usize, String> {
    let block = dtype.block_size();
    let problem = match shape.last() {
        None => "a scalar has no blocks".to_string(),
        Some(row) if row % block != 0 => format!("rows of {row} are no whole blocks of {block}"),
        Some(_) => {
            let mut dims = shape.iter();
            let count = dims.try_fold(1usize, |count, dim| count.checked_mul(*dim));
            match count.and_then(|count| (count / block).checked_mul(dtype.type_size())) {
                Some(size) => return Ok(size),
                None => "more bytes than can be counted".to_string(),
            }
        }
    };
    Err(format!("a {dtype:?} tensor of {shape:?}: {problem}"))
}
