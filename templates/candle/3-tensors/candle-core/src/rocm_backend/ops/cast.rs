//! One element type to another.
use super::copy::contiguous;
use super::operand::{kernel, made, Operand};
use crate::rocm_backend::element::element;
use crate::rocm_backend::plan::{self, table::cast};
use crate::rocm_backend::RocmStorage;
use crate::{DType, Layout, Result};

/// A new contiguous tensor with the elements as another type.
pub(crate) fn to_dtype(x: &RocmStorage, layout: &Layout, dtype: DType) -> Result<RocmStorage> {
    let x = Operand::new(x, layout);
    if x.dtype() == dtype {
        return contiguous(x);
    }
    let types = [x.element("to_dtype")?, element(dtype, "to_dtype")?];
    let kernel = kernel(&cast::CAST, &types, x.dtype(), "to_dtype")?;
    made(x, dtype, |device, y| {
        plan::cast(device, kernel, x.planned(), y)
    })
}
