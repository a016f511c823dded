//! Views of a storage, on their way off the device.
use super::RocmStorage;
use crate::backend::{BackendDevice, BackendStorage};
use crate::op::BackpropOp;
use crate::tensor::from_storage;
use crate::{Layout, Result, Storage, Tensor};

impl RocmStorage {
    /// Whether the memory holds more elements than the view has, so that moving all of it would be a waste.
    pub fn exceeds(&self, layout: &Layout) -> bool {
        let view = layout.shape().elem_count() * self.dtype().size_in_bytes();
        view > 0 && view < self.size()
    }

    /// The elements of the view alone, in its order, in memory of their own on the same device.
    pub fn packed(&self, layout: &Layout) -> Result<Self> {
        let device = BackendStorage::device(self);
        // SAFETY: the copy writes all elements before anyone reads them.
        let mut packed = unsafe { device.alloc_uninit(layout.shape(), self.dtype())? };
        self.copy_strided_src(&mut packed, 0, layout)?;
        Ok(packed)
    }

    /// The view as a contiguous tensor on the CPU, without gradient.
    pub fn read_view(&self, layout: &Layout) -> Result<Tensor> {
        let view = Storage::Cpu(self.packed(layout)?.to_cpu_storage()?);
        let op = BackpropOp::none();
        Ok(from_storage(view, layout.shape(), op, false))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::gpu;
    use crate::rocm_backend::RocmStorage;
    use crate::{DType, Layout, Result};

    #[test]
    fn a_view_of_less_than_the_memory_is_exceeded() -> Result<()> {
        let Some(device) = gpu("a_view_of_less_than_the_memory_is_exceeded") else {
            return Ok(());
        };
        let storage = RocmStorage::new(40, DType::F32, &device)?;
        for (elements, expected) in [(0usize, false), (1, true), (9, true), (10, false)] {
            let found = storage.exceeds(&Layout::contiguous(elements));
            assert_eq!(found, expected, "{elements} of ten elements");
        }
        // A view that repeats elements may have more than the memory.
        let repeated = Layout::contiguous((10, 1)).broadcast_as((10, 3))?;
        assert!(!storage.exceeds(&repeated));
        Ok(())
    }
}
