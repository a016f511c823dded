/// True if this build has the `rocm` feature and the ROCm runtime finds at least one device.
pub fn rocm_is_available() -> bool {
    #[cfg(feature = "rocm")]
    {
        crate::rocm_backend::is_available()
    }
    #[cfg(not(feature = "rocm"))]
    {
        false
    }
}
