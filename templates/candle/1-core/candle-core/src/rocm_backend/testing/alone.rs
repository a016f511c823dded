//! Tests in processes of their own.
use std::process::Command;

/// The test that has a process of its own.
pub(super) const ALONE: &str = "CANDLE_ROCM_ALONE";

/// Runs a test of this program once more, by itself in a process with these environment variables, and panics if it
/// fails there. True in that process: only there the rest of the test is to be done.
pub(crate) fn is_alone(module: &str, test: &str, variables: &[(&str, &str)]) -> bool {
    if std::env::var(ALONE).is_ok_and(|name| name == test) {
        return true;
    }
    let (_, path) = module.split_once("::").expect("tests are in modules");
    let mut again = Command::new(std::env::current_exe().expect("this program has a path"));
    again.args([&format!("{path}::{test}"), "--exact", "--nocapture"]);
    // The record of what this process does with the device has no place for others, which see other devices.
    again.env_remove("CANDLE_ROCM_RECORD").env(ALONE, test);
    again.envs(variables.iter().copied());
    let output = again.output().expect("the program starts once more");
    let text = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    let passed = output.status.success() && text.contains("test result: ok. 1 passed");
    assert!(
        passed && !said.contains("SKIPPED"),
        "{}\n{text}\n{said}",
        output.status
    );
    false
}
