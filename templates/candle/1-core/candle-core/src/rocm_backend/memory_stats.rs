//! Figures of a device's memory, which the dummy backend has, too.

/// How a device uses the memory that it took from its GPU. `allocated + cached` is what it holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryStats {
    /// Bytes in use, including what other streams still read of memory that was dropped. Blocks are a little larger
    /// than what was asked for.
    pub allocated: usize,
    /// Bytes that wait to be used again.
    pub cached: usize,
    /// The most that `allocated` has been.
    pub peak_allocated: usize,
    /// Allocations made by the GPU's runtime.
    pub device_allocations: u64,
    /// Those of them that were given back.
    pub device_frees: u64,
    /// Allocations served from the cache.
    pub reuses: u64,
}
