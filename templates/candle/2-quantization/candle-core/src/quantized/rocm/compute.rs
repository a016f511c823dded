//! What later phases compute with the blocks.
use super::QRocmStorage;
use crate::rocm_backend::{not_generated, RocmStorage};
use crate::{Layout, Result, Shape};

/// The phase that brings the kernels' launches.
const PHASE: u32 = 3;

impl QRocmStorage {
    /// The numbers that the first `elem_count` elements stand for, as f32.
    pub fn dequantize(&self, _elem_count: usize) -> Result<RocmStorage> {
        not_generated("dequantize", PHASE)
    }

    /// The numbers that the first `elem_count` elements stand for, as f16.
    pub fn dequantize_f16(&self, _elem_count: usize) -> Result<RocmStorage> {
        not_generated("dequantize", PHASE)
    }

    /// The rows (of `rows` with `hidden` elements each) that indices select, as f32.
    pub fn embedding(
        &self,
        _rows: usize,
        _hidden: usize,
        _ids: &RocmStorage,
        _ids_l: &Layout,
    ) -> Result<RocmStorage> {
        not_generated("embedding", PHASE)
    }

    /// The product of (..., k) with the transpose of these blocks, whose shape is (n, k).
    pub fn fwd(
        &self,
        _self_shape: &Shape,
        _storage: &RocmStorage,
        _layout: &Layout,
    ) -> Result<(RocmStorage, Shape)> {
        not_generated("qmatmul", PHASE)
    }

    /// Products of rows with the experts' blocks that `ids` select for them.
    pub fn indexed_moe_forward(
        &self,
        _self_shape: &Shape,
        _input: &RocmStorage,
        _input_l: &Layout,
        _ids: &RocmStorage,
        _ids_l: &Layout,
    ) -> Result<(RocmStorage, Shape)> {
        not_generated("indexed-moe-forward", PHASE)
    }
}
