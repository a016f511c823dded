//! What is computed with the blocks.
use super::{plain, QRocmStorage};
use crate::quantized::{GgmlDType, QStorage, QTensor};
use crate::rocm_backend::ops::{self, Blocks};
use crate::rocm_backend::plan::table::quantized as table;
use crate::rocm_backend::RocmStorage;
use crate::{DType, Error, Layout, Result, Shape};

/// The number of a format in the kernel table; `None` for those that it does not have.
fn format(dtype: GgmlDType) -> Option<usize> {
    match dtype {
        GgmlDType::Q4_0 => Some(table::FORM_Q4_0),
        GgmlDType::Q4_1 => Some(table::FORM_Q4_1),
        GgmlDType::Q5_0 => Some(table::FORM_Q5_0),
        GgmlDType::Q5_1 => Some(table::FORM_Q5_1),
        GgmlDType::Q8_0 => Some(table::FORM_Q8_0),
        GgmlDType::Q8_1 => Some(table::FORM_Q8_1),
        GgmlDType::Q2K => Some(table::FORM_Q2K),
        GgmlDType::Q3K => Some(table::FORM_Q3K),
        GgmlDType::Q4K => Some(table::FORM_Q4K),
        GgmlDType::Q5K => Some(table::FORM_Q5K),
        GgmlDType::Q6K => Some(table::FORM_Q6K),
        GgmlDType::Q8K => Some(table::FORM_Q8K),
        _ => None,
    }
}

impl QRocmStorage {
    /// What a tensor on a ROCm device consists of.
    pub(crate) fn of(tensor: &QTensor) -> Result<&Self> {
        match &tensor.storage {
            QStorage::Rocm(storage) => Ok(storage),
            _ => crate::bail!("a quantized tensor has to be on a ROCm device"),
        }
    }

    /// The numbers that the first `elem_count` elements stand for, as f32.
    pub fn dequantize(&self, elem_count: usize) -> Result<RocmStorage> {
        self.dequantize_to(elem_count, DType::F32)
    }

    /// The numbers that the first `elem_count` elements stand for, as f16.
    pub fn dequantize_f16(&self, elem_count: usize) -> Result<RocmStorage> {
        self.dequantize_to(elem_count, DType::F16)
    }

    fn dequantize_to(&self, elem_count: usize, dtype: DType) -> Result<RocmStorage> {
        match self.matrix([1, elem_count])? {
            Some(blocks) => ops::dequantize(blocks, dtype),
            None => ops::to_dtype(&self.blocks, &Layout::contiguous(elem_count), dtype),
        }
    }

    /// The rows (of `rows` with `hidden` elements each) that indices select, as f32.
    pub fn embedding(
        &self,
        rows: usize,
        hidden: usize,
        ids: &RocmStorage,
        ids_l: &Layout,
    ) -> Result<RocmStorage> {
        match self.matrix([rows, hidden])? {
            Some(blocks) => ops::dequantize_rows(blocks, ids, ids_l),
            None => {
                let layout = Layout::contiguous((rows, hidden));
                let picked = ops::index_select(&self.blocks, ids, &layout, ids_l, 0)?;
                let count = ids_l.shape().elem_count() * hidden;
                ops::to_dtype(&picked, &Layout::contiguous(count), DType::F32)
            }
        }
    }

    /// The product of (..., k) with the transpose of these blocks, whose shape is (n, k), in the type of the former:
    /// f32, f16 or bf16.
    pub fn fwd(
        &self,
        self_shape: &Shape,
        storage: &RocmStorage,
        layout: &Layout,
    ) -> Result<(RocmStorage, Shape)> {
        let (n, k) = self_shape.dims2()?;
        let mut shape = layout.dims().to_vec();
        if shape.len() < 2 || shape.pop() != Some(k) {
            crate::bail!("input tensor {layout:?} incompatible with {self_shape:?}")
        }
        shape.push(n);
        let product = match self.matrix([n, k])? {
            Some(blocks) => ops::multiply_blocks(blocks, storage, layout)?,
            None => self.multiply_plain([n, k], storage, layout)?,
        };
        Ok((product, shape.into()))
    }

    /// As `fwd`, for formats without blocks.
    fn multiply_plain(
        &self,
        [n, k]: [usize; 2],
        x: &RocmStorage,
        layout: &Layout,
    ) -> Result<RocmStorage> {
        let weights = Layout::contiguous((n, k));
        let rows = layout.shape().elem_count() / k.max(1);
        let flat = Layout::contiguous((rows, k));
        let x_flat = ops::to_dtype(x, layout, x.dtype())?;
        let cast = (x.dtype() != self.blocks.dtype())
            .then(|| ops::to_dtype(&self.blocks, &weights, x.dtype()))
            .transpose()?;
        let weights = weights.transpose(0, 1)?;
        let by = cast.as_ref().unwrap_or(&self.blocks);
        ops::matmul(&x_flat, by, (1, rows, n, k), &flat, &weights)
    }

    /// Products of rows (batch, top k or 1, k) with the experts' blocks (experts, n, k) that `ids` (batch, top k) select
    /// for them: (batch, top k, n), in the rows' type.
    pub fn indexed_moe_forward(
        &self,
        self_shape: &Shape,
        input: &RocmStorage,
        input_l: &Layout,
        ids: &RocmStorage,
        ids_l: &Layout,
    ) -> Result<(RocmStorage, Shape)> {
        let (experts, n, k) = self_shape.dims3()?;
        let (batch, each, last) = input_l.shape().dims3()?;
        let (ids_batch, top) = ids_l.shape().dims2()?;
        if ids_batch != batch || last != k || (each != 1 && each != top) {
            crate::bail!("rows {input_l:?} and experts {ids_l:?} do not fit {self_shape:?}")
        }
        let Some(blocks) = self.matrix([experts * n, k])? else {
            crate::bail!("experts of {:?} are not supported", self.dtype)
        };
        let product = ops::multiply_experts(blocks, experts, (input, input_l), (ids, ids_l))?;
        Ok((product, (batch, top, n).into()))
    }

    /// The blocks as a matrix of that shape; `None` for formats without blocks. An error if the shape has more elements.
    pub(crate) fn matrix(&self, shape: [usize; 2]) -> Result<Option<Blocks<'_>>> {
        let [rows, columns] = shape;
        let (block, size) = (self.dtype.block_size(), self.dtype.type_size());
        let have = self.storage_size_in_bytes() / size * block;
        if !columns.is_multiple_of(block) || rows * columns > have {
            let message = format!(
                "{have} elements of {:?} are no ({rows}, {columns})",
                self.dtype
            );
            return Err(Error::Msg(message).bt());
        }
        if plain(self.dtype).is_some() {
            return Ok(None);
        }
        let unknown = || Error::Msg(format!("no kernels for blocks of {:?}", self.dtype)).bt();
        Ok(Some(Blocks {
            bytes: &self.blocks,
            format: format(self.dtype).ok_or_else(unknown)?,
            shape,
        }))
    }
}
