//! Images as operations see them.
use super::operand::Operand;
use crate::rocm_backend::plan::Images;
use crate::Result;

/// A tensor of three dimensions as images of one row, one of four as it is; an error for others.
pub(super) fn images(x: Operand<'_>) -> Result<Images> {
    if x.layout.dims().len() != 3 {
        x.layout.shape().dims4()?;
    }
    Ok(Images::of(x.planned())?)
}
