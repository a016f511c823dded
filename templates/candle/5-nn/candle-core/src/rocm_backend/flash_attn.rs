//! Flash attention with the functions and arguments of candle-flash-attn: attention in one pass over keys and values,
//! with windows, ALiBi slopes, soft caps, sequences of different lengths, and keys and values in pages.
//!
//! A program that calls `candle_flash_attn` names this module instead. Tensors are bf16, f16 or f32, of any head size,
//! and lie on one ROCm device; their last dimension is contiguous. Heads of queries are a multiple of the heads of keys. A
//! query that sees no key has zeros as its result. There is no gradient.
//!
//! Query i of m is at place i + n - m among n keys. A window says how many keys before that place and behind it a query
//! sees, `None` for all; `causal` is a window of none behind it.
use crate::{CpuStorage, CustomOp3, Layout, Result, Shape, Tensor};

/// How scores are made.
pub struct FlashAttn {
    pub softmax_scale: f32,
    /// f32 (heads): what a score loses for each place between query and key.
    pub alibi_slopes: Option<Tensor>,
    pub window_size_left: Option<usize>,
    pub window_size_right: Option<usize>,
    /// Scores s become c * tanh(s / c). `None` or 0 for none.
    pub softcap: Option<f32>,
}

/// Sequences of different lengths, whose rows lie one behind another.
pub(crate) struct Sequences {
    /// u32: where the queries of each begin, and the end of the last ones.
    pub(crate) queries: Tensor,
    /// The same of keys; with pages, only the differences count.
    pub(crate) keys: Tensor,
    /// Queries and keys of a sequence at most.
    pub(crate) most: [usize; 2],
    pub(crate) pages: Option<Pages>,
}

/// Keys and values are (pages, keys of a page, heads, head size).
pub(crate) struct Pages {
    /// u32 or i32 (sequences, pages): the pages of each.
    pub(crate) table: Tensor,
    pub(crate) size: usize,
    /// i32 (sequences, groups, 2): keys from the first number to before the second see each other whatever the window.
    pub(crate) groups: Option<Tensor>,
}

struct FlashAttnVarLen {
    attention: FlashAttn,
    sequences: Sequences,
}

impl FlashAttn {
    fn of_sequences(
        self,
        [q, k, v]: [&Tensor; 3],
        [queries, keys]: [&Tensor; 2],
        most: [usize; 2],
        pages: Option<Pages>,
    ) -> Result<Tensor> {
        let op = FlashAttnVarLen {
            attention: self,
            sequences: Sequences {
                queries: queries.contiguous()?,
                keys: keys.contiguous()?,
                most,
                pages,
            },
        };
        q.apply_op3(k, v, op)
    }
}

macro_rules! operation {
    ($type:ty, $name:literal, $parts:expr) => {
        impl CustomOp3 for $type {
            fn name(&self) -> &'static str {
                $name
            }

            fn cpu_fwd(
                &self,
                _: &CpuStorage,
                _: &Layout,
                _: &CpuStorage,
                _: &Layout,
                _: &CpuStorage,
                _: &Layout,
            ) -> Result<(CpuStorage, Shape)> {
                crate::bail!(concat!($name, " has no implementation for the CPU"))
            }

            #[cfg(feature = "rocm")]
            fn rocm_fwd(
                &self,
                q: &crate::RocmStorage,
                q_l: &Layout,
                k: &crate::RocmStorage,
                k_l: &Layout,
                v: &crate::RocmStorage,
                v_l: &Layout,
            ) -> Result<(crate::RocmStorage, Shape)> {
                let parts: fn(&$type) -> (&FlashAttn, Option<&Sequences>) = $parts;
                let (attention, sequences) = parts(self);
                let operands = [(q, q_l), (k, k_l), (v, v_l)];
                crate::rocm_backend::ops::flash_attn(operands, attention, sequences)
            }
        }
    };
}

operation!(FlashAttn, "flash-attn", |op| (op, None));
operation!(FlashAttnVarLen, "flash-attn-varlen", |op| (
    &op.attention,
    Some(&op.sequences)
));

fn right(causal: bool) -> Option<usize> {
    causal.then_some(0)
}

/// softmax(q k^T * softmax_scale) v.
///
/// q is (batch, queries, heads, head size), k and v (batch, keys, key heads, head size); the result has q's shape.
pub fn flash_attn(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    softmax_scale: f32,
    causal: bool,
) -> Result<Tensor> {
    flash_attn_windowed(q, k, v, softmax_scale, None, right(causal))
}

/// As `flash_attn`, with a window.
pub fn flash_attn_windowed(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    softmax_scale: f32,
    window_size_left: Option<usize>,
    window_size_right: Option<usize>,
) -> Result<Tensor> {
    let (left, right) = (window_size_left, window_size_right);
    flash_attn_alibi_windowed_softcap(q, k, v, None, softmax_scale, left, right, 0.)
}

/// As `flash_attn`; a score loses its head's slope for each place between query and key. Slopes are f32 (heads).
pub fn flash_attn_alibi(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    alibi_slopes: &Tensor,
    softmax_scale: f32,
    causal: bool,
) -> Result<Tensor> {
    flash_attn_alibi_windowed(q, k, v, alibi_slopes, softmax_scale, None, right(causal))
}

/// As `flash_attn_alibi`, with a window.
pub fn flash_attn_alibi_windowed(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    alibi_slopes: &Tensor,
    softmax_scale: f32,
    window_size_left: Option<usize>,
    window_size_right: Option<usize>,
) -> Result<Tensor> {
    let (slopes, left, right) = (Some(alibi_slopes), window_size_left, window_size_right);
    flash_attn_alibi_windowed_softcap(q, k, v, slopes, softmax_scale, left, right, 0.)
}

/// As `flash_attn_alibi_windowed`; scores s become softcap * tanh(s / softcap) before slopes are taken off; 0 for none.
#[allow(clippy::too_many_arguments)]
pub fn flash_attn_alibi_windowed_softcap(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    alibi_slopes: Option<&Tensor>,
    softmax_scale: f32,
    window_size_left: Option<usize>,
    window_size_right: Option<usize>,
    softcap: f32,
) -> Result<Tensor> {
    let attention = FlashAttn {
        softmax_scale,
        alibi_slopes: alibi_slopes.cloned(),
        window_size_left,
        window_size_right,
        softcap: Some(softcap),
    };
    q.apply_op3(k, v, attention)
}

/// As `flash_attn` for sequences of different lengths.
///
/// q is (all queries, heads, head size), k and v (all keys, key heads, head size); the result has q's shape. Of
/// `seqlens_q` and `seqlens_k`, u32 (sequences + 1), number i is where the rows of sequence i begin, and the last one
/// where they end.
/// No sequence has more than `max_seqlen_q` queries and `max_seqlen_k` keys; rows that belong to none have any values.
#[allow(clippy::too_many_arguments)]
pub fn flash_attn_varlen(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    seqlens_q: &Tensor,
    seqlens_k: &Tensor,
    max_seqlen_q: usize,
    max_seqlen_k: usize,
    softmax_scale: f32,
    causal: bool,
) -> Result<Tensor> {
    flash_attn_varlen_windowed(
        q,
        k,
        v,
        seqlens_q,
        seqlens_k,
        max_seqlen_q,
        max_seqlen_k,
        softmax_scale,
        None,
        right(causal),
    )
}

/// As `flash_attn_varlen`, with a window.
#[allow(clippy::too_many_arguments)]
pub fn flash_attn_varlen_windowed(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    seqlens_q: &Tensor,
    seqlens_k: &Tensor,
    max_seqlen_q: usize,
    max_seqlen_k: usize,
    softmax_scale: f32,
    window_size_left: Option<usize>,
    window_size_right: Option<usize>,
) -> Result<Tensor> {
    flash_attn_varlen_alibi_windowed_softcap(
        q,
        k,
        v,
        None,
        seqlens_q,
        seqlens_k,
        max_seqlen_q,
        max_seqlen_k,
        softmax_scale,
        window_size_left,
        window_size_right,
        0.,
    )
}

/// As `flash_attn_varlen`, with the slopes of `flash_attn_alibi`.
#[allow(clippy::too_many_arguments)]
pub fn flash_attn_varlen_alibi(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    alibi_slopes: &Tensor,
    seqlens_q: &Tensor,
    seqlens_k: &Tensor,
    max_seqlen_q: usize,
    max_seqlen_k: usize,
    softmax_scale: f32,
    causal: bool,
) -> Result<Tensor> {
    flash_attn_varlen_alibi_windowed(
        q,
        k,
        v,
        alibi_slopes,
        seqlens_q,
        seqlens_k,
        max_seqlen_q,
        max_seqlen_k,
        softmax_scale,
        None,
        right(causal),
    )
}

/// As `flash_attn_varlen_alibi`, with a window.
#[allow(clippy::too_many_arguments)]
pub fn flash_attn_varlen_alibi_windowed(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    alibi_slopes: &Tensor,
    seqlens_q: &Tensor,
    seqlens_k: &Tensor,
    max_seqlen_q: usize,
    max_seqlen_k: usize,
    softmax_scale: f32,
    window_size_left: Option<usize>,
    window_size_right: Option<usize>,
) -> Result<Tensor> {
    flash_attn_varlen_alibi_windowed_softcap(
        q,
        k,
        v,
        Some(alibi_slopes),
        seqlens_q,
        seqlens_k,
        max_seqlen_q,
        max_seqlen_k,
        softmax_scale,
        window_size_left,
        window_size_right,
        0.,
    )
}

/// As `flash_attn_varlen_alibi_windowed`, with the soft cap of `flash_attn_alibi_windowed_softcap`.
#[allow(clippy::too_many_arguments)]
pub fn flash_attn_varlen_alibi_windowed_softcap(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    alibi_slopes: Option<&Tensor>,
    seqlens_q: &Tensor,
    seqlens_k: &Tensor,
    max_seqlen_q: usize,
    max_seqlen_k: usize,
    softmax_scale: f32,
    window_size_left: Option<usize>,
    window_size_right: Option<usize>,
    softcap: f32,
) -> Result<Tensor> {
    let attention = FlashAttn {
        softmax_scale,
        alibi_slopes: alibi_slopes.cloned(),
        window_size_left,
        window_size_right,
        softcap: Some(softcap),
    };
    let most = [max_seqlen_q, max_seqlen_k];
    attention.of_sequences([q, k, v], [seqlens_q, seqlens_k], most, None)
}

/// As `flash_attn_varlen_windowed`, with keys and values in pages of `page_block_size` keys, which may be any number.
///
/// k and v are (pages, keys of a page, key heads, head size). `block_table`, u32 or i32 (sequences, pages of a
/// sequence), has the pages of each; `seqlens_k` only says how many keys a sequence has. `mm_prefix_ranges`, i32
/// (sequences, groups, 2), are groups of neighbouring keys that see each other whatever the window: the first one, and
/// the one behind the last.
#[allow(clippy::too_many_arguments)]
pub fn flash_attn_varlen_paged_windowed(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    seqlens_q: &Tensor,
    seqlens_k: &Tensor,
    block_table: &Tensor,
    mm_prefix_ranges: Option<&Tensor>,
    max_seqlen_q: usize,
    max_seqlen_k: usize,
    softmax_scale: f32,
    window_size_left: Option<usize>,
    window_size_right: Option<usize>,
    page_block_size: usize,
    softcap: Option<f32>,
) -> Result<Tensor> {
    let attention = FlashAttn {
        softmax_scale,
        alibi_slopes: None,
        window_size_left,
        window_size_right,
        softcap,
    };
    let pages = Pages {
        table: block_table.contiguous()?,
        size: page_block_size,
        groups: mm_prefix_ranges.map(Tensor::contiguous).transpose()?,
    };
    let most = [max_seqlen_q, max_seqlen_k];
    attention.of_sequences([q, k, v], [seqlens_q, seqlens_k], most, Some(pages))
}
