//! The current device of each thread, and the contexts that the driver wants.

use std::cell::Cell;
use std::ffi::c_int;
use std::sync::OnceLock;

use api::amdhip64::{hipErrorInvalidDevice, hipErrorNoDevice, hipErrorUnknown};
use cuda::{Driver, Handle};

use crate::call::{Status, check};

/// A context, which any thread may use.
struct Context(Handle);
// SAFETY: the driver's contexts belong to no thread.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

thread_local! {
    static CHOSEN: Cell<c_int> = const { Cell::new(0) };
    /// The device whose context the driver has as this thread's.
    static ENTERED: Cell<Option<c_int>> = const { Cell::new(None) };
}

/// The driver.
///
/// # Errors
/// `hipErrorNoDevice` where there is no driver, or none that works.
pub fn driver() -> Status<&'static Driver> {
    static READY: OnceLock<Option<&'static Driver>> = OnceLock::new();
    let ready = READY.get_or_init(|| {
        let driver = Driver::open().inspect_err(|missing| eprintln!("{missing}")).ok()?;
        // SAFETY: the first call, with the only flags that there are.
        (unsafe { driver.init(0) } == 0).then_some(driver)
    });
    ready.ok_or(hipErrorNoDevice)
}

/// How many devices there are.
///
/// # Errors
/// As [`driver`].
pub fn count() -> Status<c_int> {
    let mut count = 0;
    // SAFETY: a valid pointer.
    check(unsafe { driver()?.device_count(&raw mut count) })?;
    Ok(count)
}

/// The context of a device.
///
/// # Errors
/// `hipErrorInvalidDevice` if there is no such device.
pub fn of(device: c_int) -> Status<Handle> {
    static CONTEXTS: OnceLock<Vec<OnceLock<Context>>> = OnceLock::new();
    let number = count()?;
    let contexts = CONTEXTS.get_or_init(|| (0..number).map(|_| OnceLock::new()).collect());
    let own = usize::try_from(device).ok().and_then(|device| contexts.get(device)).ok_or(hipErrorInvalidDevice)?;
    if let Some(context) = own.get() {
        return Ok(context.0);
    }
    let mut context = std::ptr::null_mut();
    // SAFETY: a valid pointer.
    check(unsafe { driver()?.retain_context(&raw mut context, device) })?;
    Ok(own.get_or_init(|| Context(context)).0)
}

/// The driver, with the context of the thread's device as the thread's.
///
/// # Errors
/// As [`of`].
pub fn enter() -> Status<&'static Driver> {
    let (driver, device) = (driver()?, CHOSEN.get());
    if ENTERED.get() != Some(device) {
        // SAFETY: a context of ours.
        check(unsafe { driver.set_context(of(device)?) })?;
        ENTERED.set(Some(device));
    }
    Ok(driver)
}

/// The thread's device.
pub fn chosen() -> c_int {
    CHOSEN.get()
}

/// Makes a device the thread's, for CUDA's own libraries too: NCCL asks CUDA which one that is.
///
/// # Errors
/// `hipErrorInvalidDevice` if there is no such device.
pub fn choose(device: c_int) -> Status {
    of(device)?;
    CHOSEN.set(device);
    enter().map(|_| ())
}

/// An attribute of a device, by the driver's number of it.
///
/// # Errors
/// As the driver.
pub fn attribute(device: c_int, attribute: c_int) -> Status<c_int> {
    let mut value = 0;
    // SAFETY: a valid pointer.
    check(unsafe { driver()?.device_attribute(&raw mut value, attribute, device) })?;
    if value < 0 { Err(hipErrorUnknown) } else { Ok(value) }
}
