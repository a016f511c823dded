//! Quantization that weighs columns by their importance.
use super::{numbers, QRocmStorage};
use crate::rocm_backend::RocmStorage;
use crate::{CpuStorage, Result};

impl QRocmStorage {
    /// As `quantize`, with the importance of each of a row's columns.
    pub fn quantize_imatrix(
        &mut self,
        src: &RocmStorage,
        imatrix_weights: &[f32],
        n_per_row: usize,
    ) -> Result<()> {
        let src = numbers(src)?;
        self.replace(src, |blocks, src| {
            blocks.quantize_imatrix(src, imatrix_weights, n_per_row)
        })
    }

    /// As `quantize_onto`, with the importance of each of a row's columns.
    pub fn quantize_imatrix_onto(
        &mut self,
        src: &CpuStorage,
        imatrix_weights: &[f32],
        n_per_row: usize,
    ) -> Result<()> {
        let src = src.as_slice::<f32>()?.to_vec();
        self.replace(src, |blocks, src| {
            blocks.quantize_imatrix(src, imatrix_weights, n_per_row)
        })
    }
}
