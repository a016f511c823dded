//! Attention over a cache that is not full.
use candle::{DType, Result, Tensor};
use candle_nn::ops;

/// Queries are (1, heads, tokens, head), keys and values (1, key heads, capacity, head), and the mask (1, 1, tokens,
/// capacity).
pub fn attend(queries: &Tensor, keys: &Tensor, values: &Tensor, mask: &Tensor) -> Result<Tensor> {
    let (_, heads, tokens, head) = queries.dims4()?;
    let (_, key_heads, capacity, _) = keys.dims4()?;
    let scale = (head as f64).powf(-0.5);
    if queries.device().is_rocm() {
        let mask = mask.broadcast_as((1, heads, tokens, capacity))?;
        return ops::sdpa(queries, keys, values, Some(&mask), false, scale as f32, 1.);
    }
    // All queries of a head of keys are rows of one product.
    let rows = heads / key_heads * tokens;
    let queries = queries.reshape((1, key_heads, rows, head))?;
    let scores = (queries.matmul(&keys.t()?)? * scale)?;
    let scores = scores.reshape((1, heads, tokens, capacity))?;
    let scores = scores.broadcast_add(mask)?.to_dtype(DType::F32)?;
    let shares = ops::softmax_last_dim(&scores)?.to_dtype(values.dtype())?;
    let shares = shares.reshape((1, key_heads, rows, capacity))?;
    shares.matmul(values)?.reshape((1, heads, tokens, head))
}
