#[cfg(feature = "rocm")]
fn rocm_fwd(
    &self,
    q: &candle::RocmStorage,
    q_l: &Layout,
    k: &candle::RocmStorage,
    k_l: &Layout,
    v: &candle::RocmStorage,
    v_l: &Layout,
) -> Result<(candle::RocmStorage, Shape)> {
    let scores = candle::rocm_backend::ops::Scores {
        scale: self.scale,
        softcapping: self.softcapping,
        causal: false,
    };
    candle::rocm_backend::ops::sdpa((q, q_l), (k, k_l), (v, v_l), None, scores)
}
