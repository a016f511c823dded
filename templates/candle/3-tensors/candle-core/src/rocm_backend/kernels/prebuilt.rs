//! Code objects that `candle-rocm kernels build` has made ahead of time, in the folder that `CANDLE_ROCM_KERNELS_DIR`
//! names.
//!
//! It has `<architecture>/<family>.hsaco`, and beside each `<family>.origin`: the hash of its sources and its length.
use super::architecture::{override_for, processor};
use super::compile::Unit;
use crate::rocm_backend::hip::HipResult;
use crate::rocm_backend::plan::table::ARCHITECTURES;
use crate::rocm_backend::RocmError;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

const FOLDER_VARIABLE: &str = "CANDLE_ROCM_KERNELS_DIR";

/// A folder of code objects.
#[derive(Debug)]
pub(super) struct Prebuilt {
    folder: PathBuf,
}

impl Prebuilt {
    /// The folder that the user names, if any.
    pub(super) fn named() -> Option<Self> {
        Self::of(env::var_os(FOLDER_VARIABLE))
    }

    fn of(value: Option<OsString>) -> Option<Self> {
        let folder = value.filter(|folder| !folder.is_empty())?.into();
        Some(Self { folder })
    }

    /// The code object of a unit, or `None` if the folder has none for its architecture. An error if it was made of
    /// other sources than this program's, or is not complete.
    pub(super) fn read(&self, unit: &Unit<'_>) -> HipResult<Option<Vec<u8>>> {
        let path = self.place(processor(unit.architecture), unit.file);
        let Some(code) = read_if_there(&path)? else {
            return Ok(None);
        };
        let unusable = |problem: &str| RocmError::UnusableKernels {
            path: path.display().to_string(),
            problem: problem.to_string(),
            remedy: format!(
                "run `{}`, or unset {FOLDER_VARIABLE}",
                self.command(processor(unit.architecture))
            ),
        };
        let origin = read_if_there(&path.with_extension("origin"))?;
        let origin = origin.ok_or_else(|| unusable("it has no .origin file beside it"))?;
        let origin = String::from_utf8_lossy(&origin);
        let mut words = origin.split_ascii_whitespace();
        if words.next() != Some(&unit.sources().to_string()) {
            return Err(unusable(
                "it was made of other kernel sources than this program's",
            ));
        }
        // HIP is not told where a code object ends, and would read on.
        if words.next() != Some(&code.len().to_string()) {
            return Err(unusable("it is not complete"));
        }
        Ok(Some(code))
    }

    /// The error for a unit that is neither here nor can be compiled, for the reason given.
    pub(super) fn missing(
        folder: Option<&Self>,
        unit: &Unit<'_>,
        reason: impl std::fmt::Display,
    ) -> RocmError {
        let architecture = processor(unit.architecture);
        let built = folder.map(|folder| folder.architectures(unit.file));
        let ways = ways_out(architecture, folder, built.as_deref().unwrap_or_default());
        let there = match (folder, built.as_deref()) {
            (Some(Self { folder }), Some([])) => format!("none are in {}", folder.display()),
            (Some(Self { folder }), Some(built)) => {
                format!("{} has those for {}", folder.display(), built.join(", "))
            }
            _ => format!("{FOLDER_VARIABLE} is not set"),
        };
        RocmError::MissingKernels {
            file: unit.file.to_string(),
            architecture: architecture.to_string(),
            reason: format!("{reason}, and {there}"),
            remedy: ways.join(", or "),
        }
    }

    /// Where the code object of a source is, or would be.
    fn place(&self, architecture: &str, file: &str) -> PathBuf {
        self.folder
            .join(architecture)
            .join(Path::new(file).with_extension("hsaco"))
    }

    /// The architectures that a source was compiled for, in order.
    fn architectures(&self, file: &str) -> Vec<String> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let mut built: Vec<String> = names
            .filter(|name| self.place(name, file).is_file())
            .collect();
        built.sort();
        built
    }

    /// The command that makes the kernels of an architecture.
    fn command(&self, architecture: &str) -> String {
        build_command(architecture, &self.folder.display().to_string())
    }
}

fn build_command(architecture: &str, folder: &str) -> String {
    format!("candle-rocm kernels build --arch {architecture} --to {folder}")
}

/// What a user can do about kernels that are built for other architectures only.
fn ways_out(architecture: &str, folder: Option<&Prebuilt>, built: &[String]) -> Vec<String> {
    let command = |architecture| match folder {
        Some(folder) => format!("run `{}`", folder.command(architecture)),
        None => format!(
            "run `{}` and set {FOLDER_VARIABLE}=DIR",
            build_command(architecture, "DIR")
        ),
    };
    let setting = |version| format!("set HSA_OVERRIDE_GFX_VERSION={version}");
    let mut ways = Vec::new();
    if let Some((other, version)) = stand_in(architecture, built.iter().map(String::as_str)) {
        ways.push(format!("{} to use those for {other}", setting(version)));
    }
    if ARCHITECTURES.contains(&architecture) {
        ways.push(command(architecture));
    } else if ways.is_empty() {
        let known = ARCHITECTURES.iter().copied();
        ways.extend(
            stand_in(architecture, known)
                .map(|(other, version)| format!("{} and {}", command(other), setting(version))),
        );
    }
    ways.push("let hipRTC compile them".to_string());
    ways
}

/// The first of some architectures whose kernels an architecture runs, and the override that makes it do so.
fn stand_in<'a>(
    architecture: &str,
    mut others: impl Iterator<Item = &'a str>,
) -> Option<(&'a str, String)> {
    others.find_map(|other| Some((other, override_for(architecture, other)?)))
}

/// A file's content; `None` if there is no such file.
fn read_if_there(path: &Path) -> HipResult<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(content) => Ok(Some(content)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("{}: {error}", path.display()).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rocm_backend::testing::is_alone;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// A folder of its own with code objects of "k.hip"; removed at the end.
    struct Built(Prebuilt);

    impl Built {
        fn with(code_objects: &[(&str, &[u8], Option<String>)]) -> Self {
            static FOLDERS: AtomicU32 = AtomicU32::new(0);
            let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
            let name = format!("candle-rocm-prebuilt-{}-{number}", std::process::id());
            let folder = env::temp_dir().join(name);
            fs::create_dir_all(&folder).unwrap();
            let built = Prebuilt { folder };
            for (architecture, code, origin) in code_objects {
                let path = built.place(architecture, "k.hip");
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(&path, code).unwrap();
                if let Some(origin) = origin {
                    fs::write(path.with_extension("origin"), origin).unwrap();
                }
            }
            Self(built)
        }
    }

    impl Drop for Built {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0.folder);
        }
    }

    fn unit(architecture: &str) -> Unit<'_> {
        Unit {
            file: "k.hip",
            source: "source",
            headers: &[("h.h", "header")],
            architecture,
        }
    }

    fn origin(length: usize) -> Option<String> {
        Some(format!("{} {length}\n", unit("").sources()))
    }

    #[test]
    fn a_code_object_of_these_sources_is_taken() -> HipResult<()> {
        let built = Built::with(&[("gfx90a", b"code", origin(4))]);
        for architecture in ["gfx90a", "gfx90a:sramecc+:xnack-"] {
            let code = built.0.read(&unit(architecture))?;
            assert_eq!(code.as_deref(), Some(&b"code"[..]));
        }
        assert_eq!(built.0.read(&unit("gfx908"))?, None);
        Ok(())
    }

    #[test]
    fn any_other_is_refused() {
        let cases = [
            (None, "it has no .origin file beside it"),
            (
                Some(format!("{:032x} 4", 1)),
                "it was made of other kernel sources than this program's",
            ),
            (origin(5), "it is not complete"),
            (
                origin(4).map(|text| text[..32].to_string()),
                "it is not complete",
            ),
        ];
        for (origin, problem) in cases {
            let built = Built::with(&[("gfx1100", b"code", origin)]);
            let folder = built.0.folder.display();
            let error = built.0.read(&unit("gfx1100")).unwrap_err();
            let text = format!(
                "{folder}/gfx1100/k.hsaco cannot be used: {problem}; run `candle-rocm kernels build --arch gfx1100 \
                 --to {folder}`, or unset CANDLE_ROCM_KERNELS_DIR"
            );
            assert_eq!(error.to_string(), text);
        }
    }

    #[test]
    fn what_is_missing_is_named_with_the_ways_out() {
        let built = Built::with(&[("gfx1100", b"", None), ("gfx1030", b"", None)]);
        let none = Built::with(&[]);
        let (some, nothing) = (built.0.folder.display(), none.0.folder.display());
        let cases = [
            (
                "gfx1101",
                Some(&built.0),
                format!(
                    "{some} has those for gfx1030, gfx1100; set HSA_OVERRIDE_GFX_VERSION=11.0.0 to use those for \
                     gfx1100, or run `candle-rocm kernels build --arch gfx1101 --to {some}`, or let"
                ),
            ),
            (
                "gfx1031",
                Some(&built.0),
                format!(
                    "{some} has those for gfx1030, gfx1100; set HSA_OVERRIDE_GFX_VERSION=10.3.0 to use those for \
                     gfx1030, or let"
                ),
            ),
            (
                "gfx90a",
                Some(&built.0),
                format!(
                    "{some} has those for gfx1030, gfx1100; run `candle-rocm kernels build --arch gfx90a \
                     --to {some}`, or let"
                ),
            ),
            (
                "gfx1103",
                Some(&none.0),
                format!(
                    "none are in {nothing}; run `candle-rocm kernels build --arch gfx1100 --to {nothing}` and set \
                     HSA_OVERRIDE_GFX_VERSION=11.0.0, or let"
                ),
            ),
            (
                "gfx906",
                None,
                "CANDLE_ROCM_KERNELS_DIR is not set; run `candle-rocm kernels build --arch gfx906 --to DIR` and set \
                 CANDLE_ROCM_KERNELS_DIR=DIR, or let"
                    .to_string(),
            ),
            (
                "gfx700",
                None,
                "CANDLE_ROCM_KERNELS_DIR is not set; let".to_string(),
            ),
        ];
        for (architecture, folder, rest) in cases {
            let unit = unit(architecture);
            let error = Prebuilt::missing(folder, &unit, "no compiler").to_string();
            let text = format!(
                "no kernels of k.hip for {architecture}: no compiler, and {rest} hipRTC compile them"
            );
            assert_eq!(error, text);
        }
    }

    #[test]
    fn a_folder_is_named_by_what_is_not_empty() {
        assert!(Prebuilt::of(None).is_none());
        assert!(Prebuilt::of(Some("".into())).is_none());
        let named = Prebuilt::of(Some("kernels".into())).expect("it has a name");
        assert_eq!(named.folder, Path::new("kernels"));
    }

    #[test]
    fn what_cannot_be_read_is_an_error() {
        let built = Built::with(&[]);
        let path = built.0.place("gfx1100", "k.hip");
        fs::create_dir_all(&path).unwrap();
        let error = built.0.read(&unit("gfx1100")).expect_err("it is a folder");
        let text = error.to_string();
        assert!(text.starts_with(&path.display().to_string()), "{text}");
    }

    #[test]
    fn the_environment_names_the_folder() {
        let test = "the_environment_names_the_folder";
        if is_alone(module_path!(), test, &[(FOLDER_VARIABLE, "kernels")]) {
            let named = Prebuilt::named().expect("it is set");
            assert_eq!(named.folder, Path::new("kernels"));
        }
    }
}
