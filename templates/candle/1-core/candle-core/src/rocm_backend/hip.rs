//! HIP's statuses as `RocmError`, and the calls that are about no particular device.
use super::{api, loaded, RocmError};
use std::ffi::{c_char, c_int, CStr};
use std::sync::OnceLock;

pub(super) type HipResult<T> = std::result::Result<T, RocmError>;

/// `Ok` for `hipSuccess`, otherwise an error that names `call`.
pub(super) fn check(call: &'static str, status: api::hipError_t) -> HipResult<()> {
    if status == api::hipSuccess {
        return Ok(());
    }
    forget_last_error();
    // SAFETY: both functions take any status and return static strings.
    let (name, message) = unsafe {
        (
            static_text(api::hipGetErrorName(status)),
            static_text(api::hipGetErrorString(status)),
        )
    };
    Err(RocmError::Hip {
        call,
        code: status,
        name,
        message,
    })
}

/// Lets HIP forget the calling thread's last error, for which somebody has answered: HIP keeps it until it is asked, and
/// rocRAND would report it as its own.
pub(super) fn forget_last_error() {
    // SAFETY: no preconditions.
    let _ = unsafe { api::hipGetLastError() };
}

/// The devices that the runtime can see. Without any, HIP answers `hipErrorNoDevice` and so does this.
pub(super) fn device_count() -> HipResult<usize> {
    let mut count: c_int = 0;
    // SAFETY: `count` lives through the call.
    let status = unsafe { api::hipGetDeviceCount(&mut count) };
    check("hipGetDeviceCount", status)?;
    usable_runtime()?;
    Ok(usize::try_from(count).unwrap_or(0))
}

/// The least release of HIP, as `hipRuntimeGetVersion` counts: its device properties have the layout of today since then.
const OLDEST: c_int = 60_000_000;

/// An error if the HIP runtime is too old, or one of two.
fn usable_runtime() -> HipResult<()> {
    static ANSWER: OnceLock<Option<String>> = OnceLock::new();
    if let Some(problem) = ANSWER.get_or_init(|| too_old().or_else(loaded::second_runtime)) {
        return Err(RocmError::UnusableRocm(problem.clone()));
    }
    Ok(())
}

fn too_old() -> Option<String> {
    let mut version = 0;
    // SAFETY: `version` lives through the call.
    let status = unsafe { api::hipRuntimeGetVersion(&mut version) };
    let known = status == api::hipSuccess;
    known.then(|| older_than_needed(version)).flatten()
}

fn older_than_needed(version: c_int) -> Option<String> {
    (version < OLDEST).then(|| {
        let files = loaded::files_of("libamdhip64");
        let file = files
            .first()
            .map_or("libamdhip64".into(), |file| file.to_string_lossy());
        let (major, minor) = (version / 10_000_000, version / 100_000 % 100);
        format!("{file} is of ROCm {major}.{minor}: 6.0 or later is needed")
    })
}

/// # Safety
/// `text` is null, or points to a NUL-terminated string that is never freed.
pub(super) unsafe fn static_text(text: *const c_char) -> String {
    if text.is_null() {
        return "unknown".to_string();
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runtimes_before_rocm_6_are_too_old() {
        for (version, said) in [
            (50_731_921, Some("is of ROCm 5.7: 6.0 or later is needed")),
            (41_200_000, Some("is of ROCm 4.12: 6.0 or later is needed")),
            (59_999_999, Some("is of ROCm 5.99: 6.0 or later is needed")),
            (60_000_000, None),
            (60_443_484, None),
        ] {
            let found = older_than_needed(version);
            match (&found, said) {
                (Some(found), Some(said)) => assert!(found.ends_with(said), "{found}"),
                _ => assert_eq!(found.as_deref(), said, "{version}"),
            }
        }
    }
}
