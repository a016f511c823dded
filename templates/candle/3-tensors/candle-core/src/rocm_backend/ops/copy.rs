//! Copies of views.
use super::operand::Operand;
use crate::rocm_backend::element::element;
use crate::rocm_backend::plan::{self, View};
use crate::rocm_backend::RocmStorage;
use crate::{Layout, Result};

/// A contiguous copy of a view, in row-major order.
pub(super) fn contiguous(x: Operand<'_>) -> Result<RocmStorage> {
    x.storage.packed(x.layout)
}

/// A copy of all of the memory, of which the layout is a view.
pub(in crate::rocm_backend) fn try_clone(x: &RocmStorage, _layout: &Layout) -> Result<RocmStorage> {
    x.duplicate()
}

/// Writes a view's elements in row-major order to `dst`, from its element `dst_offset` on.
pub(in crate::rocm_backend) fn copy_strided_src(
    src: &RocmStorage,
    dst: &mut RocmStorage,
    dst_offset: usize,
    layout: &Layout,
) -> Result<()> {
    let x = Operand::new(src, layout);
    let element = x.element("copy-strided")?;
    let y = dst.pointer_mut().offset(dst_offset * x.size());
    Ok(plan::contiguous(x.device(), x.planned(), element, y)?)
}

/// Copies `d1` rows of `d2` elements; rows of source and destination lie at the given distances.
#[allow(clippy::too_many_arguments)]
pub(in crate::rocm_backend) fn copy2d(
    src: &RocmStorage,
    dst: &mut RocmStorage,
    d1: usize,
    d2: usize,
    src_stride1: usize,
    dst_stride1: usize,
    src_offset: usize,
    dst_offset: usize,
) -> Result<()> {
    let shape = [d1, d2];
    let (from, to) = ([src_stride1, 1], [dst_stride1, 1]);
    let size = src.dtype().size_in_bytes();
    let operand = |base, strides, offset| plan::Operand {
        base,
        size,
        view: View {
            shape: &shape,
            strides,
            offset,
        },
    };
    let x = operand(src.pointer(), &from, src_offset);
    let y = operand(dst.pointer_mut(), &to, dst_offset);
    let element = element(src.dtype(), "copy2d")?;
    Ok(plan::copy2d(src.device(), [x, y], element)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rocm_backend::plan::table::Element;
    use crate::rocm_backend::plan::{view_to_contiguous, Merged, Widened};
    use crate::rocm_backend::testing::{gpu, launches_of, Launched};
    use crate::rocm_backend::RocmDevice;
    use crate::DType;

    /// Bytes that repeat at no period that a kernel might have.
    fn bytes(count: usize) -> Vec<u8> {
        let of = |at: u64| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8;
        (0..count as u64).map(of).collect()
    }

    fn on_device(data: &[u8], device: &RocmDevice) -> Result<RocmStorage> {
        let mut storage = RocmStorage::new(data.len(), DType::U8, device)?;
        storage.copy_from_host(data)?;
        Ok(storage)
    }

    fn on_host(storage: &RocmStorage) -> Result<Vec<u8>> {
        let mut data = vec![0; storage.size()];
        storage.copy_to_host(&mut data)?;
        Ok(data)
    }

    /// What copies x to rows without gaps; its rows and columns lie `steps` elements apart. In one launch, however small
    /// the crate's own tests want them.
    fn turned(
        device: &RocmDevice,
        width: Element,
        [rows, columns]: [usize; 2],
        steps: [usize; 2],
    ) -> Result<Launched> {
        let size = width.size();
        let source = bytes((rows * steps[0] + columns * steps[1]) * size);
        let (x, mut y) = (
            on_device(&source, device)?,
            on_device(&vec![0; rows * columns * size], device)?,
        );
        let shape = [rows, columns];
        let view = |strides| View {
            shape: &shape,
            strides,
            offset: 0,
        };
        let copy = Widened {
            width,
            layout: Merged::of([view(&steps), view(&[columns, 1])])?,
            addresses: [x.pointer(), y.pointer_mut()],
        };
        let launch = || view_to_contiguous(device, &copy, 0, &copy.layout);
        let (done, launches) = launches_of(launch);
        done?;
        let mut wanted: Vec<u8> = Vec::new();
        for place in 0..rows * columns {
            let from = (place / columns * steps[0] + place % columns * steps[1]) * size;
            wanted.extend(&source[from..from + size]);
        }
        assert!(on_host(&y)? == wanted, "{rows} by {columns}, {width:?}");
        assert_eq!(launches.len(), 1);
        Ok(launches[0].clone())
    }

    #[test]
    fn many_tiles_are_permuted() -> Result<()> {
        let Some(device) = gpu("many_tiles_are_permuted") else {
            return Ok(());
        };
        // A tile has 256 squares, 16 by 16 of these; their sides are what a lane turns in its registers.
        for (width, side, name) in [
            (Element::B8, 8, "permute_b8"),
            (Element::B16, 4, "permute_b16"),
            (Element::B32, 4, "permute_b32"),
            (Element::B64, 2, "permute_b64"),
            (Element::B128, 1, "permute_b128"),
        ] {
            let along = 4 * 16 * side;
            let launch = turned(&device, width, [along, along], [1, along])?;
            assert_eq!((launch.kernel.as_str(), launch.grid), (name, [16, 1, 1]));
        }
        Ok(())
    }

    #[test]
    fn few_tiles_leave_the_work_to_single_threads() -> Result<()> {
        let Some(device) = gpu("few_tiles_leave_the_work_to_single_threads") else {
            return Ok(());
        };
        let launch = |shape, steps| turned(&device, Element::B64, shape, steps);
        // 3 by 5 tiles of 32 by 32 elements: a thread to each element.
        let few = launch([96, 160], [1, 96])?;
        assert_eq!((few.kernel.as_str(), few.grid), ("copy_b64", [60, 1, 1]));
        // 4 by 4 are enough.
        let many = launch([97, 97], [1, 97])?;
        assert_eq!(many.kernel, "permute_b64");
        // No dimension lies together in x: two elements to a thread.
        let none = launch([48, 32], [2, 100])?;
        assert_eq!((none.kernel.as_str(), none.grid), ("copy_b64", [3, 1, 1]));
        Ok(())
    }

    #[test]
    fn each_launch_goes_on_where_the_one_before_ended() -> Result<()> {
        let Some(device) = gpu("each_launch_goes_on_where_the_one_before_ended") else {
            return Ok(());
        };
        for dtype in [DType::U8, DType::BF16, DType::F32, DType::F64] {
            let size = dtype.size_in_bytes();
            // 999 rows of 9 elements, two apart, of 19 that a row has; behind 5 others.
            let (source, mut wanted) = (bytes(999 * 19 * size), vec![7; (5 + 999 * 9) * size]);
            let mut x = RocmStorage::new(source.len(), dtype, &device)?;
            x.copy_from_host(&source)?;
            let mut y = RocmStorage::new(wanted.len(), dtype, &device)?;
            y.copy_from_host(&wanted)?;
            let layout = Layout::new((999, 9).into(), vec![19, 2], 1);
            let copy = || copy_strided_src(&x, &mut y, 5, &layout);
            let (done, launches) = launches_of(copy);
            done?;
            for place in 0..999 * 9 {
                let from = (1 + place / 9 * 19 + place % 9 * 2) * size;
                let to = (5 + place) * size;
                wanted[to..to + size].copy_from_slice(&source[from..from + size]);
            }
            assert!(on_host(&y)? == wanted, "{dtype:?}");
            assert_eq!(launches.len(), 3, "{dtype:?}"); // of 455 rows each, and of the rest
        }
        Ok(())
    }

    #[test]
    fn rows_are_copied_to_rows() -> Result<()> {
        let Some(device) = gpu("rows_are_copied_to_rows") else {
            return Ok(());
        };
        // Rows, their length, how far apart they are in the source and in the target, and where both begin; bytes of an
        // element, and how many blocks copy them: 256 threads, of 32 bytes each if that is 2 to 8 elements.
        type Case = ([usize; 2], [usize; 2], [usize; 2], DType, &'static [u32]);
        let cases: [Case; 10] = [
            ([409, 5], [7, 6], [3, 1], DType::F32, &[1]),
            ([410, 5], [7, 6], [3, 1], DType::F32, &[2]),
            ([204, 5], [7, 6], [3, 1], DType::F64, &[1]),
            ([205, 5], [7, 6], [3, 1], DType::F64, &[2]),
            ([409, 5], [7, 6], [3, 1], DType::U8, &[1]),
            ([1000, 5], [7, 6], [3, 1], DType::U8, &[2, 1]),
            ([1000, 5], [7, 6], [3, 1], DType::F32, &[2, 1]),
            ([1, 4099], [7, 6], [1, 2], DType::U8, &[2, 1]),
            ([700, 1], [7, 6], [1, 2], DType::F32, &[1]),
            ([30, 8], [8, 8], [0, 0], DType::F32, &[1]),
        ];
        for ([rows, length], [from, to], [x_first, y_first], dtype, blocks) in cases {
            let what = format!("{rows} by {length}, {dtype:?}");
            let size = dtype.size_in_bytes();
            let source = bytes((x_first + rows * from.max(length)) * size);
            let mut wanted = vec![7; (y_first + rows * to.max(length)) * size];
            let mut x = RocmStorage::new(source.len(), dtype, &device)?;
            x.copy_from_host(&source)?;
            let mut y = RocmStorage::new(wanted.len(), dtype, &device)?;
            y.copy_from_host(&wanted)?;
            let (done, launches) =
                launches_of(|| copy2d(&x, &mut y, rows, length, from, to, x_first, y_first));
            done?;
            for place in 0..rows * length {
                let (row, column) = (place / length, place % length);
                let a = (x_first + row * from + column) * size;
                let b = (y_first + row * to + column) * size;
                wanted[b..b + size].copy_from_slice(&source[a..a + size]);
            }
            assert!(on_host(&y)? == wanted, "{what}");
            let found: Vec<u32> = launches.iter().map(|launch| launch.grid[0]).collect();
            assert_eq!(found, blocks, "{what}");
        }
        Ok(())
    }
}
