//! The ROCm that this process uses: all libraries come from one, since HIP of one release and rocBLAS of another corrupt
//! each other's state.
//!
//! It is the first of `$ROCM_PATH`, `$HIP_PATH` and `/opt/rocm` that has a HIP runtime, or else the one that the dynamic
//! loader finds. Which one that is, is decided once.
use super::gpu::lock;
use super::loaded;
use libloading::Library;
use std::collections::BTreeMap;
use std::env;
use std::ffi::{CString, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};

const HIP: &str = "amdhip64";

/// Why libraries could not be opened, by name.
static PROBLEMS: Mutex<BTreeMap<&str, String>> = Mutex::new(BTreeMap::new());

/// A library that stays open until the process ends.
pub(super) struct OpenLibrary {
    library: &'static Library,
    file: PathBuf,
}

impl OpenLibrary {
    /// The function with that name.
    ///
    /// # Safety
    /// `F` is the type of a pointer to the function.
    pub(super) unsafe fn function<F: Copy>(&self, name: &str) -> Result<F, CString> {
        // SAFETY: the caller's promise.
        let found = unsafe { self.library.get::<F>(name.as_bytes()) };
        found.map(|function| *function).map_err(|_| {
            let file = self.file.display();
            text(&format!(
                "{file} has no {name}: ROCm 6.0 or later is needed"
            ))
        })
    }
}

/// Opens the first of the files that the chosen ROCm has.
pub(super) fn open(library: &'static str, files: &[&str]) -> Result<OpenLibrary, CString> {
    static CHOSEN: OnceLock<Rocm> = OnceLock::new();
    let rocm = CHOSEN.get_or_init(|| Rocm::among(folders(&|variable| env::var_os(variable))));
    let opened = {
        let _undisturbed = lock(&loaded::LOADER);
        rocm.open(library, files)
    };
    opened.map_err(|problem| {
        lock(&PROBLEMS).insert(library, problem.clone());
        text(&problem)
    })
}

/// Why a library cannot be used, if it was tried.
#[allow(dead_code)] // Nobody asks as long as HIP is the only library.
pub(super) fn problem(library: &str) -> Option<String> {
    lock(&PROBLEMS).get(library).cloned()
}

/// Where libraries come from.
#[derive(Debug, PartialEq, Eq)]
struct Rocm {
    /// `None` for what the dynamic loader finds.
    folder: Option<PathBuf>,
    /// What was looked through in vain.
    others: Vec<PathBuf>,
}

impl Rocm {
    /// The first folder with a HIP runtime, of any release.
    fn among(folders: Vec<PathBuf>) -> Self {
        let has_hip = |folder: &&PathBuf| {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            entries.map(|entry| entry.path()).any(|file| is_hip(&file))
        };
        let folder = folders.iter().find(has_hip).cloned();
        Self {
            folder,
            others: folders,
        }
    }

    fn open(&self, library: &str, files: &[&str]) -> Result<OpenLibrary, String> {
        let opened = match &self.folder {
            Some(folder) => Self::in_folder(library, files, folder)?,
            None => self.by_the_loader(library, files)?,
        };
        match loaded::second_runtime() {
            Some(mixed) => Err(mixed),
            None => Ok(opened),
        }
    }

    fn in_folder(library: &str, files: &[&str], folder: &Path) -> Result<OpenLibrary, String> {
        let there = files.iter().map(|file| folder.join(file));
        let Some(file) = there.into_iter().find(|file| file.is_file()) else {
            return Err(format!(
                "the {library} library ({}) is not in {}, where the HIP runtime is",
                files.join(", "),
                folder.display()
            ));
        };
        // SAFETY: ROCm's libraries may be initialised and finalised at any time.
        let opened = unsafe { Library::new(&file) };
        opened
            .map(|library| keep(library, file))
            .map_err(|error| error.to_string())
    }

    /// Beside the HIP runtime, where it is open, or where the loader looks.
    fn by_the_loader(&self, library: &str, files: &[&str]) -> Result<OpenLibrary, String> {
        let hip = loaded::files_of("libamdhip64");
        let beside = hip.first().and_then(|hip| hip.parent());
        if let Some(folder) = beside.filter(|_| library != HIP) {
            if let Ok(opened) = Self::in_folder(library, files, folder) {
                return Ok(opened);
            }
        }
        for name in files {
            // SAFETY: as above.
            if let Ok(library) = unsafe { Library::new(name) } {
                return Ok(keep(library, PathBuf::from(name)));
            }
        }
        let others: Vec<_> = self
            .others
            .iter()
            .map(|f| f.display().to_string())
            .collect();
        Err(format!(
            "the {library} library ({}) is neither in {} nor where the dynamic loader looks; \
             install ROCm, or set ROCM_PATH",
            files.join(", "),
            others.join(", ")
        ))
    }
}

fn is_hip(file: &Path) -> bool {
    if cfg!(windows) {
        return is_hip_of_windows(file);
    }
    loaded::is_version_of(file, "libamdhip64")
}

fn is_hip_of_windows(file: &Path) -> bool {
    let name = file.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.starts_with("amdhip64") && name.ends_with(".dll"))
}

/// A library that is closed would take the memory and the threads of its driver with it.
fn keep(library: Library, file: PathBuf) -> OpenLibrary {
    OpenLibrary {
        library: Box::leak(Box::new(library)),
        file,
    }
}

/// The folders of ROCm's libraries, in order of preference.
fn folders(variable: &dyn Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let named = ["ROCM_PATH", "HIP_PATH"].map(variable);
    let named = named.into_iter().flatten().filter(|root| !root.is_empty());
    let roots = named.map(PathBuf::from).chain([PathBuf::from("/opt/rocm")]);
    let below: &[&str] = if cfg!(windows) {
        &["bin"]
    } else {
        &["lib", "lib64", "lib/x86_64-linux-gnu"]
    };
    roots
        .flat_map(|root| below.iter().map(move |below| root.join(below)))
        .collect()
}

fn text(problem: &str) -> CString {
    CString::new(problem.replace('\0', "")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn rocm_path_comes_first_and_names_a_root() {
        let variable = |name: &str| match name {
            "ROCM_PATH" => Some("/a".into()),
            _ => Some("/b".into()),
        };
        let found = folders(&variable);
        assert_eq!(
            found[0],
            Path::new(if cfg!(windows) { "/a/bin" } else { "/a/lib" })
        );
        let roots = |found: &[PathBuf]| {
            let mut roots: Vec<_> = found
                .iter()
                .map(|f| f.display().to_string()[..2].to_string())
                .collect();
            roots.dedup();
            roots
        };
        assert_eq!(roots(&found), ["/a", "/b", "/o"]);
        assert_eq!(roots(&folders(&|_| Some("".into()))), ["/o"]);
        assert_eq!(roots(&folders(&|_| None)), ["/o"]);
    }

    #[test]
    fn all_libraries_come_from_the_first_folder_that_has_hip() {
        let name = format!("candle-rocm-installation-{}", std::process::id());
        let root = env::temp_dir().join(name);
        let [old, new, empty] = ["old", "new", "empty"].map(|name| root.join(name));
        for (folder, file) in [
            (&old, "libamdhip64.so.5"),
            (&new, "libamdhip64.so.7"),
            (&old, "librocblas.so.5"),
            (&empty, "librocblas.so.5"),
        ] {
            fs::create_dir_all(folder).unwrap();
            fs::write(folder.join(file), "").unwrap();
        }
        let chosen = |folders: &[&PathBuf]| {
            Rocm::among(folders.iter().map(|folder| folder.to_path_buf()).collect())
        };
        assert_eq!(chosen(&[&new, &old]).folder.as_ref(), Some(&new));
        assert_eq!(chosen(&[&empty, &old, &new]).folder.as_ref(), Some(&old));
        assert_eq!(chosen(&[&empty]).folder, None);
        // rocBLAS of another ROCm is none.
        let error = chosen(&[&new, &old]).open("rocblas", &["librocblas.so.5"]);
        let error = error.err().expect("it is in the other one");
        assert!(error.contains("is not in"), "{error}");
        assert!(error.contains(&new.display().to_string()), "{error}");
        let _ = fs::remove_dir_all(root);
    }

    #[test]
    fn on_windows_hip_has_a_version_and_another_ending() {
        let is_hip = |name: &str| is_hip_of_windows(&Path::new("bin").join(name));
        assert!(["amdhip64.dll", "amdhip64_7.dll"].into_iter().all(is_hip));
        assert!(
            !is_hip("amdhip64_7.lib")
                && !is_hip("rocblas.dll")
                && !is_hip_of_windows(Path::new("/"))
        );
    }

    #[test]
    fn what_is_wrong_with_a_library_is_known_once_it_was_tried() {
        let name = "a library for this test";
        assert_eq!(problem(name), None);
        let told = open(name, &["libof-this-test.so.1"])
            .err()
            .expect("there is none");
        assert_eq!(problem(name).map(|known| text(&known)), Some(told));
    }

    #[test]
    fn nothing_is_opened_while_something_is_compiled() {
        let compiling = lock(&loaded::LOADER);
        let (done, is_done) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let _ = open("another library for this test", &["libof-this-test.so.1"]);
            let _ = done.send(());
        });
        let while_compiling = is_done.recv_timeout(Duration::from_millis(100));
        drop(compiling);
        thread.join().unwrap();
        assert!(while_compiling.is_err(), "it did not wait");
        assert_eq!(is_done.recv(), Ok(()));
    }

    #[test]
    fn problems_are_told_without_their_zeros() {
        let told = text("no HIP in /opt\0/rocm");
        assert_eq!(told.to_str(), Ok("no HIP in /opt/rocm"));
        assert_eq!(text("").to_str(), Ok(""));
    }
}
