//! What the emulator's other libraries call: they hold no state of their own.

use std::cell::{Cell, RefCell};
use std::ffi::{c_char, c_int, c_void};
use std::slice;
use std::sync::Arc;

use api::amdhip64::{hipError_t, hipStream_t, hipSuccess};
use candle_rocm_emulator_runtime::error::HipError;
use candle_rocm_emulator_runtime::queue::{Action, Work};
use candle_rocm_emulator_runtime::report::Report;
use candle_rocm_emulator_runtime::settings::settings;
use candle_rocm_emulator_runtime::transfer::{self, Extent};
use candle_rocm_emulator_runtime::{calls, machine};

use crate::emulator::text;
use crate::{recorded, stream};

thread_local! {
    /// The device whose work the thread does.
    static DEVICE: Cell<usize> = const { Cell::new(0) };
    /// What that work did wrong.
    static FOUND: RefCell<Option<Report>> = const { RefCell::new(None) };
}

/// Notes a call of one of a sibling's functions. Returns the code with which it must fail, or 0.
///
/// # Safety
/// Both are zero-terminated strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn candle_rocm_emulator_call(function: *const c_char, arguments: *const c_char) -> c_int {
    recorded::start();
    // SAFETY: by contract.
    unsafe { calls::begin(&text(function), || text(arguments)) }.unwrap_or(0)
}

/// Writes a device's architecture, such as gfx1100, as a zero-terminated string. Returns its length, or -1 if there is no
/// such device or no room.
///
/// # Safety
/// `to` is valid for writing `room` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn candle_rocm_emulator_architecture(device: usize, to: *mut c_char, room: usize) -> c_int {
    let Some(name) = settings().devices.get(device).map(|card| card.model.name).filter(|name| name.len() < room) else {
        return -1;
    };
    // SAFETY: there is room for the name and a zero.
    unsafe {
        name.as_ptr().copy_to_nonoverlapping(to.cast(), name.len());
        *to.add(name.len()) = 0;
    }
    name.len() as c_int
}

/// Whether a device has xf32: 1 or 0.
#[unsafe(no_mangle)]
pub extern "C" fn candle_rocm_emulator_has_xf32(device: usize) -> c_int {
    settings().devices.get(device).is_some_and(|card| card.model.has_xf32).into()
}

/// Work of a sibling library: called with the data and 1 to do it, as often as it is to be done, and at last with 0 to
/// give the data back. Returns 0 if the sibling has a bug. Called with 2 it says whether the time for the work has come.
pub type Perform = unsafe extern "C" fn(data: *mut c_void, wanted: c_int) -> c_int;

/// A sibling's work and its data, given back in any case.
struct SiblingWork {
    function: String,
    device: usize,
    perform: Perform,
    data: *mut c_void,
}

// SAFETY: by the contract of `candle_rocm_emulator_enqueue` any thread may call the function with the data.
unsafe impl Send for SiblingWork {}
// SAFETY: as above, and no two threads do the same piece of work at once: a stream does one at a time, and a launch of a
// graph is on one stream.
unsafe impl Sync for SiblingWork {}

impl SiblingWork {
    fn is_ready(&self) -> bool {
        // SAFETY: by contract.
        unsafe { (self.perform)(self.data, 2) != 0 }
    }

    fn run(&self) -> Result<(), Report> {
        DEVICE.set(self.device);
        // SAFETY: by contract.
        let went_well = unsafe { (self.perform)(self.data, 1) } != 0;
        match FOUND.take() {
            Some(report) => Err(report),
            None if went_well => Ok(()),
            None => {
                let text = format!("{}: the emulator panicked; its message is on standard error", self.function);
                Err(Report { code: HipError::UNKNOWN, text })
            }
        }
    }
}

impl Drop for SiblingWork {
    fn drop(&mut self) {
        // SAFETY: by contract, and only once.
        unsafe { (self.perform)(self.data, 0) };
    }
}

/// Puts work on a stream; it is asked whether its time has come if `waits` is not 0, again after each
/// `candle_rocm_emulator_wake`.
///
/// # Safety
/// `function` is a zero-terminated string, and any thread may call `perform` with `data`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn candle_rocm_emulator_enqueue(
    stream: hipStream_t,
    function: *const c_char,
    waits: c_int,
    perform: Perform,
    data: *mut c_void,
) -> hipError_t {
    // SAFETY: by contract.
    let function = unsafe { text(function) };
    let mut work = SiblingWork { function, device: 0, perform, data };
    let enqueued = stream::resolve(stream).and_then(|stream| {
        work.device = machine::lock().queues.device_of(stream).ok_or(HipError::INVALID_HANDLE)?;
        let work = Arc::new(work);
        let asked = Arc::clone(&work);
        let action = Action::new(move || work.run());
        let action = if waits == 0 { action } else { action.after(move || asked.is_ready()) };
        machine::enqueue(stream, Work::Run(action))
    });
    enqueued.err().map_or(hipSuccess, |error| error.0)
}

/// Asks work that waits whether its time has come.
#[unsafe(no_mangle)]
pub extern "C" fn candle_rocm_emulator_wake() {
    machine::wake();
}

/// From now on work is done even if nobody in this process waits for it.
#[unsafe(no_mangle)]
pub extern "C" fn candle_rocm_emulator_run_by_itself() {
    machine::run_by_itself();
}

/// The device of a stream, or -1 if there is no such stream.
#[unsafe(no_mangle)]
pub extern "C" fn candle_rocm_emulator_device_of(stream: hipStream_t) -> c_int {
    let device = stream::resolve(stream).ok().and_then(|stream| machine::lock().queues.device_of(stream));
    device.map_or(-1, |device| device as c_int)
}

/// Whether a stream is captured: 1 or 0.
#[unsafe(no_mangle)]
pub extern "C" fn candle_rocm_emulator_is_captured(stream: hipStream_t) -> c_int {
    stream::resolve(stream).is_ok_and(|stream| machine::lock().captures.holds(stream)).into()
}

/// The number of a device among all cards of the machine, or -1 if there is no such device.
#[unsafe(no_mangle)]
pub extern "C" fn candle_rocm_emulator_card(device: usize) -> c_int {
    settings().devices.get(device).map_or(-1, |card| card.number as c_int)
}

/// Checks memory that a sibling's work uses, and notes what is about to be written. Returns 0 if it must do no more.
///
/// # Safety
/// `what` is a zero-terminated string, `extents` has `count` entries, and such work calls this.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn candle_rocm_emulator_uses(what: *const c_char, extents: *const Extent, count: usize) -> c_int {
    // SAFETY: by contract; an empty list may be null.
    let extents = if count == 0 { &[] } else { unsafe { slice::from_raw_parts(extents, count) } };
    // SAFETY: by contract.
    match transfer::uses(&unsafe { text(what) }, extents, DEVICE.get()) {
        Ok(()) => 1,
        Err(report) => {
            FOUND.set(Some(report));
            0
        }
    }
}
