//! The places of each row's elements in sorted order.
use super::operand::{uninit, Operand};
use crate::rocm_backend::plan;
use crate::rocm_backend::RocmStorage;
use crate::{DType, Error, Layout, Result, Shape};

/// The u32 places that sort rows of `last_dim` elements, and their shape, which is that of `x`.
///
/// Equal elements stay in order, and NaN counts as larger than every number. An error for a view that is not contiguous,
/// and for rows of 2^31 elements or more.
pub fn argsort(
    x: &RocmStorage,
    layout: &Layout,
    last_dim: usize,
    ascending: bool,
) -> Result<(RocmStorage, Shape)> {
    const OP: &str = "argsort";
    let x = Operand::new(x, layout);
    if !layout.is_contiguous() {
        return Err(Error::RequiresContiguous { op: OP }.bt());
    }
    let (count, element) = (layout.shape().elem_count(), x.element(OP)?);
    let places = uninit(count, DType::U32, x.device())?;
    if count > 0 {
        if last_dim == 0 || count % last_dim != 0 {
            crate::bail!("{OP} of {count} elements in rows of {last_dim}")
        }
        let rows = plan::Contiguous {
            start: x.start(),
            element,
            shape: &[count / last_dim, last_dim],
        };
        plan::argsort(x.device(), rows, ascending, places.pointer())?;
    }
    Ok((places, layout.shape().clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rocm_backend::ops::zeros_impl;
    use crate::rocm_backend::testing::{allocations_of, gpu, launches_of, Launched};
    use crate::rocm_backend::RocmDevice;

    /// What sorting `rows` rows launches.
    fn sorted(
        device: &RocmDevice,
        dtype: DType,
        rows: usize,
        length: usize,
    ) -> Result<Vec<Launched>> {
        let shape = Shape::from((rows, length));
        let x = zeros_impl(device, &shape, dtype)?;
        let layout = Layout::contiguous(shape);
        let (result, launches) = launches_of(|| argsort(&x, &layout, length, true));
        result?;
        Ok(launches)
    }

    #[test]
    fn short_rows_share_a_tile() -> Result<()> {
        let Some(device) = gpu("short_rows_share_a_tile") else {
            return Ok(());
        };
        // A tile of 4096 pairs: a key, and a place of 2 bytes; after every 32 one is left out.
        for (dtype, lds) in [
            (DType::U8, 4224 * 4),
            (DType::F16, 4224 * 4),
            (DType::F32, 4224 * 6),
            (DType::I64, 4224 * 10),
        ] {
            for (rows, length, blocks) in [
                (512, 8, 1),
                (513, 8, 2),
                (512, 3, 1),
                (513, 1, 2),
                (256, 9, 1),
                (257, 9, 2),
                (3, 4096, 3),
                (40, 4096, 32), // as many blocks as a launch has
            ] {
                let launches = sorted(&device, dtype, rows, length)?;
                let [launch] = &launches[..] else {
                    panic!("one launch: {launches:?}")
                };
                let found = (launch.grid, launch.block[0], launch.lds);
                assert_eq!(found, ([blocks, 1, 1], 512, lds), "{rows} x {length}");
            }
        }
        Ok(())
    }

    #[test]
    fn longer_rows_are_merged() -> Result<()> {
        let Some(device) = gpu("longer_rows_are_merged") else {
            return Ok(());
        };
        for (length, tiles, merges) in [(4097, 2, 1), (8192, 2, 1), (8193, 3, 2), (17_000, 5, 3)] {
            let launches = sorted(&device, DType::F32, 2, length)?;
            let names: Vec<_> = launches
                .iter()
                .map(|launch| launch.kernel.as_str())
                .collect();
            let mut expected = vec!["argsort_b32_tiles"];
            expected.extend(vec!["argsort_b32_merge"; merges]);
            assert_eq!(names, expected, "{length}");
            assert!(launches
                .iter()
                .all(|launch| launch.grid == [2 * tiles, 1, 1]));
            // Places twice and keys; keys twice where they are merged more than once.
            let own = RocmDevice::new_with_stream(0)?;
            let shape = Shape::from((2, length));
            let x = zeros_impl(&own, &shape, DType::F32)?;
            let layout = Layout::contiguous(shape);
            let (result, blocks) = allocations_of(&own, || argsort(&x, &layout, length, true));
            result?;
            assert_eq!(blocks, if merges > 1 { 4 } else { 3 }, "{length}");
        }
        Ok(())
    }

    #[test]
    fn rows_make_up_the_elements() -> Result<()> {
        let Some(device) = gpu("rows_make_up_the_elements") else {
            return Ok(());
        };
        let x = zeros_impl(&device, &Shape::from(12), DType::F32)?;
        let by = |layout: &Layout, length| argsort(&x, layout, length, true).map(|_| ());
        let all = Layout::contiguous(12);
        by(&all, 4)?;
        assert!(by(&all, 5).is_err());
        assert!(by(&all, 0).is_err());
        assert!(by(&Layout::contiguous((3, 4)).transpose(0, 1)?, 3).is_err());
        by(&Layout::contiguous(0), 0)
    }
}
