//! Example programs as processes.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A folder of this test, empty.
pub fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    if folder.exists() {
        std::fs::remove_dir_all(&folder).unwrap();
    }
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// What the example prints, with kernels compiled into the folder `kernels`.
///
/// Some examples prepare for downloads although files are named for all they need: nothing would come, and nothing
/// is found in the user's cache.
pub fn run(example: &str, kernels: &Path, arguments: &[&str]) -> String {
    let done = Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--package", "candle-examples"])
        .args(["--features", "rocm,candle-datasets", "--example", example])
        .arg("--")
        .args(arguments)
        .env("CANDLE_ROCM_CACHE_DIR", kernels)
        .env("HF_HOME", kernels.with_extension("hub"))
        .env("HF_ENDPOINT", "http://127.0.0.1:9")
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{example} {arguments:?}: {errors}");
    String::from_utf8(done.stdout).unwrap()
}

/// What the example prints with `--cpu` and without, `name` being the test's; the latter ran on ROCm.
pub fn run_on_both(name: &str, example: &str, arguments: &[&str]) -> (String, String) {
    let kernels = folder(&format!("{name}-kernels"));
    let on_cpu = run(example, &kernels, &[&["--cpu"][..], arguments].concat());
    assert!(!compiled_kernels(&kernels));
    let on_rocm = run(example, &kernels, arguments);
    assert!(compiled_kernels(&kernels), "it ran on the CPU: {on_rocm}");
    (on_cpu, on_rocm)
}

/// True if a program that used this folder compiled a kernel: it ran on ROCm then.
pub fn compiled_kernels(folder: &Path) -> bool {
    std::fs::read_dir(folder).is_ok_and(|entries| entries.count() > 0)
}
