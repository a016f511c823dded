//! The device of tests that need one.
use candle_core::{rocm::is_available, Device};
use std::io::Write;

/// GPU 0, or None with a message.
pub fn gpu(test: &str) -> Option<Device> {
    if !is_available() {
        // Past libtest's capture, so that nobody takes a skipped test for a passed one.
        let line = format!("SKIPPED: {test}: no ROCm device\n");
        let written = std::io::stderr().write_all(line.as_bytes());
        written.expect("stderr is open");
        return None;
    }
    Some(Device::new_rocm(0).expect("GPU 0 of a runtime that counts at least one"))
}
