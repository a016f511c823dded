//! Rows added to those that indices name.
use super::binary::same_types;
use super::copy::contiguous;
use super::ids::{require_contiguous, Indices, ADDING};
use super::operand::Operand;
use crate::rocm_backend::plan::{self, Contiguous};
use crate::rocm_backend::RocmStorage;
use crate::{Layout, Result};

/// A copy of x with rows added: y[l, ids[i], r] = x[l, ids[i], r] + src[l, i, r], the indices in one dimension.
pub(in crate::rocm_backend) fn index_add(
    x: &RocmStorage,
    layout: &Layout,
    ids: &RocmStorage,
    ids_layout: &Layout,
    src: &RocmStorage,
    src_layout: &Layout,
    dim: usize,
) -> Result<RocmStorage> {
    const OP: &str = "index-add";
    let (x, src) = same_types(x, src, layout, src_layout, OP)?;
    require_contiguous(&[src_layout, ids_layout], OP)?;
    let ids = Operand::new(ids, ids_layout);
    let ids = Indices::new(ids, ADDING, layout.dims()[dim], OP)?;
    let mut output = contiguous(x)?;
    let y = Contiguous {
        start: output.pointer_mut(),
        element: x.element(OP)?,
        shape: layout.dims(),
    };
    let (device, src) = (x.device(), src.contiguous(OP)?);
    plan::index_add(device, y, ids.planned(), src, dim, None)?;
    ids.check()?;
    Ok(output)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rocm_backend::plan::Launcher;
    use crate::rocm_backend::testing::{gpu, launches_of};
    use crate::{DType, Device, Tensor};

    #[test]
    fn rows_are_added_by_blocks() -> Result<()> {
        let Some(device) = gpu("rows_are_added_by_blocks") else {
            return Ok(());
        };
        let [rows, most] = {
            let limits = device.limits();
            [limits.blocks, limits.blocks_y].map(|blocks| blocks as u32)
        };
        let device = Device::Rocm(device);
        let (plain, sorted) = ("index_add_f32", "index_add_f32_sorted");
        for (dtype, n, right, kernel, grid) in [
            (DType::F32, 3, 32, plain, [3, 1]),
            // 16 bytes to a thread, or 4 elements of one byte: 256 threads to a block.
            (DType::F32, 3, 1024, plain, [3, 1]),
            (DType::F32, 3, 1025, plain, [3, 2]),
            (DType::F16, 3, 2048, "index_add_f16", [3, 1]),
            (DType::F16, 3, 2049, "index_add_f16", [3, 2]),
            (DType::U8, 3, 1024, "index_add_u8", [3, 1]),
            (DType::U8, 3, 1025, "index_add_u8", [3, 2]),
            (DType::F64, 3, 513, "index_add_f64", [3, 2]),
            (DType::F32, 2, 9999, plain, [2, most]),
            (DType::F32, 1024, 32, plain, [1024.min(rows), 1]),
            // Sorted indices: a row of 32 takes 8 threads, and a block 32 such rows.
            (DType::F32, 1025, 32, sorted, [33.min(rows), 1]),
            // Short rows of few indices: an element to a thread, as long as there are few of them.
            (DType::F32, 3, 31, "index_add_f32_few", [1, 1]),
            (DType::F16, 64, 31, "index_add_f16_few", [8.min(rows), 1]),
        ] {
            let x = Tensor::zeros((5, right), dtype, &device)?;
            let src = Tensor::zeros((n, right), dtype, &device)?;
            let ids = Tensor::zeros(n, DType::U32, &device)?;
            let (result, launches) = launches_of(|| x.index_add(&ids, &src, 0));
            result?;
            let last = launches.last().expect("it is launched");
            let found = (last.kernel.as_str(), [last.grid[0], last.grid[1]]);
            assert_eq!(found, (kernel, grid), "{n} rows of {right}");
            let sorts = launches.iter().filter(|l| l.kernel.starts_with("argsort"));
            assert_eq!(sorts.count() > 0, kernel == sorted);
        }
        let (x, src) = (
            Tensor::zeros((5, 31), DType::F32, &device)?,
            Tensor::zeros((257, 31), DType::F32, &device)?,
        );
        let ids = Tensor::zeros(257, DType::U32, &device)?;
        let (result, launches) = launches_of(|| x.index_add(&ids, &src, 0));
        result?;
        let last = launches.last().expect("it is launched");
        assert!(
            last.kernel.starts_with("scatter_add_f32"),
            "{}",
            last.kernel
        );
        // Without rows nothing is added.
        let (none, no_ids) = (src.narrow(0, 0, 0)?, ids.narrow(0, 0, 0)?);
        let (result, launches) = launches_of(|| x.index_add(&no_ids, &none, 0));
        result?;
        assert!(!launches.iter().any(|launch| launch.kernel.contains("_add")));
        let wide = Tensor::zeros((5, 64), DType::F32, &device)?;
        let none = wide.narrow(0, 0, 0)?;
        let (result, launches) = launches_of(|| wide.index_add(&no_ids, &none, 0));
        result?;
        assert!(!launches.iter().any(|launch| launch.kernel.contains("_add")));
        Ok(())
    }
}
