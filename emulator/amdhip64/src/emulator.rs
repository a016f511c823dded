//! Functions that the real library does not have: reports, faults on demand, counts of calls, parts of grids.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::{ptr, slice};

use candle_rocm_emulator_runtime::memory::{Arena, guard};
use candle_rocm_emulator_runtime::{calls, machine, report, transfer};

use crate::call::last_error;

thread_local! {
    static LAST_REPORT: RefCell<Option<CString>> = const { RefCell::new(None) };
}

/// The text of a caller's string, empty for a null pointer.
///
/// # Safety
/// `string` is null or a zero-terminated string.
pub unsafe fn text(string: *const c_char) -> String {
    if string.is_null() {
        return String::new();
    }
    // SAFETY: by contract a zero-terminated string.
    unsafe { CStr::from_ptr(string) }.to_string_lossy().into_owned()
}

/// The last report in words, or null. It is valid until the calling thread asks again.
#[unsafe(no_mangle)]
pub extern "C" fn candle_rocm_emulator_last_report() -> *const c_char {
    LAST_REPORT.with_borrow_mut(|last| {
        *last = report::last_report();
        last.as_ref().map_or(ptr::null(), |text| text.as_ptr())
    })
}

/// Clears the faults of all devices, reports, faults on demand and the calling thread's last error; launches run all of
/// their blocks again.
#[unsafe(no_mangle)]
pub extern "C" fn candle_rocm_emulator_reset() {
    machine::reset();
    calls::forget_faults();
    last_error(true);
}

/// Makes the `nth` call from now (1 is the next) of a function return `code`; 0 takes that back.
///
/// # Safety
/// `function` is a zero-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn candle_rocm_emulator_fail(function: *const c_char, nth: i64, code: c_int) {
    // SAFETY: by contract.
    calls::fail(&unsafe { text(function) }, nth.try_into().unwrap_or(0), code);
}

/// Lets launches from now on run `count` blocks of their grids only, each by its number: x counts fastest, then y. A
/// kernel sees the grid as it is. Zero blocks take that back.
///
/// # Safety
/// `blocks` has `count` numbers; it may be null for none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn candle_rocm_emulator_only_blocks(blocks: *const u64, count: usize) {
    // SAFETY: by contract.
    let numbers = if count == 0 { &[] } else { unsafe { slice::from_raw_parts(blocks, count) } };
    machine::run_only(numbers.to_vec());
}

/// Reads device memory as it is now, without waiting for anything. Returns 0 if that is no live memory of a device.
///
/// # Safety
/// `to` has room for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn candle_rocm_emulator_peek(to: *mut u8, from: usize, size: usize) -> c_int {
    if !Arena::get().contains(from) || !transfer::is_usable(from, size) {
        return 0;
    }
    let _inside = guard::enter();
    // SAFETY: the range is live, and by contract there is room.
    unsafe { ptr::copy_nonoverlapping(from as *const u8, to, size) };
    1
}

/// Starts counting calls from zero.
#[unsafe(no_mangle)]
pub extern "C" fn candle_rocm_emulator_trace_start() {
    calls::start_counting();
}

/// Stops counting calls.
#[unsafe(no_mangle)]
pub extern "C" fn candle_rocm_emulator_trace_stop() {
    calls::stop_counting();
}

/// Counted calls of a function, or of all functions for a null pointer.
///
/// # Safety
/// `function` is null or a zero-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn candle_rocm_emulator_trace_count(function: *const c_char) -> i64 {
    // SAFETY: by contract.
    calls::count(&unsafe { text(function) }) as i64
}
