//! Pixels that lie between those of the source, interpolated.
use super::resample::resampled;
use crate::rocm_backend::ops::copy::contiguous;
use crate::rocm_backend::ops::operand::{kernel, Operand};
use crate::rocm_backend::plan::table::upsample as table;
use crate::rocm_backend::plan::upsample::{bilinear, Aligned};
use crate::rocm_backend::RocmStorage;
use crate::{Layout, Result};

/// (b, c, h, w) to (b, c, height, width), interpolated.
///
/// Either the corner pixels of x and the result coincide (`align_corners`), or their outer edges do. In the second case
/// a scale factor, of rows and of columns, stands for the ratio of the sizes.
pub(in crate::rocm_backend) fn upsample_bilinear2d(
    x: &RocmStorage,
    layout: &Layout,
    height: usize,
    width: usize,
    align_corners: bool,
    scale_height: Option<f64>,
    scale_width: Option<f64>,
) -> Result<RocmStorage> {
    const OP: &str = "upsample-bilinear2d";
    let x = Operand::new(x, layout);
    let (_, _, own_height, own_width) = layout.shape().dims4()?;
    if (own_height, own_width) == (height, width) {
        return contiguous(x); // interpolating would spread infinities
    }
    let aligned = if align_corners {
        Aligned::Corners
    } else {
        Aligned::Edges([scale_height, scale_width])
    };
    let types = [x.element(OP)?];
    let kernel = kernel(&table::UPSAMPLE_BILINEAR2D, &types, x.dtype(), OP)?;
    resampled(x, [height, width], |x, device, y| {
        bilinear(device, kernel, x, [height, width], aligned, y)
    })
}

#[cfg(test)]
mod tests {
    use super::super::resample::pixels::{counted, floats};
    use super::*;
    use crate::backend::BackendDevice;
    use crate::rocm_backend::testing::gpu;

    #[test]
    fn pixels_between_two_are_in_proportion() -> Result<()> {
        let Some(device) = gpu("pixels_between_two_are_in_proportion") else {
            return Ok(());
        };
        let (x, layout) = counted(&device, &[1, 1, 1, 4])?;
        let row = |width, corners, factor| {
            let y = upsample_bilinear2d(&x, &layout, 1, width, corners, None, factor);
            floats(&y?)
        };
        // Pixel i is at (i + 0.5) / 2 - 0.5, within the row.
        let twice = [0., 0.25, 0.75, 1.25, 1.75, 2.25, 2.75, 3.];
        assert_eq!(row(8, false, None)?, twice);
        assert_eq!(row(8, false, Some(2.))?, twice);
        assert_eq!(row(6, false, Some(2.))?, twice[..6]);
        // At (i + 0.5) / 4 - 0.5.
        assert_eq!(row(3, false, Some(4.))?, [0., 0., 0.125]);
        // At i / 2, whatever the factor.
        let corners = [0., 0.5, 1., 1.5, 2., 2.5, 3.];
        assert_eq!(row(7, true, Some(3.))?, corners);
        assert_eq!(row(1, true, None)?, [0.]);

        // Rows likewise.
        let turned = Layout::contiguous((1, 1, 4, 1));
        let y = upsample_bilinear2d(&x, &turned, 3, 1, false, Some(4.), None)?;
        assert_eq!(floats(&y)?, [0., 0., 0.125]);
        let y = upsample_bilinear2d(&x, &turned, 7, 1, true, None, None)?;
        assert_eq!(floats(&y)?, corners);
        Ok(())
    }

    #[test]
    fn an_image_of_its_own_size_stays_as_it_is() -> Result<()> {
        let Some(device) = gpu("an_image_of_its_own_size_stays_as_it_is") else {
            return Ok(());
        };
        // Interpolated, an infinite neighbour with weight 0 would give NaN.
        let data = [1f32, f32::INFINITY, 2., f32::NEG_INFINITY];
        let x = device.storage_from_slice(&data)?;
        let layout = Layout::contiguous((1, 1, 2, 2));
        for corners in [false, true] {
            let y = upsample_bilinear2d(&x, &layout, 2, 2, corners, None, None)?;
            assert_eq!(floats(&y)?, data);
        }
        Ok(())
    }
}
