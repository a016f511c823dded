#[cfg(feature = "rocm")]
fn rocm_fwd(
    &self,
    s1: &candle::RocmStorage,
    l1: &Layout,
    s2: &candle::RocmStorage,
    l2: &Layout,
    s3: &candle::RocmStorage,
    l3: &Layout,
) -> Result<(candle::RocmStorage, Shape)> {
    candle::rocm_backend::ops::layer_norm(s1, l1, s2, l2, s3, l3, self.eps)
}
