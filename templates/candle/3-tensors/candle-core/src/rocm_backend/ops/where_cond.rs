//! Elements of one tensor or another.
use super::binary::same_types;
use super::operand::{kernel, made, Operand};
use crate::rocm_backend::plan::{self, table::r#where};
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
    let operands = [condition, yes, no].map(|x| x.planned());
    made(yes, yes.dtype(), |device, y| {
        plan::select(device, kernel, operands, y)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::BackendDevice;
    use crate::rocm_backend::testing::{gpu, launches_of};

    #[test]
    fn each_launch_goes_on_where_the_one_before_ended() -> Result<()> {
        let Some(device) = gpu("each_launch_goes_on_where_the_one_before_ended") else {
            return Ok(());
        };
        // 1000 rows of 9 elements: those of the condition are parts of rows, the others columns.
        let chosen: Vec<u8> = (0..1000 * 11).map(|i| (i * i % 7 < 3).into()).collect();
        let yes: Vec<f64> = (0..9000).map(f64::from).collect();
        let no: Vec<f64> = yes.iter().map(|value| -value).collect();
        let on_device = |of: &[f64]| device.storage_from_slice(of);
        let (condition, a, b) = (
            device.storage_from_slice(&chosen)?,
            on_device(&yes)?,
            on_device(&no)?,
        );
        let parts = Layout::contiguous((1000, 11)).narrow(1, 1, 9)?;
        let turned = Layout::contiguous((9, 1000)).transpose(0, 1)?;
        let choose = || where_cond(&condition, &parts, &a, &turned, &b, &turned);
        let (y, launches) = launches_of(choose);
        let y = y?;
        let mut found = vec![0; y.size()];
        y.copy_to_host(&mut found)?;
        let mut wanted: Vec<u8> = Vec::new();
        for (row, column) in (0..9000).map(|place| (place / 9, place % 9)) {
            let at = column * 1000 + row;
            let value = [no[at], yes[at]][usize::from(chosen[row * 11 + 1 + column])];
            wanted.extend(value.to_ne_bytes());
        }
        assert!(found == wanted);
        assert_eq!(launches.len(), 3); // of 455 rows each, and of the rest
        Ok(())
    }
}
