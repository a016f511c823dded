//! Code objects say what they were made with. Programs keep them on disk and know only the versions of HIP; one that was
//! made with another header of HIP's, or other options, must not pass for what would be compiled today.

use std::ffi::CString;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::OnceLock;

/// What NVRTC gets beside a caller's sources, and what it does not get of a caller's options.
const MADE_WITH: [&str; 2] =
    [include_str!("../../hiprtc/src/hip_on_nvidia.h"), include_str!("../../hiprtc/src/options.rs")];

/// Name of a kernel that today's code objects have besides the caller's.
pub fn edition() -> &'static CString {
    static EDITION: OnceLock<CString> = OnceLock::new();
    EDITION.get_or_init(|| {
        let mut hasher = DefaultHasher::new();
        MADE_WITH.hash(&mut hasher);
        CString::new(format!("candle_rocm_edition_{:016x}", hasher.finish())).expect("no zeros")
    })
}
