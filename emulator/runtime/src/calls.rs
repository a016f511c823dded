//! Every call of an exported function passes here: it may be made to fail, and it is counted and written down.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::settings::settings;

/// A call that is to fail.
#[derive(Clone, Copy, Debug)]
struct Fault {
    /// Calls of the function until then; 1 is the next.
    remaining: u64,
    code: i32,
}

#[derive(Debug, Default)]
struct Calls {
    faults: BTreeMap<String, Fault>,
    counts: BTreeMap<String, u64>,
    file: Option<File>,
}

static CALLS: Mutex<Calls> = Mutex::new(Calls { faults: BTreeMap::new(), counts: BTreeMap::new(), file: None });
static COUNTING: AtomicBool = AtomicBool::new(false);

/// Notes a call and says whether it must fail, and with which code.
///
/// `arguments` is asked for only if calls are written down.
pub fn begin(function: &str, arguments: impl FnOnce() -> String) -> Option<i32> {
    let mut calls = CALLS.lock().expect("no panic while held");
    if COUNTING.load(Ordering::Relaxed) {
        *calls.counts.entry(function.to_owned()).or_default() += 1;
    }
    if let Some(path) = &settings().trace {
        let file = match calls.file.take() {
            Some(file) => Some(file),
            None => OpenOptions::new().create(true).append(true).open(path).ok(),
        };
        if let Some(mut file) = file {
            let mut line = String::new();
            let _ = writeln!(line, "{function}({}) {:?}", arguments(), std::thread::current().id());
            let _ = file.write_all(line.as_bytes());
            calls.file = Some(file);
        }
    }
    let fault = calls.faults.get_mut(function)?;
    fault.remaining -= 1;
    if fault.remaining > 0 {
        return None;
    }
    calls.faults.remove(function).map(|fault| fault.code)
}

/// Makes the `nth` call from now of a function fail with `code`; 0 takes that back.
pub fn fail(function: &str, nth: u64, code: i32) {
    let mut calls = CALLS.lock().expect("no panic while held");
    if nth == 0 {
        calls.faults.remove(function);
    } else {
        calls.faults.insert(function.to_owned(), Fault { remaining: nth, code });
    }
}

/// Starts counting calls from zero.
pub fn start_counting() {
    CALLS.lock().expect("no panic while held").counts.clear();
    COUNTING.store(true, Ordering::Relaxed);
}

/// Stops counting; the counts stay.
pub fn stop_counting() {
    COUNTING.store(false, Ordering::Relaxed);
}

/// Calls of a function while they were counted; of all functions for an empty name.
pub fn count(function: &str) -> u64 {
    let calls = CALLS.lock().expect("no panic while held");
    if function.is_empty() { calls.counts.values().sum() } else { calls.counts.get(function).copied().unwrap_or(0) }
}

/// Takes all faults back.
pub fn forget_faults() {
    CALLS.lock().expect("no panic while held").faults.clear();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// They share one table of calls.
    #[test]
    fn calls_fail_on_demand_and_are_counted() {
        let call = |function: &str| begin(function, String::new);
        fail("third", 3, 7);
        fail("first", 1, 8);
        fail("never", 1, 9);
        fail("never", 0, 9);
        assert_eq!([call("third"), call("third"), call("third"), call("third")], [None, None, Some(7), None]);
        assert_eq!([call("first"), call("first"), call("never")], [Some(8), None, None]);
        fail("forgotten", 1, 5);
        forget_faults();
        assert_eq!(call("forgotten"), None);
        start_counting();
        assert_eq!([call("counted"), call("counted"), call("counted")], [None; 3]);
        call("other");
        stop_counting();
        call("counted");
        assert_eq!([count("counted"), count("other"), count("third"), count("")], [3, 1, 0, 4]);
        start_counting();
        assert_eq!((count("counted"), count("")), (0, 0));
        stop_counting();
    }
}
