#[cfg(feature = "rocm")]
fn rocm_fwd(
    &self,
    storage: &crate::RocmStorage,
    layout: &crate::Layout,
) -> Result<(crate::RocmStorage, crate::Shape)> {
    crate::rocm_backend::ops::argsort(storage, layout, self.last_dim, self.asc)
}
