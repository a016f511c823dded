//! The ROCm that the build script found.

/// Each library, and whether it was absent.
const ABSENT: [(&str, bool); 6] = [
    ("amdhip64", cfg!(candle_rocm_absent = "amdhip64")),
    ("hiprtc", cfg!(candle_rocm_absent = "hiprtc")),
    ("MIOpen", cfg!(candle_rocm_absent = "MIOpen")),
    ("rccl", cfg!(candle_rocm_absent = "rccl")),
    ("rocblas", cfg!(candle_rocm_absent = "rocblas")),
    ("rocrand", cfg!(candle_rocm_absent = "rocrand")),
];

/// Why a library cannot be used, if it cannot.
#[allow(dead_code)] // Nobody asks as long as HIP is the only library.
pub(super) fn problem(library: &str) -> Option<String> {
    ABSENT.contains(&(library, true)).then(|| {
        format!("no {library} library was found when this was built; set ROCM_PATH and build again")
    })
}
