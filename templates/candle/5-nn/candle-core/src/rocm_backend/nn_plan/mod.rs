//! What is launched for the fused operations of candle-nn: as `plan`, and with its means.
mod norm;
mod rows;
mod softmax;

pub(crate) use norm::norm;
pub(crate) use softmax::softmax;
