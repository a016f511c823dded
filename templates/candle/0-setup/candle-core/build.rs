//! Links ROCm's libraries when the `rocm` feature is on; does nothing otherwise.
//!
//! ROCm is the first of `$ROCM_PATH`, `$HIP_PATH`, `/opt/rocm`, `/opt/rocm-*` (newest first) and `/usr` that has a HIP
//! runtime, of release 6.0 or later, and all libraries come from it. For a library that it lacks, cfg
//! `candle_rocm_absent` is set to its name: stand-ins then take the place of its functions and answer "no device" or an
//! error, so that the crate builds, and its tests run, without ROCm. That is no reason for a warning. A variable that
//! names a folder without the HIP runtime is, and so is a library that only another ROCm has.
//!
//! The script runs again when what it looked at changes: the folders, and the dynamic loader's cache, which is written
//! anew when packages with libraries are installed.
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process;

const PATH_VARIABLES: [&str; 2] = ["ROCM_PATH", "HIP_PATH"];
const LIBRARY_FOLDERS: [&str; 3] = ["lib", "lib64", "lib/x86_64-linux-gnu"];
const HIP: &str = "amdhip64";
const OLDEST: u32 = 6;
const LOADER_CACHE: &str = "/etc/ld.so.cache";

/// Cargo looks at everything below a folder before each build: only small ones are watched as a whole.
const WATCHED_ENTRIES: usize = 2000;

/// What is linked, and the variable that cargo sets for the feature which asks for it.
const LIBRARIES: [(&str, &str); 6] = [
    ("amdhip64", "CARGO_FEATURE_ROCM"),
    ("hiprtc", "CARGO_FEATURE_ROCM"),
    ("MIOpen", "CARGO_FEATURE_ROCM_MIOPEN"),
    ("rccl", "CARGO_FEATURE_ROCM_RCCL"),
    ("rocblas", "CARGO_FEATURE_ROCM"),
    ("rocrand", "CARGO_FEATURE_ROCM_ROCRAND"),
];

/// Either keeps rocm-rs's build script from generating bindings, which it brings along.
const BINDGEN_VARIABLES: [&str; 2] = ["SKIP_BINDGEN", "DOCS_RS"];
const SKIP_BINDGEN: &str = "set SKIP_BINDGEN=1 in the environment, or in [env] of your project's .cargo/config.toml: \
     rocm-rs wants libclang and headers without it (candle-rocm's --runtime dynamic needs no variable)";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-check-cfg=cfg(candle_rocm_absent, values(any()))");
    if env::var_os("CARGO_FEATURE_ROCM").is_none() {
        return;
    }
    if BINDGEN_VARIABLES.into_iter().all(is_unset) {
        eprintln!("{SKIP_BINDGEN}");
        process::exit(1);
    }
    for variable in PATH_VARIABLES {
        println!("cargo:rerun-if-env-changed={variable}");
    }
    let roots = roots();
    watch(&roots);
    let chosen = roots
        .iter()
        .find(|root| library_folder(root, HIP).is_some());
    if let Some(root) = chosen {
        refuse_old(root);
    }
    for (library, feature) in LIBRARIES {
        if env::var_os(feature).is_none() {
            continue;
        }
        match chosen.and_then(|root| library_folder(root, library)) {
            Some(folder) => {
                println!("cargo:rustc-link-search=native={}", folder.display());
                println!("cargo:rustc-link-lib=dylib={library}");
                // Of this package's programs and tests; cargo has no way to tell those that depend on it.
                if env::var("CARGO_CFG_TARGET_FAMILY").as_deref() == Ok("unix") {
                    println!("cargo:rustc-link-arg=-Wl,-rpath,{}", folder.display());
                }
            }
            None => {
                println!("cargo:rustc-cfg=candle_rocm_absent=\"{library}\"");
                say_where_else(library, chosen, &roots);
            }
        }
    }
}

/// A library of another ROCm than the HIP runtime's is not linked: they do not work together.
fn say_where_else(library: &str, chosen: Option<&PathBuf>, roots: &[PathBuf]) {
    let other = roots.iter().find_map(|root| library_folder(root, library));
    if let (Some(chosen), Some(other)) = (chosen, other) {
        println!(
            "cargo:warning={} is in {}, but not in {}, whose HIP runtime is linked: it is left out",
            file_name(library),
            other.display(),
            chosen.display()
        );
    }
}

/// Ends the build for a HIP runtime whose interface is not that of today.
fn refuse_old(root: &Path) {
    let Some(folder) = library_folder(root, HIP) else {
        return;
    };
    let library = folder.join(file_name(HIP));
    if let Some(major) = major_release(&library).filter(|major| *major < OLDEST) {
        println!(
            "cargo:warning={} is of ROCm {major}: {OLDEST}.0 or later is needed; let ROCM_PATH name one",
            library.display()
        );
        process::exit(1);
    }
}

/// 6 for a link to `libamdhip64.so.6.4.43484`; `None` if the name of the file does not tell.
fn major_release(library: &Path) -> Option<u32> {
    let file = fs::canonicalize(library).ok()?;
    let name = file.file_name()?.to_str()?;
    let version = name.strip_prefix(&format!("{}.", file_name(HIP)))?;
    version.split('.').next()?.parse().ok()
}

/// Lets cargo run this again when ROCm is installed, or another one in its place.
fn watch(roots: &[PathBuf]) {
    if Path::new(LOADER_CACHE).exists() {
        println!("cargo:rerun-if-changed={LOADER_CACHE}");
    }
    for root in roots {
        // Of what is not there yet, the folder in which it would be made.
        let mut place = root.as_path();
        while !place.exists() {
            let Some(parent) = place.parent() else { break };
            place = parent;
        }
        if has_few_entries(place) {
            println!("cargo:rerun-if-changed={}", place.display());
        }
        let libraries = LIBRARIES.iter().map(|(library, _)| library);
        for library in libraries {
            if let Some(folder) = library_folder(root, library) {
                let file = folder.join(file_name(library));
                println!("cargo:rerun-if-changed={}", file.display());
            }
        }
    }
}

fn has_few_entries(folder: &Path) -> bool {
    let mut folders = vec![folder.to_path_buf()];
    let mut count = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            count += 1;
            if count > WATCHED_ENTRIES {
                return false;
            }
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(entry.path());
            }
        }
    }
    true
}

fn is_unset(variable: &str) -> bool {
    env::var_os(variable).is_none()
}

/// The folders that may hold ROCm, in order of preference.
fn roots() -> Vec<PathBuf> {
    let mut roots = Vec::new();
    for variable in PATH_VARIABLES {
        let Some(root) = env::var_os(variable).filter(|root| !root.is_empty()) else {
            continue;
        };
        let root = PathBuf::from(root);
        let has_hip = |root: &PathBuf| library_folder(root, HIP).is_some();
        if !has_hip(&root) && !roots.iter().any(has_hip) {
            println!(
                "cargo:warning={variable} is {}, but there is no HIP runtime in it ({})",
                root.display(),
                file_name(HIP)
            );
        }
        roots.push(root);
    }
    roots.extend(default_roots());
    roots
}

/// Where ROCm's packages install it.
fn default_roots() -> Vec<PathBuf> {
    let mut versioned: Vec<PathBuf> = fs::read_dir("/opt")
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| version(path).is_some())
        .collect();
    versioned.sort_by_key(|path| version(path));
    let mut roots = vec![PathBuf::from("/opt/rocm")];
    roots.extend(versioned.into_iter().rev());
    roots.push(PathBuf::from("/usr"));
    roots
}

/// The version in a folder's name: 6.4.1 for `rocm-6.4.1`.
fn version(path: &Path) -> Option<Vec<u32>> {
    let name = path.file_name()?.to_str()?.strip_prefix("rocm-")?;
    name.split('.').map(|part| part.parse().ok()).collect()
}

fn library_folder(root: &Path, library: &str) -> Option<PathBuf> {
    LIBRARY_FOLDERS
        .iter()
        .map(|folder| root.join(folder))
        .find(|folder| folder.join(file_name(library)).is_file())
}

/// The file that the linker looks for on the target.
fn file_name(library: &str) -> String {
    match env::var("CARGO_CFG_TARGET_OS").as_deref() {
        Ok("windows") => format!("{library}.lib"),
        _ => format!("lib{library}.so"),
    }
}
