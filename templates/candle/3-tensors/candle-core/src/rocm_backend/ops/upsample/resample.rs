//! What images of either kind have in common: the memory of their result.
use crate::rocm_backend::hip::HipResult;
use crate::rocm_backend::ops::operand::{uninit, Operand};
use crate::rocm_backend::ops::planes::images;
use crate::rocm_backend::plan::{Images, Pointer};
use crate::rocm_backend::{RocmDevice, RocmStorage};
use crate::Result;

/// A new contiguous tensor of images of that size, which launches write to.
pub(super) fn resampled(
    x: Operand<'_>,
    [height, width]: [usize; 2],
    launches: impl FnOnce(&Images, &RocmDevice, Pointer) -> HipResult<()>,
) -> Result<RocmStorage> {
    let images = images(x)?;
    let [batch, channels, ..] = images.shape;
    let y = uninit(batch * channels * height * width, x.dtype(), x.device())?;
    launches(&images, x.device(), y.pointer())?;
    Ok(y)
}

/// Images for tests, and what becomes of them.
#[cfg(test)]
pub(super) mod pixels {
    use super::*;
    use crate::backend::BackendDevice;
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
