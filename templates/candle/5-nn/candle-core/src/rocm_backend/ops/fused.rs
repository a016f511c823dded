//! What models compute by several operations, as one. `None` leaves the work to those.
use super::{add_rms_norm, rope_append, sdpa, silu_mul, Scores};
use crate::op::BackpropOp;
use crate::rocm_backend::RocmStorage;
use crate::tensor::from_storage;
use crate::{DType, Layout, Result, Shape, Storage, Tensor, D};
use std::ops::Deref;
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
    let [q, k, v] = operands.each_ref().map(operand);
    let mask = mask.as_ref().map(Tensor::storage_and_layout);
    let mask = mask.as_ref().map(operand);
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
    let (gate, up) = (gate.storage_and_layout(), up.storage_and_layout());
    let made = silu_mul(operand(&gate)?, operand(&up)?)?;
    Ok(Some(tensor(made)))
}

/// xs + other, and that over the root of the mean of its square plus eps along the last dimension, times alpha: bit for bit
/// as candle-nn's `rms_norm` of the sum. None for views that are not contiguous, too, and for rows that `norm::add_rms_norm`
/// does not take.
pub fn sum_and_rms_norm(
    xs: &Tensor,
    other: &Tensor,
    alpha: &Tensor,
    eps: f32,
) -> Result<Option<(Tensor, Tensor)>> {
    let operands = [xs, other, alpha];
    if !is_fused(&operands) || !operands.iter().all(|operand| operand.is_contiguous()) {
        return Ok(None);
    }
    let operands = operands.map(Tensor::storage_and_layout);
    let [xs, other, alpha] = operands.each_ref().map(operand);
    let made = add_rms_norm(xs?, other?, alpha?, eps)?;
    Ok(made.map(|([sum, normed], shape)| (tensor((sum, shape.clone())), tensor((normed, shape)))))
}

/// candle-nn's `rope` of queries and keys, and keys and values written in place to rows of caches: the queries.
///
/// q is (batch, heads, positions, depth), k and v (batch, key heads, positions, depth), cos and sin (at least as many
/// positions, depth / 2), places (positions) of u8, u32 or i64 with the row of each, and keys and values are caches,
/// (batch, key heads, capacity, depth). None, and nothing is written, for views that are not contiguous, for angles of each
/// batch entry, for caches that share their memory with anything else here, and where `rope_append` says so.
#[allow(clippy::too_many_arguments)] // Those of three operations.
pub fn rope_with_caches(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    cos: &Tensor,
    sin: &Tensor,
    places: &Tensor,
    keys: &Tensor,
    values: &Tensor,
) -> Result<Option<Tensor>> {
    let floats = [q, k, v, cos, sin, keys, values];
    let contiguous = floats.iter().all(|tensor| tensor.is_contiguous());
    let read = [q, k, v, cos, sin, places];
    let shares = |cache: &Tensor| read.iter().any(|tensor| tensor.same_storage(cache));
    let shared = keys.same_storage(values) || shares(keys) || shares(values);
    let on_rocm_alone = is_fused(&floats) && places.device().is_rocm();
    if !on_rocm_alone || !contiguous || !places.is_contiguous() || shared {
        return Ok(None);
    }
    if cos.rank() != 2 || sin.rank() != 2 {
        return Ok(None);
    }
    let read = read.map(Tensor::storage_and_layout);
    let read = read.each_ref().map(operand);
    let [q, k, v, cos, sin, places] = read;
    let (mut keys, keys_layout) = keys.storage_mut_and_layout();
    let (mut values, values_layout) = values.storage_mut_and_layout();
    let (Storage::Rocm(keys), Storage::Rocm(values)) = (&mut *keys, &mut *values) else {
        crate::bail!("all operands have to be on one ROCm device");
    };
    let (keys, values) = ((keys, keys_layout), (values, values_layout));
    let made = rope_append([q?, k?, v?], [cos?, sin?], places?, keys, values)?;
    Ok(made.map(tensor))
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

/// What `storage_and_layout` gives of a tensor on ROCm.
fn operand<'a, S: Deref<Target = Storage>>(
    (storage, layout): &'a (S, &'a Layout),
) -> Result<(&'a RocmStorage, &'a Layout)> {
    on_rocm(storage).map(|storage| (storage, *layout))
}

fn on_rocm(storage: &Storage) -> Result<&RocmStorage> {
    match storage {
        Storage::Rocm(storage) => Ok(storage),
        _ => crate::bail!("all operands have to be on one ROCm device"),
    }
}
