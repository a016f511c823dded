//! What the crate's own tests need: a GPU, a process of their own, and how often HIP was called.
mod alone;
mod calls;
mod devices;

pub(crate) use alone::is_alone;
pub(crate) use calls::with_calls;
pub(crate) use devices::{gpu, gpu_of};
