//! What is said of a host's access to device memory before the process ends by it.

use std::ffi::CStr;

use crate::machine;

/// Writes a report to standard error. Only the signal handler calls this: the thread was not in the emulator.
pub fn report(address: usize, writes: bool) {
    let verb = if writes { "writes" } else { "reads" };
    let whereabouts = machine::nearest_allocation_now(address).unwrap_or_else(|| "where nothing is allocated".into());
    let text = format!(
        "candle-rocm emulator: the host {verb} device memory at {address:#x}, {whereabouts}, on thread {:?}{}; \
         a card's memory is reached by copies only\n",
        thread_name(),
        test()
    );
    // SAFETY: a buffer and its length. Rust's own standard error may be in use by this very thread.
    unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len()) };
}

/// The thread's name, of which the system keeps 15 bytes: tests run on threads of their names.
fn thread_name() -> String {
    let mut name = [0; 16];
    // SAFETY: room for what the system writes, which ends with a zero.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    // SAFETY: as above.
    unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned()
}

/// What else tells the test: the program's arguments where each test is a process, and pytest's variable.
fn test() -> String {
    let arguments: Vec<_> = std::env::args_os().map(|argument| argument.to_string_lossy().into_owned()).collect();
    let pytest = std::env::var("PYTEST_CURRENT_TEST").map_or(String::new(), |test| format!(" in {test}"));
    format!(" of {:?}{pytest}", arguments.join(" "))
}
