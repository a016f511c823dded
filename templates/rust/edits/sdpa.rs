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
    let mask = self.mask.as_ref().map(|mask| mask.storage_and_layout());
    let mask = match &mask {
        None => None,
        Some((storage, layout)) => match &**storage {
            candle::Storage::Rocm(storage) => Some((storage, *layout)),
            _ => candle::bail!("sdpa: the mask has to be on the ROCm device of the queries"),
        },
    };
    let scores = candle::rocm_backend::ops::Scores {
        scale: self.scale,
        softcapping: self.softcapping,
        causal: self.do_causal,
    };
    candle::rocm_backend::ops::sdpa((q, q_l), (k, k_l), (v, v_l), mask, scores)
}
