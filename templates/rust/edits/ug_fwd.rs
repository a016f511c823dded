#[cfg(all(feature = "rocm", not(any(feature = "cuda", feature = "metal"))))]
fn rocm_fwd(&self, storage: &mut crate::RocmStorage, layout: &Layout) -> Result<()> {
    self.func.run(self.name, storage, layout)
}
