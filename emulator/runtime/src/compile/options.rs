//! Options of clang and hipRTC, as far as they mean something to the host's compiler.

/// What the options ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The compiler's target without its features: "gfx90a" of `--offload-arch=gfx90a:xnack-`.
    pub target: Option<String>,
    /// What is passed on.
    pub passed: Vec<String>,
    /// What is not known.
    unknown: Vec<String>,
}

/// Options whose value may follow as a word of its own.
const WITH_VALUE: [&str; 6] = ["-D", "-U", "-I", "-include", "-isystem", "-mllvm"];
/// Options that the host's compiler understands as clang does.
const PASSED: [&str; 7] = ["-D", "-U", "-I", "-include", "-isystem", "-std=", "-W"];
/// Options about AMD's code generation, or about what is set here already.
const IGNORED: [&str; 22] = [
    "-O",
    "-mllvm",
    "-m",
    "-g",
    "-x",
    "-fgpu-",
    "-fno-gpu-",
    "-fhip-",
    "-fcuda",
    "-fPIC",
    "-ffp-contract",
    "-fno-math-errno",
    "-ffast-math",
    "-fno-fast-math",
    "-fdiagnostics",
    "--hip-",
    "--rocm-path",
    "--offload",
    "--genco",
    "-nogpu",
    "-w",
    "-fno-offload",
];

impl Options {
    /// Sorts options into those passed on, those ignored and those unknown.
    pub fn parse(options: &[String]) -> Self {
        let mut parsed = Self::default();
        let mut words = options.iter();
        while let Some(word) = words.next() {
            let value = if WITH_VALUE.contains(&word.as_str()) { words.next() } else { None };
            let target =
                ["--offload-arch=", "--gpu-architecture=", "-arch="].iter().find_map(|name| word.strip_prefix(name));
            let starts_with_one_of = |names: &[&str]| names.iter().any(|name| word.starts_with(name));
            if let Some(target) = target {
                parsed.target = target.split(':').next().map(str::to_owned);
            } else if starts_with_one_of(&PASSED) {
                parsed.passed.extend([word].into_iter().chain(value).cloned());
            } else if !starts_with_one_of(&IGNORED) {
                parsed.unknown.push(word.clone());
            }
        }
        parsed
    }

    /// A line for the log about each option that is not known.
    pub fn remarks(&self) -> String {
        self.unknown.iter().map(|option| format!("warning: the emulator does not know the option {option}\n")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(options: &[&str]) -> Options {
        Options::parse(&options.iter().map(ToString::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn macros_and_folders_are_passed_on() {
        let options = parse(&["-DN=4", "-D", "M=5", "-I/include", "-std=c++20", "-include", "first.h"]);
        assert_eq!(options.passed, ["-DN=4", "-D", "M=5", "-I/include", "-std=c++20", "-include", "first.h"]);
        assert_eq!(options.remarks(), "");
    }

    #[test]
    fn the_target_loses_its_features() {
        assert_eq!(parse(&["--offload-arch=gfx90a:sramecc+:xnack-"]).target.as_deref(), Some("gfx90a"));
        assert_eq!(parse(&["--gpu-architecture=gfx1100"]).target.as_deref(), Some("gfx1100"));
    }

    #[test]
    fn options_for_amd_code_are_ignored_and_unknown_ones_named() {
        let options = parse(&["-O3", "-mllvm", "-amdgpu-x=1", "-munsafe-fp-atomics", "--frobnicate"]);
        assert_eq!(options.passed, Vec::<String>::new());
        assert_eq!(options.remarks(), "warning: the emulator does not know the option --frobnicate\n");
    }
}
