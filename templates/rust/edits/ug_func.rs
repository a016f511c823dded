#[cfg(all(feature = "rocm", not(any(feature = "cuda", feature = "metal"))))]
func: crate::rocm_ug::UgFunc,
