//! What images of either kind have in common: scales, and their launch.
use crate::rocm_backend::kernels::table::upsample as table;
use crate::rocm_backend::kernels::{Argument, Kernel};
use crate::rocm_backend::ops::operand::{uninit, Operand};
use crate::rocm_backend::ops::planes::{paint, Canvas, Images, PlaneKernel};
use crate::rocm_backend::RocmStorage;
use crate::Result;

/// Source pixels for each of the result's where the outer edges coincide.
pub(super) fn ratio(own: usize, target: usize) -> f64 {
    own as f64 / target.max(1) as f64
}

/// Results of a row that are one thread's: 16 bytes, but no more than `most`; 1 where a row is no multiple of them.
pub(super) fn lanes(x: Operand<'_>, most: usize, width: usize) -> usize {
    let lanes = (16 / x.size()).min(most);
    if width.is_multiple_of(lanes) {
        lanes
    } else {
        1
    }
}

pub(super) fn resample(
    kernel: Kernel,
    x: Operand<'_>,
    canvas: Canvas,
    numbers: &[&dyn Argument],
) -> Result<RocmStorage> {
    let images = Images::of(x)?;
    let [batch, channels, height, width] = images.shape;
    let count = batch * channels * canvas.height * canvas.width;
    if count > 0 && height * width == 0 {
        let (rows, columns) = (canvas.height, canvas.width);
        crate::bail!("an image of {height} by {width} has nothing to make {rows} by {columns} of")
    }
    let kernel = PlaneKernel {
        kernel,
        block: table::BLOCK,
        blocks: table::BLOCKS,
    };
    let y = uninit(count, x.dtype(), x.device())?;
    paint(x.device(), &kernel, &images, y.pointer(), canvas, numbers)?;
    Ok(y)
}

/// Images for tests, and what becomes of them.
#[cfg(test)]
pub(super) mod pixels {
    use super::*;
    use crate::backend::BackendDevice;
    use crate::rocm_backend::RocmDevice;
    use crate::Layout;

    /// Image after image of whole numbers, 0, 1, 2, ...
    pub(in super::super) fn counted(
        device: &RocmDevice,
        shape: &[usize],
    ) -> Result<(RocmStorage, Layout)> {
        let count: usize = shape.iter().product();
        let data: Vec<f32> = (0..count).map(|i| i as f32).collect();
        Ok((device.storage_from_slice(&data)?, Layout::contiguous(shape)))
    }

    pub(in super::super) fn floats(y: &RocmStorage) -> Result<Vec<f32>> {
        let mut data = vec![0; y.size()];
        y.copy_to_host(&mut data)?;
        let words = data.chunks_exact(4);
        Ok(words
            .map(|word| f32::from_ne_bytes([word[0], word[1], word[2], word[3]]))
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_are_pixels_to_a_pixel() {
        assert_eq!((ratio(3, 2), ratio(2, 8), ratio(5, 0)), (1.5, 0.25, 5.));
    }
}
