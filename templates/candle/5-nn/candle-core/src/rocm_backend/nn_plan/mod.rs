//! Plans the launches of candle-nn's fused operations, as `plan` does and with its parts.
mod flash;
mod norm;
mod rope;
mod rows;
mod sdpa;
mod softmax;

pub(crate) use flash::{Flash, Sequences, Table, Window};
pub(crate) use norm::{add_rms_norm, norm};
pub(crate) use rope::{rope, rope_append, Caches, Next, Rotation};
pub use sdpa::Scores;
pub(crate) use sdpa::{sdpa, Attention};
pub(crate) use softmax::softmax;
