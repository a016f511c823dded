//! Example programs that need no download, run as a user runs them: on ROCm, and what they answer compared with the CPU.
#![cfg(all(feature = "rocm", feature = "candle-datasets"))]

mod images;
mod mnist;
mod program;
mod text;
mod weights;

#[test]
fn custom_ops() {
    let (on_cpu, on_rocm) = program::run_on_both("custom-ops", "custom-ops", &[]);

    assert_eq!(on_rocm.matches(", rocm:0").count(), 2, "{on_rocm}");
    assert_eq!(on_rocm.replace(", rocm:0", ""), on_cpu);
}
