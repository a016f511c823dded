//! To each pixel, the nearest one of the source.
use super::resample::resampled;
use crate::rocm_backend::ops::operand::{kernel, Operand};
use crate::rocm_backend::plan::{self, table::upsample as table};
use crate::rocm_backend::RocmStorage;
use crate::{Layout, Result};

/// (b, c, l) to (b, c, size), each element that of x at floor(i * l / size).
pub(in crate::rocm_backend) fn upsample_nearest1d(
    x: &RocmStorage,
    layout: &Layout,
    size: usize,
) -> Result<RocmStorage> {
    layout.shape().dims3()?;
    nearest(Operand::new(x, layout), 1, size, "upsample-nearest1d")
}

/// (b, c, h, w) to (b, c, height, width), each element that of x at floor(i * h / height), floor(j * w / width).
pub(in crate::rocm_backend) fn upsample_nearest2d(
    x: &RocmStorage,
    layout: &Layout,
    height: usize,
    width: usize,
) -> Result<RocmStorage> {
    layout.shape().dims4()?;
    nearest(Operand::new(x, layout), height, width, "upsample-nearest2d")
}

fn nearest(x: Operand<'_>, height: usize, width: usize, name: &'static str) -> Result<RocmStorage> {
    let element = x.element(name)?.bits();
    let kernel = kernel(&table::UPSAMPLE_NEAREST2D, &[element], x.dtype(), name)?;
    resampled(x, [height, width], |x, device, y| {
        plan::nearest(device, kernel, x, [height, width], y)
    })
}

#[cfg(test)]
mod tests {
    use super::super::resample::pixels::{counted, floats};
    use super::*;
    use crate::rocm_backend::testing::{gpu, launches_of};

    #[test]
    fn a_thread_writes_16_bytes_of_a_row() -> Result<()> {
        let Some(device) = gpu("a_thread_writes_16_bytes_of_a_row") else {
            return Ok(());
        };
        // 64 rows of 16 threads are 4 blocks for each of two planes.
        let (x, layout) = counted(&device, &[1, 2, 4, 4])?;
        let (y, launches) = launches_of(|| upsample_nearest2d(&x, &layout, 64, 64));
        let y = floats(&y?)?;
        let grids: Vec<_> = launches.iter().map(|launch| launch.grid).collect();
        assert_eq!(grids, [[4, 2, 1]]);
        assert_eq!(y.len(), 2 * 64 * 64);
        for (place, found) in y.iter().enumerate() {
            let (plane, row, column) = (place / 4096, place / 64 % 64, place % 64);
            let wanted = plane * 16 + row / 16 * 4 + column / 16;
            assert_eq!(*found, wanted as f32, "{plane}, {row}, {column}");
        }
        Ok(())
    }

    #[test]
    fn each_pixel_is_the_one_below_it() -> Result<()> {
        let Some(device) = gpu("each_pixel_is_the_one_below_it") else {
            return Ok(());
        };
        let (x, layout) = counted(&device, &[1, 2, 3])?;
        let y = upsample_nearest1d(&x, &layout, 5)?;
        assert_eq!(floats(&y)?, [0., 0., 1., 1., 2., 3., 3., 4., 4., 5.]);
        assert!(upsample_nearest2d(&x, &layout, 1, 5).is_err());
        let (x, layout) = counted(&device, &[2, 3, 4, 5])?;
        assert!(upsample_nearest1d(&x, &layout, 5).is_err());
        let y = floats(&upsample_nearest2d(&x, &layout, 6, 7)?)?;
        assert_eq!(y.len(), 2 * 3 * 6 * 7);
        for (place, found) in y.iter().enumerate() {
            let (plane, row, column) = (place / 42, place / 7 % 6, place % 7);
            let wanted = plane * 20 + row * 4 / 6 * 5 + column * 5 / 7;
            assert_eq!(*found, wanted as f32, "{plane}, {row}, {column}");
        }
        Ok(())
    }

    #[test]
    fn nothing_is_made_of_an_image_without_pixels() -> Result<()> {
        let Some(device) = gpu("nothing_is_made_of_an_image_without_pixels") else {
            return Ok(());
        };
        for (own, target, possible) in [
            ([0, 4], (2, 2), false),
            ([4, 0], (2, 2), false),
            ([0, 4], (0, 2), true),
            ([4, 0], (2, 0), true),
            ([3, 4], (0, 2), true),
            ([3, 4], (2, 0), true),
            ([3, 4], (2, 2), true),
        ] {
            let (x, layout) = counted(&device, &[1, 1, own[0], own[1]])?;
            let y = upsample_nearest2d(&x, &layout, target.0, target.1);
            assert_eq!(y.is_ok(), possible, "{own:?} to {target:?}");
            if let Ok(y) = y {
                assert_eq!(y.size(), 4 * target.0 * target.1);
            }
        }
        let (x, layout) = counted(&device, &[0, 1, 0, 4])?;
        assert_eq!(upsample_nearest2d(&x, &layout, 2, 2)?.size(), 0);
        Ok(())
    }
}
