//! What is launched for the fused operations of candle-nn: as `plan`, and with its means.
mod norm;
mod rope;
mod rows;
mod sdpa;
mod softmax;

pub(crate) use norm::norm;
pub(crate) use rope::{rope, Rotation};
pub use sdpa::Scores;
pub(crate) use sdpa::{sdpa, Attention};
pub(crate) use softmax::softmax;
