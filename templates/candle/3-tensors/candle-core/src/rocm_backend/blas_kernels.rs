//! Decides who multiplies matrices on a GPU: rocBLAS, or our own kernel if rocBLAS has none for it.
//!
//! rocBLAS has its kernels in files next to it, by architecture, and reads them for the first product. If there are none
//! for the GPU, it ends the process. These files are therefore checked before rocBLAS is used.
use super::hip::HipResult;
use super::kernels::{override_for, processor};
use super::{api, installation, loaded, RocmError};
use std::collections::BTreeSet;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

const CHOICE_VARIABLE: &str = "CANDLE_ROCM_BLAS";

/// Where rocBLAS takes its kernels from instead of a folder beside it.
const FOLDER_VARIABLE: &str = "ROCBLAS_TENSILE_LIBPATH";

/// The code that multiplies matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Multiplier {
    Rocblas,
    /// A kernel of our own.
    Own,
}

impl Multiplier {
    /// For a GPU of that architecture: what `CANDLE_ROCM_BLAS` names, else rocBLAS if it has kernels for it. That it has
    /// none is said on standard error; callers remember the answer, so it is said once.
    pub(super) fn of(architecture: &str) -> HipResult<Self> {
        let variable = env::var(CHOICE_VARIABLE).ok();
        Self::chosen(
            variable.as_deref(),
            || serves(architecture),
            |text| {
                eprintln!("candle: {text}");
            },
        )
    }

    fn chosen(
        variable: Option<&str>,
        serves: impl FnOnce() -> HipResult<()>,
        say: impl FnOnce(String),
    ) -> HipResult<Self> {
        match variable {
            None | Some("") => match serves() {
                Ok(()) => Ok(Self::Rocblas),
                Err(lack @ RocmError::BlasWithoutKernels { .. }) => {
                    say(format!(
                        "{lack}; until then matrices are multiplied by a kernel of Candle's own, which is slower \
                         ({CHOICE_VARIABLE}=own asks for it without this message)"
                    ));
                    Ok(Self::Own)
                }
                Err(error) => Err(error),
            },
            Some(name) => match Self::named(name) {
                Some(Self::Rocblas) => serves().map(|()| Self::Rocblas),
                Some(Self::Own) => Ok(Self::Own),
                None => Err(RocmError::Other(format!(
                    "{CHOICE_VARIABLE} is `{name}`: expected `rocblas` or `own`"
                ))),
            },
        }
    }

    /// As users name it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Rocblas => "rocblas",
            Self::Own => "own",
        }
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        [Self::Rocblas, Self::Own]
            .into_iter()
            .find(|each| each.name() == name)
    }

    /// Whether the user has said which it is to be.
    pub(super) fn is_chosen() -> bool {
        env::var_os(CHOICE_VARIABLE).is_some_and(|value| !value.is_empty())
    }
}

/// An error if rocBLAS has no kernels for an architecture, such as "gfx90a:sramecc+:xnack-".
pub(super) fn serves(architecture: &str) -> HipResult<()> {
    let processor = processor(architecture);
    // Libraries for GPUs of others have no such files, nor can files be looked for where the system does not tell which
    // library is loaded.
    if !processor.starts_with("gfx") || !cfg!(target_os = "linux") {
        return Ok(());
    }
    // SAFETY: the function takes any status; its call loads the library.
    let _ = unsafe { api::rocblas_status_to_string(api::rocblas_status_success) };
    if let Some(mixed) = loaded::second_runtime() {
        return Err(RocmError::UnusableRocm(mixed));
    }
    let library = loaded::files_of("librocblas");
    let folder = env::var_os(FOLDER_VARIABLE);
    Kernels::of(library.first().map(PathBuf::as_path), folder).serve(processor)
}

/// The architectures that rocBLAS has kernels for, and where that was seen.
#[derive(Debug, PartialEq, Eq)]
enum Kernels {
    /// rocBLAS is not there, for this reason.
    NoLibrary(String),
    /// rocBLAS is there, its kernels are in none of these folders.
    NoFolder(Vec<PathBuf>),
    Found(PathBuf, BTreeSet<String>),
}

impl Kernels {
    /// Of a library, and the folder that the user names.
    fn of(library: Option<&Path>, named: Option<OsString>) -> Self {
        let Some(library) = library else {
            let problem = installation::problem("rocblas");
            return Self::NoLibrary(problem.unwrap_or_else(|| "it is not loaded".to_string()));
        };
        let folders = match named.filter(|folder| !folder.is_empty()) {
            Some(folder) => vec![PathBuf::from(folder)],
            None => folders_beside(library),
        };
        for folder in &folders {
            let found = architectures(folder);
            if !found.is_empty() {
                return Self::Found(folder.clone(), found);
            }
        }
        Self::NoFolder(folders)
    }

    /// An error if there are none for this architecture.
    fn serve(&self, architecture: &str) -> HipResult<()> {
        let lack = |reason: String, remedy: String| {
            Err(RocmError::BlasWithoutKernels {
                architecture: architecture.to_string(),
                reason,
                remedy,
            })
        };
        match self {
            Self::NoLibrary(problem) => lack(
                problem.clone(),
                "install the rocBLAS of that ROCm".to_string(),
            ),
            Self::NoFolder(folders) => {
                let folders: Vec<_> = folders.iter().map(|f| f.display().to_string()).collect();
                lack(
                    format!("none are in {}", folders.join(", ")),
                    format!("install all of rocBLAS, or set {FOLDER_VARIABLE}"),
                )
            }
            Self::Found(_, found) if found.contains(architecture) => Ok(()),
            Self::Found(folder, found) => {
                let names: Vec<_> = found.iter().map(String::as_str).collect();
                let reason = format!("{} has those for {}", folder.display(), names.join(", "));
                let stand_in = names
                    .iter()
                    .find_map(|other| Some((other, override_for(architecture, other)?)));
                lack(
                    reason,
                    match stand_in {
                        Some((other, version)) => format!(
                            "set HSA_OVERRIDE_GFX_VERSION={version} to use those for {other}"
                        ),
                        None => format!("install a rocBLAS that has kernels for {architecture}"),
                    },
                )
            }
        }
    }
}

/// The folders in which rocBLAS looks for its kernels, as AMD and as Debian build it.
fn folders_beside(library: &Path) -> Vec<PathBuf> {
    let beside = library.parent().unwrap_or(Path::new(""));
    let mut folders = vec![
        beside.join("../../Tensile/library"),
        beside.join("library"),
        beside.join("rocblas/library"),
    ];
    // Debian: one folder for each version of the library's interface.
    let mut versions: Vec<PathBuf> = fs::read_dir(beside.join("rocblas"))
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path().join("library"))
        .filter(|folder| folder.is_dir())
        .collect();
    versions.sort();
    let of_library = |folder: &PathBuf| {
        let version = folder.parent().and_then(Path::file_name);
        let version = version.map(|version| format!(".so.{}", version.to_string_lossy()));
        version.is_some_and(|version| library.to_string_lossy().ends_with(&version))
    };
    match versions.iter().position(of_library) {
        Some(place) => folders.push(versions.swap_remove(place)),
        None => folders.append(&mut versions),
    }
    folders
}

/// The architectures of the kernels in a folder, or in those below it that are named for one.
fn architectures(folder: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut has_catalogue = false;
    let mut of_code = BTreeSet::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        if name.starts_with("gfx") && entry.path().is_dir() {
            found.append(&mut architectures(&entry.path()));
        }
        has_catalogue |= matches!(&name[..], "TensileLibrary.dat" | "TensileLibrary.yaml");
        let Some(architecture) = architecture_in(&name) else {
            continue;
        };
        match Path::new(&name).extension().and_then(|end| end.to_str()) {
            Some("dat" | "yaml") if name.starts_with("TensileLibrary_lazy_") => {
                found.insert(architecture);
            }
            Some("co" | "hsaco") => {
                of_code.insert(architecture);
            }
            _ => {}
        }
    }
    // Without a catalogue of its own, an architecture is in the one of all.
    if has_catalogue {
        found.append(&mut of_code);
    }
    found
}

/// "gfx90a" of "Kernels.so-000-gfx90a-xnack+.hsaco".
fn architecture_in(name: &str) -> Option<String> {
    let name = &name[name.find("gfx")?..];
    let digits = name[3..].find(|c: char| !c.is_ascii_hexdigit());
    let end = digits.map_or(name.len(), |digits| 3 + digits);
    (end > 5).then(|| name[..end].to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// A folder of its own with these files, which are empty; removed at the end.
    struct Folder(PathBuf);

    impl Folder {
        fn with(files: &[&str]) -> Self {
            static FOLDERS: AtomicU32 = AtomicU32::new(0);
            let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
            let name = format!("candle-rocm-tensile-{}-{number}", std::process::id());
            let folder = env::temp_dir().join(name);
            for file in files {
                let path = folder.join(file);
                fs::create_dir_all(path.parent().expect("it is in the folder")).unwrap();
                fs::write(path, "").unwrap();
            }
            Self(folder)
        }

        fn kernels(&self, library: &str) -> Kernels {
            Kernels::of(Some(&self.0.join(library)), None)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn an_architecture_has_at_least_three_digits() {
        let found = |name: &str| architecture_in(name).unwrap_or_default();
        assert_eq!(found("Kernels.so-000-gfx90a-xnack+.hsaco"), "gfx90a");
        assert_eq!(found("TensileLibrary_gfx906.co"), "gfx906");
        assert_eq!(found("TensileLibrary_gfx90.co"), "");
        assert_eq!(found("TensileLibrary.co"), "");
    }

    fn names(kernels: &Kernels) -> Vec<&str> {
        match kernels {
            Kernels::Found(_, found) => found.iter().map(String::as_str).collect(),
            _ => Vec::new(),
        }
    }

    #[test]
    fn kernels_are_found_as_amd_and_as_debian_lay_them_out() {
        let lazy = "TensileLibrary_lazy_gfx1100.dat";
        for (folder, library) in [
            ("lib/rocblas/library", "lib/librocblas.so"),
            ("lib/library", "lib/librocblas.so.5"),
            ("Tensile/library", "build/release/librocblas.so.4.4"),
            ("lib/rocblas/5/library", "lib/librocblas.so.5"),
            ("lib/rocblas/4.4.1/library", "lib/librocblas.so"),
        ] {
            let laid_out = Folder::with(&[&format!("{folder}/{lazy}"), library]);
            assert_eq!(names(&laid_out.kernels(library)), ["gfx1100"], "{folder}");
        }
        // Of two versions side by side, each has its own.
        let both = Folder::with(&[
            "lib/rocblas/4/library/TensileLibrary_lazy_gfx906.dat",
            "lib/rocblas/5/library/TensileLibrary_lazy_gfx942.dat",
        ]);
        assert_eq!(names(&both.kernels("lib/librocblas.so.4")), ["gfx906"]);
        assert_eq!(names(&both.kernels("lib/librocblas.so.5")), ["gfx942"]);
    }

    #[test]
    fn an_architecture_has_kernels_if_a_catalogue_names_them() {
        for (files, expected) in [
            (&["TensileLibrary_lazy_gfx90a.dat"][..], &["gfx90a"][..]),
            // Code that no catalogue lists, and a catalogue without code.
            (&["Kernels.so-000-gfx90a-xnack+.hsaco"], &[]),
            (&["TensileLibrary.dat"], &[]),
            (
                &[
                    "TensileLibrary.dat",
                    "TensileLibrary_gfx906.co",
                    "Kernels.so-000-gfx1030.hsaco",
                ],
                &["gfx1030", "gfx906"],
            ),
            (&["gfx942/TensileLibrary_lazy_gfx942.dat"], &["gfx942"]),
            (&["others/TensileLibrary_lazy_gfx942.dat"], &[]),
            (
                &[
                    "TensileLibrary_lazy_gfx1100.txt",
                    "TensileLibrary_lazy_.dat",
                ],
                &[],
            ),
        ] {
            let files: Vec<_> = files
                .iter()
                .map(|file| format!("rocblas/library/{file}"))
                .collect();
            let files: Vec<_> = files.iter().map(String::as_str).collect();
            let folder = Folder::with(&files);
            assert_eq!(
                names(&folder.kernels("librocblas.so")),
                expected,
                "{files:?}"
            );
        }
    }

    #[test]
    fn the_user_may_name_another_folder() {
        let beside = Folder::with(&["rocblas/library/TensileLibrary_lazy_gfx906.dat"]);
        let named = Folder::with(&["TensileLibrary_lazy_gfx942.dat"]);
        let library = beside.0.join("librocblas.so");
        let of = |folder: OsString| Kernels::of(Some(&library), Some(folder));
        assert_eq!(names(&of(named.0.clone().into())), ["gfx942"]);
        assert_eq!(names(&of("".into())), ["gfx906"]);
        let nothing = PathBuf::from("/nobody/has/this");
        assert_eq!(of(nothing.clone().into()), Kernels::NoFolder(vec![nothing]));
    }

    #[test]
    fn what_is_missing_is_named_with_the_way_out() {
        let folder = Folder::with(&[
            "rocblas/library/TensileLibrary_lazy_gfx1030.dat",
            "rocblas/library/TensileLibrary_lazy_gfx1100.dat",
        ]);
        let kernels = folder.kernels("librocblas.so");
        let place = folder.0.join("rocblas/library");
        let place = place.display();
        assert!(kernels.serve("gfx1100").is_ok());
        for (architecture, remedy) in [
            (
                "gfx1103",
                "set HSA_OVERRIDE_GFX_VERSION=11.0.0 to use those for gfx1100",
            ),
            ("gfx90c", "install a rocBLAS that has kernels for gfx90c"),
        ] {
            let error = kernels.serve(architecture).expect_err("it has none");
            let text = format!(
                "rocBLAS has no kernels for {architecture}: {place} has those for gfx1030, gfx1100; {remedy}"
            );
            assert_eq!(error.to_string(), text);
        }
        // Where rocBLAS can be loaded, nothing has loaded it; elsewhere, the reason is why it cannot be.
        let reason = installation::problem("rocblas").unwrap_or("it is not loaded".to_string());
        let error = Kernels::of(None, None).serve("gfx1100");
        assert_eq!(
            error.expect_err("no library").to_string(),
            format!(
                "rocBLAS has no kernels for gfx1100: {reason}; install the rocBLAS of that ROCm"
            )
        );
        let error = Kernels::of(Some(Path::new("/x/librocblas.so")), None).serve("gfx1100");
        let text = error.expect_err("no folder").to_string();
        assert!(
            text.contains("none are in /x/../../Tensile/library, /x/library, /x/rocblas/library"),
            "{text}"
        );
        assert!(text.ends_with("or set ROCBLAS_TENSILE_LIBPATH"), "{text}");
    }

    #[test]
    fn rocblas_multiplies_where_it_can_and_own_kernels_otherwise() {
        let lack = || Kernels::NoLibrary("gone".to_string()).serve("gfx1100");
        let silent = |text: String| panic!("{text}");
        for variable in [None, Some(""), Some("rocblas")] {
            let chosen = Multiplier::chosen(variable, || Ok(()), silent);
            assert_eq!(chosen.expect("it is served"), Multiplier::Rocblas);
        }
        let asked = || panic!("nobody looks for what is not wanted");
        let chosen = Multiplier::chosen(Some("own"), asked, silent);
        assert_eq!(chosen.expect("it is always there"), Multiplier::Own);
        let mut said = String::new();
        let chosen = Multiplier::chosen(None, lack, |text| said = text);
        assert_eq!(chosen.expect("there is another way"), Multiplier::Own);
        assert!(
            said.starts_with("rocBLAS has no kernels for gfx1100: "),
            "{said}"
        );
        assert!(said.contains("CANDLE_ROCM_BLAS=own"), "{said}");
        let error = Multiplier::chosen(Some("rocblas"), lack, silent).expect_err("it lacks them");
        assert!(
            matches!(error, RocmError::BlasWithoutKernels { .. }),
            "{error}"
        );
        let other = || Err(RocmError::UnusableRocm("two".to_string()));
        let error = Multiplier::chosen(None, other, silent).expect_err("no kernel helps");
        assert_eq!(error.to_string(), "two");
        let error = Multiplier::chosen(Some("cublas"), lack, silent).expect_err("unknown");
        let text = "CANDLE_ROCM_BLAS is `cublas`: expected `rocblas` or `own`";
        assert_eq!(error.to_string(), text);
    }

    #[test]
    fn a_gpu_of_amd_wants_kernels_for_it() {
        assert!(serves("sm_90").is_ok());
        if cfg!(target_os = "linux") {
            let lack = serves("gfx9999:sramecc+:xnack-")
                .err()
                .map(|e| e.to_string());
            assert!(lack.is_some_and(|lack| lack.contains("gfx9999")));
        }
    }
}
