//! Elements of one tensor or another.
use super::binary::same_types;
use super::elementwise::elementwise;
use super::operand::{kernel, Operand};
use crate::rocm_backend::kernels::table::r#where;
use crate::rocm_backend::RocmStorage;
use crate::{Layout, Result};

/// `on_true` where the condition is not 0, else `on_false`.
pub(in crate::rocm_backend) fn where_cond(
    condition: &RocmStorage,
    layout: &Layout,
    on_true: &RocmStorage,
    true_layout: &Layout,
    on_false: &RocmStorage,
    false_layout: &Layout,
) -> Result<RocmStorage> {
    const OP: &str = "where-cond";
    let condition = Operand::new(condition, layout);
    let (yes, no) = same_types(on_true, on_false, true_layout, false_layout, OP)?;
    if condition.dtype().is_float() {
        return Err(crate::Error::UnsupportedDTypeForOp(condition.dtype(), OP).bt());
    }
    let types = [condition.element(OP)?.bits(), yes.element(OP)?.bits()];
    let kernel = kernel(&r#where::WHERE, &types, yes.dtype(), OP)?;
    elementwise(
        kernel,
        r#where::BLOCK,
        [condition, yes, no],
        yes.dtype(),
        &[],
    )
}
