//! What tests find that operations have asked of the device.
use super::calls::counter;
use crate::rocm_backend::blas::Product;
use crate::rocm_backend::RocmDevice;
use std::cell::RefCell;

/// Whether the device is the emulated one.
pub(crate) fn is_emulated() -> bool {
    counter::Counter::find().is_some()
}

/// A launch of one of our kernels, or a product by rocBLAS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Launched {
    pub(crate) kernel: String,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 2],
    pub(crate) lds: u32,
}

impl Launched {
    /// A call of rocBLAS: rows, columns and products for a grid.
    pub(in crate::rocm_backend) fn product(product: &Product) -> Self {
        Self {
            kernel: "product".into(),
            grid: [product.m, product.n, product.batch].map(|number| number as u32),
            ..Self::default()
        }
    }
}

thread_local! {
    static LAUNCHES: RefCell<Vec<Launched>> = const { RefCell::new(Vec::new()) };
}

/// What `work` launches from this thread, in order.
pub(crate) fn launches_of<T>(work: impl FnOnce() -> T) -> (T, Vec<Launched>) {
    LAUNCHES.take();
    let result = work();
    (result, LAUNCHES.take())
}

/// How many blocks of memory `work` takes on a device whose stream nobody else has.
pub(crate) fn allocations_of<T>(device: &RocmDevice, work: impl FnOnce() -> T) -> (T, u64) {
    let count = || {
        let stats = device.memory_stats();
        stats.device_allocations + stats.reuses
    };
    let before = count();
    let result = work();
    (result, count() - before)
}

/// Called for every launch.
pub(crate) fn record(launch: Launched) {
    LAUNCHES.with_borrow_mut(|launches| launches.push(launch));
}
