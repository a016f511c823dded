#[cfg(feature = "rocm")]
fn rocm_fwd(
    &self,
    s1: &candle::RocmStorage,
    l1: &Layout,
    s2: &candle::RocmStorage,
    l2: &Layout,
) -> Result<(candle::RocmStorage, Shape)> {
    candle::rocm_backend::ops::rms_norm(s1, l1, s2, l2, self.eps)
}
