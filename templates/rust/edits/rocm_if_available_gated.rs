/// The ROCm device `ordinal` if this build has the `rocm` feature and the ROCm runtime finds a device, else the CPU.
pub fn rocm_if_available(ordinal: usize) -> Result<Self> {
    #[cfg(feature = "rocm")]
    if crate::utils::rocm_is_available() {
        return Self::new_rocm(ordinal);
    }
    #[cfg(not(feature = "rocm"))]
    let _ = ordinal;
    Ok(Self::Cpu)
}
