//! What of the keys a query does not see: masks and causality.
use super::{wide, Configuration, Random};
use candle::{DType, Device, Result, Tensor};
use candle_nn::ops;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Masking {
    Plain,
    Mask,
    Causal,
}

impl Masking {
    pub(crate) fn random(random: &mut Random) -> Self {
        random.choose(&[Self::Plain, Self::Mask, Self::Causal])
    }

    /// A query that sees no key has no attention.
    pub(crate) fn keys(self, keys: usize, queries: usize) -> usize {
        match self {
            Self::Causal => keys.max(queries),
            _ => keys,
        }
    }
}

/// Numbers between -1 and 1, and -inf for about a quarter of the keys, but never for all of a query's.
pub(crate) fn mask(c: &Configuration, random: &mut Random) -> Result<Option<Tensor>> {
    if c.masking != Masking::Mask {
        return Ok(None);
    }
    let [[batch, heads, queries, _], [_, _, keys, _], _] = c.shapes();
    // One mask for all heads, or one for each.
    let masks = random.choose(&[1, heads]);
    let mut numbers = Vec::with_capacity(batch * masks * queries * keys);
    for row in 0..batch * masks * queries {
        for key in 0..keys {
            let hidden = random.next().is_multiple_of(4) && key != row % keys;
            numbers.push(if hidden {
                f32::NEG_INFINITY
            } else {
                random.number()
            });
        }
    }
    let mask = Tensor::from_vec(numbers, (batch, masks, queries, keys), &Device::Cpu)?;
    Ok(Some(mask.to_dtype(c.dtype)?))
}

/// Scores that keep no trace of what is hidden.
pub(crate) fn hide(c: &Configuration, scores: Tensor, mask: Option<&Tensor>) -> Result<Tensor> {
    let scores = match mask {
        Some(mask) => scores.broadcast_add(&wide(mask)?)?,
        None => scores,
    };
    if c.masking != Masking::Causal {
        return Ok(scores);
    }
    let hidden = (0..c.queries * c.keys).map(|i| {
        let (query, key) = (i / c.keys, i % c.keys);
        if key + c.queries > query + c.keys {
            f64::NEG_INFINITY
        } else {
            0.
        }
    });
    let hidden = Tensor::from_vec(hidden.collect(), (c.queries, c.keys), &Device::Cpu)?;
    scores.broadcast_add(&hidden)
}

/// candle-nn's attention, with a mask that lies on the CPU.
pub(crate) fn sdpa(
    c: &Configuration,
    [q, k, v]: [&Tensor; 3],
    mask: Option<&Tensor>,
) -> Result<Tensor> {
    let mask = match mask {
        Some(mask) => {
            let shape = (c.batch, c.key_heads * c.group, c.queries, c.keys);
            Some(mask.to_device(q.device())?.broadcast_as(shape)?)
        }
        None => None,
    };
    let causal = c.masking == Masking::Causal;
    ops::sdpa(q, k, v, mask.as_ref(), causal, c.scale(), c.cap)
}

/// Where every query sees every key.
pub(crate) fn plain_sdpa(q: &Tensor, k: &Tensor, v: &Tensor) -> Result<Tensor> {
    ops::sdpa(q, k, v, None, false, 1., 1.)
}

/// Asserts that masks which do not fit are errors; q is of (2, 4, 3, 8), and k of (2, 2, 5, 8).
pub(crate) fn check_errors(q: &Tensor, k: &Tensor) -> Result<()> {
    let masked = |mask: &Tensor| ops::sdpa(q, k, k, Some(mask), false, 1., 1.);
    let mask = Tensor::zeros((2, 4, 3, 5), DType::F32, q.device())?;
    masked(&mask)?;
    let errors = [
        ("mask's shape", masked(&mask.narrow(1, 0, 1)?.contiguous()?)),
        ("mask's device", masked(&mask.to_device(&Device::Cpu)?)),
        ("mask's type", masked(&mask.to_dtype(DType::F16)?)),
    ];
    for (why, result) in errors {
        assert!(result.is_err(), "{why}");
    }
    Ok(())
}
