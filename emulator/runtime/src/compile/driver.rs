//! Runs the host's C++ compiler.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use sha2::{Digest, Sha256};

use super::options::Options;
use super::{Source, headers};
use crate::settings::settings;

/// A source and how to compile it.
pub struct Job<'a> {
    pub source: &'a Source,
    pub options: &'a Options,
    pub target: &'a str,
    /// Whether loads and stores are instrumented.
    pub checked: bool,
}

/// A folder for the files of one run, removed when dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> std::io::Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = format!("candle-rocm-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder)?;
        Ok(Self(folder))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The preprocessed source.
///
/// # Errors
/// The compiler's messages.
pub fn preprocess(job: &Job) -> Result<String, String> {
    let scratch = Scratch::new().map_err(|error| format!("error: no folder for temporary files: {error}\n"))?;
    for (name, text) in &job.source.headers {
        let path = scratch.0.join(name);
        let written = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(path, text));
        written.map_err(|error| format!("error: cannot write the header {name}: {error}\n"))?;
    }
    let include = headers::folder(&settings().cache)
        .map_err(|error| format!("error: cannot write {}: {error}\n", settings().cache.display()))?;
    let mut command = command(job);
    // Headers by relative paths: a folder that differs from run to run must not become part of the cache's key.
    command.args(["-x", "c++", "-E", "-fno-working-directory", "-I", ".", "-I"]).arg(include);
    command.args(["-include", "hip/hip_runtime.h", "-DCANDLE_ROCM_EMULATOR_MODULE", "-D__HIPCC_RTC__"]);
    command.arg(format!("-D__{}__", job.target));
    if job.checked {
        command.arg("-DCANDLE_ROCM_EMULATOR_CHECKED");
    }
    command.arg("-").current_dir(&scratch.0);
    let text = format!("# 1 \"{}\"\n{}\n", job.source.name.replace(['"', '\\', '\n'], "_"), job.source.text);
    let (output, _) = run(command, &text)?;
    Ok(String::from_utf8_lossy(&output).into_owned())
}

/// The code object of a preprocessed unit, and warnings.
///
/// # Errors
/// The compiler's messages.
pub fn compile(job: &Job, unit: &str) -> Result<(Vec<u8>, String), String> {
    let scratch = Scratch::new().map_err(|error| format!("error: no folder for temporary files: {error}\n"))?;
    let object = scratch.0.join("module.so");
    let mut command = command(job);
    command.args(["-x", "c++-cpp-output"]).args(flags(job.checked)).arg("-o").arg(&object);
    // Libraries must follow what needs them.
    command.args(["-", "-nodefaultlibs", "-lm", "-lgcc", "-lc"]);
    let (_, warnings) = run(command, unit)?;
    let code = fs::read(&object).map_err(|error| format!("error: the compiler left no code: {error}\n"))?;
    Ok((code, warnings))
}

/// What decides about the code: the unit, the flags and the compiler.
pub fn key(job: &Job, unit: &str) -> String {
    let mut hash = Sha256::new();
    for part in [compiler_version(), &flags(job.checked).join(" "), &job.options.passed.join(" "), unit] {
        hash.update(part);
        hash.update([0]);
    }
    format!("{:x}", hash.finalize())
}

/// AMD's compiler contracts multiplications and additions and lets math functions leave errno alone.
pub fn flags(checked: bool) -> Vec<&'static str> {
    let mut flags = vec!["-shared", "-fPIC", "-g1", "-Wl,-Bsymbolic", "-Wl,-z,defs"];
    flags.extend(["-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math", "-fno-exceptions", "-fno-rtti"]);
    // A large frame must not step over the guard page below the stack.
    flags.extend(["-fno-stack-protector", "-fstack-clash-protection", "-fno-semantic-interposition"]);
    // A static variable of a template must not become one variable of all modules.
    flags.push("-fno-gnu-unique");
    // `module::static_lds` follows relocations from function to function.
    flags.extend(["-ffunction-sections", "-Wl,--emit-relocs"]);
    if std::is_x86_feature_detected!("fma") {
        flags.push("-mfma");
    }
    if std::is_x86_feature_detected!("f16c") {
        flags.push("-mf16c");
    }
    if checked {
        // Only the instrumentation: the functions that it calls are the emulator's.
        flags.extend([
            "-O1",
            "-fexpensive-optimizations",
            "-fsanitize=thread",
            "--param=tsan-instrument-func-entry-exit=0",
        ]);
    } else {
        flags.push("-O2");
    }
    flags
}

fn command(job: &Job) -> Command {
    let mut command = Command::new(&settings().compiler);
    if !job.options.passed.iter().any(|option| option.starts_with("-std=")) {
        command.arg("-std=c++17");
    }
    command.args(&job.options.passed);
    command
}

fn compiler_version() -> &'static str {
    static VERSION: OnceLock<String> = OnceLock::new();
    VERSION.get_or_init(|| {
        let output = Command::new(&settings().compiler).arg("--version").output();
        output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
    })
}

/// Standard output and standard error of a compiler that reads `input`.
fn run(mut command: Command, input: &str) -> Result<(Vec<u8>, String), String> {
    let program = Path::new(command.get_program()).display().to_string();
    let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = spawned.map_err(|error| format!("error: cannot run the C++ compiler {program}: {error}\n"))?;
    let mut stdin = child.stdin.take().expect("piped");
    let input = input.to_owned();
    // The compiler may write before it has read everything.
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().map_err(|error| format!("error: {program}: {error}\n"))?;
    let _ = writer.join();
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { Ok((output.stdout, messages)) } else { Err(messages) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(words: &[&str]) -> Options {
        Options::parse(&words.iter().map(ToString::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn everything_that_decides_about_the_code_decides_about_its_key() {
        let source = Source::default();
        let key = |words: &[&str], checked, unit: &str| {
            key(&Job { source: &source, options: &options(words), target: "gfx1100", checked }, unit)
        };
        let plain = key(&[], true, "int a;");
        assert_eq!((plain.len(), &plain), (64, &key(&[], true, "int a;")));
        assert!(
            ![key(&["-DN=1"], true, "int a;"), key(&[], false, "int a;"), key(&[], true, "int b;")].contains(&plain)
        );
        let output = Command::new(&settings().compiler).arg("--version").output().expect("there is a compiler");
        assert_eq!(compiler_version().as_bytes(), output.stdout);
    }

    #[test]
    fn the_standard_is_cpp17_unless_an_option_says_another() {
        let source = Source::default();
        let standards = |words: &[&str]| {
            let options = options(words);
            let command = command(&Job { source: &source, options: &options, target: "gfx1100", checked: true });
            let words = command.get_args().map(|word| word.to_str().expect("ASCII").to_owned());
            words.filter(|word| word.starts_with("-std")).collect::<Vec<_>>()
        };
        assert_eq!(
            (standards(&[]), standards(&["-std=c++20"])),
            (vec!["-std=c++17".into()], vec!["-std=c++20".into()])
        );
    }

    #[test]
    fn a_folder_for_temporary_files_goes_with_its_run() {
        let scratch = Scratch::new().unwrap();
        let folder = scratch.0.clone();
        assert!(folder.is_dir() && Scratch::new().unwrap().0 != folder);
        drop(scratch);
        assert!(!folder.exists());
    }
}
