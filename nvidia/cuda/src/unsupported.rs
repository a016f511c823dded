//! What the libraries say of functions that they lack.

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::Mutex;

/// Says on standard error, once for each function, that HIP on NVIDIA lacks it.
pub fn say_unsupported(function: &str) {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    if SAID.lock().is_ok_and(|mut said| said.insert(function.to_owned())) {
        // Who cannot read it still gets the status.
        let _ = writeln!(std::io::stderr(), "{function}: not supported by HIP on NVIDIA");
    }
}
