//! Products of rows with the experts that are chosen for them, on ROCm.
use super::{QTensor, Result, Tensor};
use candle::op::BackpropOp;
use candle::rocm_backend::ops::{self, Pairs};
use candle::{DType, Layout, RocmStorage, Shape, Storage};
use std::ops::Deref;

/// As CUDA's, and for f32 as well. The sizes decide how it is computed, and not whether it is for a prompt.
pub fn moe_gemm(
    input: &Tensor,
    weights: &Tensor,
    topk_weights: &Option<Tensor>,
    sorted_token_ids: &Tensor,
    experts_ids: &Tensor,
    topk: usize,
    _is_prefill: bool,
) -> Result<Tensor> {
    let input = input.contiguous()?;
    let (x, w) = (input.storage_and_layout(), weights.storage_and_layout());
    let (list, topk) = ((sorted_token_ids, experts_ids), topk_of(topk_weights, topk));
    with_pairs(list, topk_weights, topk, |pairs| {
        ops::moe_gemm(on_rocm(&x)?, on_rocm(&w)?, pairs)
    })
}

/// As CUDA's, for every format of blocks. Rows are rounded to 8 bits as in other products with quantized tensors, so
/// `_dtype`, a type for the rows of prompts, is not used.
#[allow(clippy::too_many_arguments)]
pub fn moe_gemm_gguf(
    input: &Tensor,
    weights: &QTensor,
    topk_weights: &Option<Tensor>,
    sorted_token_ids: &Tensor,
    experts_ids: &Tensor,
    topk: usize,
    _is_prefill: bool,
    _dtype: DType,
) -> Result<Tensor> {
    let x = input.storage_and_layout();
    let (list, topk) = ((sorted_token_ids, experts_ids), topk_of(topk_weights, topk));
    with_pairs(list, topk_weights, topk, |pairs| {
        ops::moe_gemm_gguf(on_rocm(&x)?, weights, pairs)
    })
}

/// How many pairs a row has: with weights there is a row for each.
fn topk_of(topk_weights: &Option<Tensor>, topk: usize) -> usize {
    match topk_weights {
        Some(_) => 1,
        None => topk,
    }
}

/// The tensor of what a list of pairs gives.
fn with_pairs(
    (order, experts): (&Tensor, &Tensor),
    weights: &Option<Tensor>,
    shared: usize,
    products: impl FnOnce(Pairs<'_>) -> Result<(RocmStorage, Shape)>,
) -> Result<Tensor> {
    let (order, experts) = (order.storage_and_layout(), experts.storage_and_layout());
    let weights = weights.as_ref().map(Tensor::storage_and_layout);
    let (storage, shape) = products(Pairs {
        order: on_rocm(&order)?,
        experts: on_rocm(&experts)?,
        weights: weights.as_ref().map(on_rocm).transpose()?,
        shared,
    })?;
    let (storage, none) = (Storage::Rocm(storage), BackpropOp::none());
    Ok(Tensor::from_storage(storage, shape, none, false))
}

/// A tensor's memory and the view of it; an error if that is not a ROCm device's.
fn on_rocm<'a, S: Deref<Target = Storage>>(
    (storage, layout): &'a (S, &'a Layout),
) -> Result<(&'a RocmStorage, &'a Layout)> {
    match &**storage {
        Storage::Rocm(storage) => Ok((storage, layout)),
        _ => candle::bail!("experts are only implemented for the cuda and rocm backends"),
    }
}
