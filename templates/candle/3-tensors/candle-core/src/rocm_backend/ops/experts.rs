//! Rows multiplied with the matrices of the experts that are chosen for them: `candle_nn::moe`.
use super::ids::{require_contiguous, Indices, PICKING};
use super::operand::{kernel, uninit, Operand};
use crate::quantized::{rocm::QRocmStorage, QTensor};
use crate::rocm_backend::plan::table::{experts as table, Element};
use crate::rocm_backend::plan::{experts as plan, Pointer};
use crate::rocm_backend::RocmStorage;
use crate::{DType, Error, Layout, Result, Shape};

/// Pairs of a row and an expert. Their numbers go up with their rows.
///
/// The list has each pair once. Results are as fast as can be if pairs of the same expert follow each other there. All
/// tensors are contiguous.
#[derive(Clone, Copy, Debug)]
pub struct Pairs<'a> {
    /// The number of each pair of the list.
    pub order: (&'a RocmStorage, &'a Layout),
    /// The expert of each pair of the list.
    pub experts: (&'a RocmStorage, &'a Layout),
    /// An f32 for each pair, in the order of their numbers, that its results are multiplied with.
    pub weights: Option<(&'a RocmStorage, &'a Layout)>,
    /// How many pairs each row has, one after the other.
    pub shared: usize,
}

/// Products of rows x (rows, k) with experts w (experts, n, k), and their shape (pairs, n). All are of one type: bf16, f16
/// or f32.
pub fn moe_gemm(
    x: (&RocmStorage, &Layout),
    w: (&RocmStorage, &Layout),
    pairs: Pairs<'_>,
) -> Result<(RocmStorage, Shape)> {
    const OP: &str = "moe-gemm";
    require_contiguous(&[x.1, w.1], OP)?;
    let [x, w] = [x, w].map(|(storage, layout)| Operand::new(storage, layout));
    let (experts, n, k) = w.layout.shape().dims3()?;
    let rows = fitting_rows(x, k)?;
    if x.dtype() != w.dtype() {
        let (lhs, rhs, op) = (x.dtype(), w.dtype(), OP);
        return Err(Error::DTypeMismatchBinaryOp { lhs, rhs, op }.bt());
    }
    kernel(&table::EXPERT_ROWS, &[x.element(OP)?], x.dtype(), OP)?;
    let list = List::new(&pairs, rows, experts, OP)?;
    list.require_device_of(&[x, w])?;
    let y = uninit(list.count * n, x.dtype(), x.device())?;
    let (matrices, by) = (w.contiguous(OP)?, x.contiguous(OP)?);
    let planned = list.planned(pairs.shared);
    plan::multiply(x.device(), matrices, by, planned, None, y.pointer())?;
    list.check()?;
    Ok((y, (list.count, n).into()))
}

/// As `moe_gemm`, with quantized experts and rows of any view, as f32.
pub fn moe_gemm_gguf(
    x: (&RocmStorage, &Layout),
    w: &QTensor,
    pairs: Pairs<'_>,
) -> Result<(RocmStorage, Shape)> {
    const OP: &str = "moe-gemm-gguf";
    let x = Operand::new(x.0, x.1);
    let (experts, n, k) = w.shape().dims3()?;
    let rows = fitting_rows(x, k)?;
    if x.dtype() != DType::F32 {
        return Err(Error::UnsupportedDTypeForOp(x.dtype(), OP).bt());
    }
    let Some(blocks) = QRocmStorage::of(w)?.matrix([experts * n, k])? else {
        crate::bail!("{OP}: experts of {:?} are not supported", w.dtype())
    };
    let list = List::new(&pairs, rows, experts, OP)?;
    list.require_device_of(&[x, Operand::new(blocks.bytes, x.layout)])?;
    let y = uninit(list.count * n, DType::F32, x.device())?;
    let (by, planned) = ((x.planned(), Element::F32), list.planned(pairs.shared));
    let matrices = blocks.planned();
    plan::multiply_blocks(
        x.device(),
        matrices,
        experts,
        by,
        planned,
        None,
        y.pointer(),
    )?;
    list.check()?;
    Ok((y, (list.count, n).into()))
}

/// How many rows x has; an error if they are not as long as those of the experts.
fn fitting_rows(x: Operand<'_>, k: usize) -> Result<usize> {
    let (rows, columns) = x.layout.shape().dims2()?;
    if columns != k {
        crate::bail!("rows of {columns} elements cannot be multiplied with experts of {k}")
    }
    Ok(rows)
}

/// A list of pairs that fits rows and experts.
struct List<'a> {
    order: Indices<'a>,
    experts: Indices<'a>,
    weights: Option<Operand<'a>>,
    tensors: Vec<Operand<'a>>,
    count: usize,
}

impl<'a> List<'a> {
    fn new(pairs: &Pairs<'a>, rows: usize, experts: usize, op: &'static str) -> Result<Self> {
        let count = rows * pairs.shared;
        let tensors: Vec<_> = [Some(pairs.order), Some(pairs.experts), pairs.weights]
            .into_iter()
            .flatten()
            .map(|(storage, layout)| Operand::new(storage, layout))
            .collect();
        for tensor in &tensors {
            require_contiguous(&[tensor.layout], op)?;
            let found = tensor.layout.shape().elem_count();
            if found != count {
                crate::bail!("{op}: {rows} rows have {count} pairs, and not {found}")
            }
        }
        let weights = tensors.get(2).copied();
        if let Some(weights) = weights.filter(|weights| weights.dtype() != DType::F32) {
            return Err(Error::UnsupportedDTypeForOp(weights.dtype(), op).bt());
        }
        Ok(Self {
            order: Indices::new(tensors[0], PICKING, count, op)?,
            experts: Indices::new(tensors[1], PICKING, experts, op)?,
            weights,
            tensors,
            count,
        })
    }

    /// An error unless all is on one device.
    fn require_device_of(&self, others: &[Operand<'_>]) -> Result<()> {
        let device = self.tensors[0].device();
        let mut all = self.tensors.iter().chain(others);
        if !all.all(|operand| operand.device() == device) {
            crate::bail!("rows, experts and pairs have to be on the same ROCm device")
        }
        Ok(())
    }

    /// As plans of launches see it.
    fn planned(&self, shared: usize) -> plan::Pairs {
        plan::Pairs {
            order: self.order.planned(),
            experts: self.experts.planned(),
            weights: self.weights.map_or(Pointer::NULL, |each| each.start()),
            count: self.count,
            shared,
        }
    }

    /// As `Indices::check`.
    fn check(&self) -> Result<()> {
        self.order.check()?;
        self.experts.check()
    }
}
