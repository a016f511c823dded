//! Example programs as processes.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A folder of this test and this process, which is removed at the end: programs may run for two GPUs at a time.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new(name: &str) -> Self {
        let name = format!("{name}-{}", std::process::id());
        let folder = Self(Path::new(env!("CARGO_TARGET_TMPDIR")).join(name));
        std::fs::create_dir_all(&folder.0).unwrap();
        folder
    }

    /// One beside it.
    fn hub(&self) -> PathBuf {
        self.0.with_extension("hub")
    }
}

impl Deref for Folder {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        for folder in [&self.0, &self.hub()] {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

/// What the example prints, with kernels compiled into the folder `kernels`.
///
/// Some examples prepare for downloads although files are named for all they need: nothing would come, and nothing
/// is found in the user's cache.
pub fn run(example: &str, kernels: &Folder, arguments: &[&str]) -> String {
    let done = Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--package", "candle-examples"])
        .args(["--features", "rocm,candle-datasets", "--example", example])
        .arg("--")
        .args(arguments)
        .env("CANDLE_ROCM_CACHE_DIR", &**kernels)
        .env("HF_HOME", kernels.hub())
        .env("HF_ENDPOINT", "http://127.0.0.1:9")
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{example} {arguments:?}: {errors}");
    String::from_utf8(done.stdout).unwrap()
}

/// What the example prints with `--cpu` and without, `name` being the test's; the latter ran on ROCm.
pub fn run_on_both(name: &str, example: &str, arguments: &[&str]) -> (String, String) {
    let kernels = Folder::new(&format!("{name}-kernels"));
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
