//! The functions of the real library that the emulator lacks: they say so.

use std::collections::BTreeSet;
use std::ffi::{CStr, c_char};
use std::sync::Mutex;

use api::amdhip64::hipError_t;
use candle_rocm_emulator_runtime::error::{HipError, HipResult};
use candle_rocm_emulator_runtime::report::Report;

use crate::call::call;

/// What was said on standard error.
static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Says why a call is refused: on standard error once, and as the last report.
fn note(text: String) {
    let is_new = SAID.lock().expect("no panic while held").insert(text.clone());
    let report = Report { code: HipError::NOT_SUPPORTED, text };
    if is_new {
        report.publish();
    } else {
        report.remember();
    }
}

/// For the emulator's other libraries: says why a call is refused.
///
/// # Safety
/// `text` is a zero-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn candle_rocm_emulator_note(text: *const c_char) {
    // SAFETY: by contract.
    note(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned());
}

/// What a function does that the emulator lacks: it says so.
///
/// # Errors
/// `hipErrorNotSupported`.
pub fn refuse(function: &str) -> HipResult {
    note(format!("{function}: not supported by the emulated device"));
    Err(HipError::NOT_SUPPORTED)
}

fn unsupported(function: &str) -> hipError_t {
    call(function, String::new, || refuse(function))
}

macro_rules! unsupported {
    ($($name:ident)*) => { api::stand_ins! { unsupported; $($name)* } };
}
include!(concat!(env!("OUT_DIR"), "/unsupported.rs"));
