pub fn is_rocm(&self) -> bool {
    #[cfg(feature = "rocm")]
    {
        matches!(self, Self::Rocm(_))
    }
    #[cfg(not(feature = "rocm"))]
    {
        false
    }
}
