//! Functions that the real library does not have: reports, faults on demand, counts of calls.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::{ptr, slice};

use api::amdhip64::{hipError_t, hipStream_t, hipSuccess};
use candle_rocm_emulator_runtime::queue::Work;
use candle_rocm_emulator_runtime::report::Report;
use candle_rocm_emulator_runtime::transfer::{self, Extent};
use candle_rocm_emulator_runtime::{calls, machine, report};

use crate::stream;

thread_local! {
    static LAST_REPORT: RefCell<Option<CString>> = const { RefCell::new(None) };
    /// What the running work of a sibling library did wrong.
    static FOUND: RefCell<Option<Report>> = const { RefCell::new(None) };
}

unsafe fn text(string: *const c_char) -> String {
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

/// Clears the faults of all devices, reports and faults on demand.
#[unsafe(no_mangle)]
pub extern "C" fn candle_rocm_emulator_reset() {
    machine::reset();
    calls::forget_faults();
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

/// For the emulator's other libraries: notes a call of one of their functions. Returns the code with which it must
/// fail, or 0.
///
/// # Safety
/// Both are zero-terminated strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn candle_rocm_emulator_call(function: *const c_char, arguments: *const c_char) -> c_int {
    // SAFETY: by contract.
    unsafe { calls::begin(&text(function), || text(arguments)) }.unwrap_or(0)
}

/// Work of a sibling library: called once with the data and 1 to do it, or 0 only to give the data back.
pub type Perform = unsafe extern "C" fn(data: *mut c_void, wanted: c_int);

/// A sibling's work and its data, given back in any case.
struct SiblingWork {
    perform: Perform,
    data: *mut c_void,
    done: bool,
}

// SAFETY: by the contract of `candle_rocm_emulator_enqueue` any thread may call the function with the data.
unsafe impl Send for SiblingWork {}

impl SiblingWork {
    fn run(&mut self) -> Result<(), Report> {
        self.done = true;
        // SAFETY: by contract, and only once.
        unsafe { (self.perform)(self.data, 1) };
        FOUND.take().map_or(Ok(()), Err)
    }
}

impl Drop for SiblingWork {
    fn drop(&mut self) {
        if !self.done {
            // SAFETY: by contract, and only once.
            unsafe { (self.perform)(self.data, 0) };
        }
    }
}

/// For the emulator's other libraries: puts work on a stream, with all memory that it reads and writes.
///
/// # Safety
/// `function` is a zero-terminated string, `extents` has `count` entries, and any thread may call `perform` with `data`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn candle_rocm_emulator_enqueue(
    stream: hipStream_t,
    function: *const c_char,
    extents: *const Extent,
    count: usize,
    perform: Perform,
    data: *mut c_void,
) -> hipError_t {
    let mut work = SiblingWork { perform, data, done: false };
    // SAFETY: by contract.
    let (function, extents) = unsafe { (text(function), extents_of(extents, count)) };
    let action = Box::new(move || {
        transfer::perform(&function, &extents, || ())?;
        work.run()
    });
    let enqueued = stream::resolve(stream).and_then(|stream| machine::enqueue(stream, Work::Run(action)));
    enqueued.err().map_or(hipSuccess, |error| error.0)
}

/// For work of the emulator's other libraries that finds out only when it runs which memory it uses: checks that, and
/// notes what is about to be written. Returns 0 if it must do no more.
///
/// # Safety
/// `what` is a zero-terminated string, and `extents` has `count` entries.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn candle_rocm_emulator_uses(what: *const c_char, extents: *const Extent, count: usize) -> c_int {
    // SAFETY: by contract.
    let (what, extents) = unsafe { (text(what), extents_of(extents, count)) };
    match transfer::perform(&what, &extents, || ()) {
        Ok(()) => 1,
        Err(report) => {
            FOUND.set(Some(report));
            0
        }
    }
}

unsafe fn extents_of(extents: *const Extent, count: usize) -> Vec<Extent> {
    // SAFETY: by contract of the callers; an empty list may be null.
    if count == 0 { Vec::new() } else { unsafe { slice::from_raw_parts(extents, count) }.to_vec() }
}

/// For the emulator's other libraries: whether a range is the host's own or inside one live allocation of a device.
#[unsafe(no_mangle)]
pub extern "C" fn candle_rocm_emulator_is_usable(address: *const c_void, bytes: usize) -> c_int {
    c_int::from(transfer::is_usable(address as usize, bytes))
}
