//! What the crate's own tests need: a GPU, a process of their own, and what the device was asked for.
mod alone;
mod calls;
mod devices;
mod disguised;
mod launches;
mod products;

pub(crate) use alone::is_alone;
pub(crate) use calls::with_calls;
pub(crate) use devices::{gpu, gpu_of};
pub(crate) use disguised::Disguised;
pub(crate) use launches::{allocations_of, is_emulated, launches_of, record, Launched};
pub(crate) use products::{by_rocblas, OWN_PRODUCTS};
