//! What the ROCm backend of a patched Candle launches for an operation, for programs in other languages.
//!
//! The plans are the backend's own sources. `candle_rocm_plan` takes a request as JSON and returns the launches as JSON;
//! memory is an address, the caller allocates what a plan needs besides, and nothing is launched.
mod recorder;
mod request;
mod rocm_backend;

use recorder::{Allocate, Recorder};
use request::Request;
use std::any::Any;
use std::ffi::{c_char, CStr, CString};
use std::panic::{catch_unwind, AssertUnwindSafe};

/// The launches of a request, `{"launches": [...]}`, `{"refused": "why"}`, or `{"panicked": "why"}`, where the plan has a
/// fault; the text is given back to `candle_rocm_plan_free`. Without `allocate` the addresses of workspaces are made up.
///
/// # Safety
/// `request` is a zero-terminated string.
#[no_mangle]
pub unsafe extern "C" fn candle_rocm_plan(
    request: *const c_char,
    allocate: Option<Allocate>,
) -> *mut c_char {
    // SAFETY: by contract.
    let text = unsafe { CStr::from_ptr(request) }.to_bytes();
    let answer = match serde_json::from_slice::<Request>(text) {
        Ok(request) => {
            let planned = catch_unwind(AssertUnwindSafe(|| planned(&request, allocate)));
            planned.unwrap_or_else(|panic| serde_json::json!({ "panicked": message(&*panic) }))
        }
        Err(error) => serde_json::json!({ "refused": format!("not a request: {error}") }),
    };
    let answer = CString::new(answer.to_string()).unwrap_or_default();
    answer.into_raw()
}

fn planned(request: &Request, allocate: Option<Allocate>) -> serde_json::Value {
    let recorder = Recorder::new(&request.device, allocate);
    match request.asked.plan(&recorder) {
        Ok(()) => serde_json::json!({ "launches": recorder.launches() }),
        Err(refusal) => serde_json::json!({ "refused": refusal.to_string() }),
    }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("without a message")
}

/// Frees an answer.
///
/// # Safety
/// The answer is one of `candle_rocm_plan`, and was not freed before.
#[no_mangle]
pub unsafe extern "C" fn candle_rocm_plan_free(answer: *mut c_char) {
    // SAFETY: by contract.
    drop(unsafe { CString::from_raw(answer) });
}
