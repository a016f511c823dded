//! What models compute by several operations, as one. `None` leaves the work to those.
use super::{sdpa, silu_mul, Scores};
use crate::op::BackpropOp;
use crate::rocm_backend::RocmStorage;
use crate::tensor::from_storage;
use crate::{DType, Result, Shape, Storage, Tensor, D};
use std::sync::OnceLock;

/// Queries of a head in f32 that the kernel takes whatever their scores need: what bounds them is reading keys.
const FEW_QUERIES: usize = 16;
/// Scores in f32 that fit into memory, 1 GiB. Two products by rocBLAS are reckoned to take less time then: f32 has no matrix
/// units in the kernel.
const SCORES_IN_MEMORY: usize = 1 << 28;

/// softmax(scale q kᵀ + mask) v, as candle-nn's `sdpa` has it: (batch, heads, queries, columns).
///
/// q is (batch, heads, queries, depth), k (batch, key heads, keys, depth) and v (batch, key heads, keys, columns); heads
/// are a multiple of key heads, which need not be repeated. A mask of u8 hides the keys where it is 1, and another one is
/// added to the scores; it is broadcast to (batch, heads, queries, keys). With a soft cap c, scores are c tanh(x / c) before
/// that. Sums are in f32.
///
/// None on other devices, for other types than f32, f16 and bf16, for prompts in f32 whose scores fit into memory, where
/// gradients are tracked, and where `CANDLE_ROCM_PLAIN_MODELS=1` asks for the operations one by one. Errors are those of
/// `sdpa`.
pub fn attention(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    mask: Option<&Tensor>,
    scale: f64,
    soft_cap: Option<f64>,
) -> Result<Option<Tensor>> {
    if !is_fused(&[q, k, v]) || q.dtype() == DType::F64 || soft_cap == Some(1.) {
        return Ok(None);
    }
    let (batch, heads, queries, _) = q.dims4()?;
    let shape = (batch, heads, queries, k.dim(2)?);
    let in_memory = Shape::from(shape).elem_count() <= SCORES_IN_MEMORY;
    if q.dtype() == DType::F32 && queries > FEW_QUERIES && in_memory {
        return Ok(None);
    }
    let scores = Scores {
        scale: scale as f32,
        softcapping: soft_cap.unwrap_or(1.) as f32,
        causal: false,
    };
    let mask = mask.map(|mask| added(mask, q.dtype())?.broadcast_as(shape));
    let mask = mask.transpose()?;
    let (q, k, v) = (in_rows(q)?, in_rows(k)?, in_rows(v)?);
    let operands = [&q, &k, &v].map(Tensor::storage_and_layout);
    let [q, k, v] = operands
        .each_ref()
        .map(|(storage, layout)| on_rocm(storage).map(|storage| (storage, *layout)));
    let mask = mask.as_ref().map(Tensor::storage_and_layout);
    let mask = mask
        .as_ref()
        .map(|(storage, layout)| on_rocm(storage).map(|storage| (storage, *layout)));
    sdpa(q?, k?, v?, mask.transpose()?, scores).map(|made| Some(tensor(made)))
}

/// silu of the first half of the last dimension, times the second half; for f64, too.
pub fn swiglu(xs: &Tensor) -> Result<Option<Tensor>> {
    if !is_fused(&[xs]) {
        return Ok(None);
    }
    let halves = xs.chunk(2, D::Minus1)?;
    gate_times_up(&halves[0], &halves[1])
}

/// silu(gate) up; for f64, too.
pub fn gate_times_up(gate: &Tensor, up: &Tensor) -> Result<Option<Tensor>> {
    if !is_fused(&[gate, up]) {
        return Ok(None);
    }
    let ((gate, gate_layout), (up, up_layout)) =
        (gate.storage_and_layout(), up.storage_and_layout());
    let made = silu_mul((on_rocm(&gate)?, gate_layout), (on_rocm(&up)?, up_layout))?;
    Ok(Some(tensor(made)))
}

/// Without gradients.
fn tensor((storage, shape): (RocmStorage, Shape)) -> Tensor {
    from_storage(Storage::Rocm(storage), shape, BackpropOp::none(), false)
}

/// Whether these functions compute with such tensors: on ROCm, of floats, and without gradients.
pub fn is_fused(tensors: &[&Tensor]) -> bool {
    static PLAIN: OnceLock<bool> = OnceLock::new();
    let plain = || {
        let asked = std::env::var("CANDLE_ROCM_PLAIN_MODELS");
        asked.is_ok_and(|asked| !matches!(asked.as_str(), "" | "0"))
    };
    let fits = |tensor: &&Tensor| {
        let (bf16, f16) = (DType::BF16, DType::F16);
        let known = [bf16, f16, DType::F32, DType::F64].contains(&tensor.dtype());
        known && tensor.device().is_rocm() && !tensor.track_op()
    };
    tensors.iter().all(fits) && !PLAIN.get_or_init(plain)
}

/// A mask as what is added to scores of this type.
fn added(mask: &Tensor, dtype: DType) -> Result<Tensor> {
    let mask_of = mask.to_dtype(dtype)?;
    match mask.dtype() {
        // log(1 - mask): 0 for what is seen, and -inf for what is hidden.
        DType::U8 => mask_of.affine(-1., 1.)?.log(),
        _ => Ok(mask_of),
    }
}

/// The tensor, with the elements of a row side by side.
fn in_rows(tensor: &Tensor) -> Result<Tensor> {
    match (tensor.stride(), tensor.dims()) {
        ([.., 1], _) | (_, [.., 0 | 1]) => Ok(tensor.clone()),
        _ => tensor.contiguous(),
    }
}

fn on_rocm(storage: &Storage) -> Result<&RocmStorage> {
    match storage {
        Storage::Rocm(storage) => Ok(storage),
        _ => crate::bail!("all operands have to be on one ROCm device"),
    }
}
