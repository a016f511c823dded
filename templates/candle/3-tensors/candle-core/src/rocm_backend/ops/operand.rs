//! Tensors as operations see them.
use crate::rocm_backend::element::element;
use crate::rocm_backend::hip::HipResult;
use crate::rocm_backend::plan::table::Element;
use crate::rocm_backend::plan::{self, Contiguous, Kernel, Op, Output, Pointer, View};
use crate::rocm_backend::{RocmDevice, RocmStorage};
use crate::{DType, Error, Layout, Result};

/// Memory and the view of it that is meant.
#[derive(Clone, Copy)]
pub(super) struct Operand<'a> {
    pub(super) storage: &'a RocmStorage,
    pub(super) layout: &'a Layout,
}

impl<'a> Operand<'a> {
    pub(super) fn new(storage: &'a RocmStorage, layout: &'a Layout) -> Self {
        Self { storage, layout }
    }

    pub(super) fn device(&self) -> &'a RocmDevice {
        self.storage.device()
    }

    pub(super) fn dtype(&self) -> DType {
        self.storage.dtype()
    }

    /// Bytes of an element.
    pub(super) fn size(&self) -> usize {
        self.dtype().size_in_bytes()
    }

    /// The element type that kernels have for it; an error that names `op` if there is none.
    pub(super) fn element(&self, op: &'static str) -> Result<Element> {
        element(self.dtype(), op)
    }

    pub(super) fn view(&self) -> View<'a> {
        View::from(self.layout)
    }

    /// As plans of launches see it.
    pub(super) fn planned(&self) -> plan::Operand<'a> {
        plan::Operand {
            base: self.base(),
            size: self.size(),
            view: self.view(),
        }
    }

    /// As plans see contiguous tensors, of which it is one; an error that names `op` if kernels have no such elements.
    pub(super) fn contiguous(&self, op: &'static str) -> Result<Contiguous<'a>> {
        Ok(Contiguous {
            start: self.start(),
            element: self.element(op)?,
            shape: self.layout.dims(),
        })
    }

    /// Where the memory begins; views count their offsets from there.
    pub(super) fn base(&self) -> Pointer {
        self.storage.pointer()
    }

    /// Where the view's first element is.
    pub(super) fn start(&self) -> Pointer {
        self.base().offset(self.layout.start_offset() * self.size())
    }
}

impl<'a> From<&'a Layout> for View<'a> {
    fn from(layout: &'a Layout) -> Self {
        Self {
            shape: layout.dims(),
            strides: layout.stride(),
            offset: layout.start_offset(),
        }
    }
}

/// A new contiguous tensor of `x`'s shape, which launches write to.
pub(super) fn made(
    x: Operand<'_>,
    dtype: DType,
    launches: impl FnOnce(&RocmDevice, Output) -> HipResult<()>,
) -> Result<RocmStorage> {
    let made = uninit(x.layout.shape().elem_count(), dtype, x.device())?;
    let (start, size) = (made.pointer(), dtype.size_in_bytes());
    launches(x.device(), Output { start, size })?;
    Ok(made)
}

/// The op's kernel for these types; an error that names Candle's operation if there is none.
pub(super) fn kernel(
    op: &Op,
    types: &[Element],
    dtype: DType,
    name: &'static str,
) -> Result<Kernel> {
    op.kernel(types)
        .ok_or_else(|| Error::UnsupportedDTypeForOp(dtype, name).bt())
}

/// As `kernel`, of an op with several; `form` is a number that the op's family has a name for.
pub(super) fn kernel_form(
    op: &Op,
    form: usize,
    types: &[Element],
    dtype: DType,
    name: &'static str,
) -> Result<Kernel> {
    op.variant(form, types)
        .ok_or_else(|| Error::UnsupportedDTypeForOp(dtype, name).bt())
}

/// New memory for `count` elements, with unspecified contents.
pub(super) fn uninit(count: usize, dtype: DType, device: &RocmDevice) -> Result<RocmStorage> {
    RocmStorage::new(count * dtype.size_in_bytes(), dtype, device)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rocm_backend::testing::gpu;

    #[test]
    fn a_view_starts_so_many_elements_behind_its_memory() -> Result<()> {
        let Some(device) = gpu("a_view_starts_so_many_elements_behind_its_memory") else {
            return Ok(());
        };
        for (dtype, bytes) in [(DType::U8, 5), (DType::BF16, 10), (DType::F64, 40)] {
            let x = uninit(15, dtype, &device)?;
            assert_eq!(x.size(), 3 * bytes);
            let layout = Layout::contiguous_with_offset((2, 5), 5);
            let x = Operand::new(&x, &layout);
            assert_eq!(x.start(), x.base().offset(bytes), "{dtype:?}");
        }
        Ok(())
    }
}
