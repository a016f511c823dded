//! Quantized matrices: their numbers, and products with them.
use super::ids::{Indices, PICKING};
use super::operand::{uninit, Operand};
use crate::rocm_backend::element::element;
use crate::rocm_backend::plan::{quantized as plan, table::Element};
use crate::rocm_backend::RocmStorage;
use crate::{DType, Error, Layout, Result};

/// Rows of quantized blocks, one row after the other.
#[derive(Clone, Copy)]
pub(crate) struct Blocks<'a> {
    pub(crate) bytes: &'a RocmStorage,
    /// The number of their format in the kernel table.
    pub(crate) format: usize,
    /// Rows, and elements of each.
    pub(crate) shape: [usize; 2],
}

impl Blocks<'_> {
    pub(super) fn planned(&self) -> plan::Blocks {
        let [rows, columns] = self.shape;
        plan::Blocks {
            start: self.bytes.pointer(),
            format: self.format,
            rows,
            columns,
        }
    }
}

/// All numbers, as f32 or f16.
pub(crate) fn dequantize(x: Blocks<'_>, dtype: DType) -> Result<RocmStorage> {
    let [rows, columns] = x.shape;
    let device = x.bytes.device();
    let y = uninit(rows * columns, dtype, device)?;
    let element = element(dtype, "dequantize")?;
    plan::dequantize(device, x.planned(), element, y.pointer())?;
    Ok(y)
}

/// The rows that indices (one dimension, any stride) select, as f32.
pub(crate) fn dequantize_rows(
    x: Blocks<'_>,
    ids: &RocmStorage,
    ids_layout: &Layout,
) -> Result<RocmStorage> {
    const OP: &str = "quantized-embedding";
    let [rows, columns] = x.shape;
    let (n, step) = (ids_layout.shape().dims1()?, ids_layout.stride()[0]);
    let ids = Indices::new(Operand::new(ids, ids_layout), PICKING, rows, OP)?;
    let device = x.bytes.device();
    let y = uninit(n * columns, DType::F32, device)?;
    plan::dequantize_rows(device, x.planned(), ids.planned(), [n, step], y.pointer())?;
    ids.check()?;
    Ok(y)
}

/// y[..., n] = sum over k of x[..., k] w[n, k], in the type of x.
pub(crate) fn multiply_blocks(
    w: Blocks<'_>,
    x: &RocmStorage,
    layout: &Layout,
) -> Result<RocmStorage> {
    let [n, columns] = w.shape;
    let x = Operand::new(x, layout);
    let element = float(x)?;
    let count = layout.shape().elem_count() / columns.max(1) * n;
    let y = uninit(count, x.dtype(), x.device())?;
    plan::multiply(x.device(), w.planned(), x.planned(), element, y.pointer())?;
    Ok(y)
}

/// y[b, i, n] = sum over k of x[b, i or 0, k] w[ids[b, i], n, k], in the type of x; w is (experts * n, k).
pub(crate) fn multiply_experts(
    w: Blocks<'_>,
    experts: usize,
    (x, layout): (&RocmStorage, &Layout),
    (ids, ids_layout): (&RocmStorage, &Layout),
) -> Result<RocmStorage> {
    const OP: &str = "indexed-moe-forward";
    super::ids::require_contiguous(&[ids_layout], OP)?;
    let x = Operand::new(x, layout);
    let element = float(x)?;
    let ids = Indices::new(Operand::new(ids, ids_layout), PICKING, experts, OP)?;
    let pairs = ids_layout.shape().elem_count();
    let y = uninit(pairs * (w.shape[0] / experts.max(1)), x.dtype(), x.device())?;
    let chosen = plan::Chosen {
        ids: ids.planned(),
        experts,
        pairs,
    };
    let (planned, y_start) = (x.planned(), y.pointer());
    plan::multiply_experts(x.device(), w.planned(), planned, element, chosen, y_start)?;
    ids.check()?;
    Ok(y)
}

/// The type of numbers to multiply with.
fn float(x: Operand<'_>) -> Result<Element> {
    match x.element("qmatmul")? {
        element @ (Element::F32 | Element::F16 | Element::BF16) => Ok(element),
        _ => Err(Error::UnsupportedDTypeForOp(x.dtype(), "qmatmul").bt()),
    }
}
