//! The ROCm that the build script found.

/// Each library, and whether it was absent.
const ABSENT: [(&str, bool); 5] = [
    ("amdhip64", cfg!(candle_rocm_absent = "amdhip64")),
    ("hiprtc", cfg!(candle_rocm_absent = "hiprtc")),
    ("MIOpen", cfg!(candle_rocm_absent = "MIOpen")),
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
