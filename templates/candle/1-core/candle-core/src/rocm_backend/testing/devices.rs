//! The GPUs that tests run on.
use crate::rocm_backend::{device_count, is_available, RocmDevice};
use std::io::Write;

/// GPU 0, or `None` with a message, as in rocm_basic.rs.
pub(crate) fn gpu(test: &str) -> Option<RocmDevice> {
    if !is_available() {
        skipped(test, "no ROCm device");
        return None;
    }
    Some(RocmDevice::new(0).expect("GPU 0 of a runtime that counts at least one"))
}

/// GPU `ordinal`, or `None` with a message.
pub(crate) fn gpu_of(test: &str, ordinal: usize) -> Option<RocmDevice> {
    let count = device_count().expect("the runtime answers");
    if ordinal < count {
        return Some(RocmDevice::new_with_stream(ordinal).expect("a GPU that was counted"));
    }
    if count > 0 {
        skipped(
            test,
            &format!("needs {} ROCm devices, {count} visible", ordinal + 1),
        );
    } else {
        skipped(test, "no ROCm device");
    }
    None
}

/// Past libtest's capture, so that nobody takes a skipped test for a passed one.
fn skipped(test: &str, reason: &str) {
    let line = format!("SKIPPED: {test}: {reason}\n");
    let written = std::io::stderr().write_all(line.as_bytes());
    written.expect("stderr is open");
}
