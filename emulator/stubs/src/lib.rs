//! For build scripts: a library's name for the dynamic linker, and stand-ins for the functions that it lacks.

use std::path::Path;
use std::{env, fs};

/// Names the library `lib<library>.so`, lets it stay loaded once it is, and writes `unsupported.rs` to the output folder: one call of the crate's macro
/// `unsupported!` with the names in `emulator/unsupported/<library>.txt`, the functions that the API table leaves out.
///
/// # Panics
/// If the list cannot be read or the file cannot be written.
pub fn generate(library: &str) {
    generate_partial(library, &[]);
}

/// As [`generate`], for a crate that implements some functions of the API table only: those of `table` that its sources
/// do not define get a stand-in as well.
///
/// # Panics
/// As [`generate`], and if the sources cannot be read.
pub fn generate_partial(library: &str, table: &[&str]) {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,lib{library}.so");
    // Signal handlers and the end of the record are the library's for as long as the process lives.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    let list = Path::new(env!("CARGO_MANIFEST_DIR")).join("../unsupported").join(format!("{library}.txt"));
    println!("cargo::rerun-if-changed={}", list.display());
    let left_out = fs::read_to_string(&list).unwrap_or_else(|error| panic!("{}: {error}", list.display()));
    let names: Vec<_> = left_out.split_whitespace().chain(undefined(table, &own_sources())).collect();
    let output = Path::new(&env::var_os("OUT_DIR").expect("cargo sets it")).join("unsupported.rs");
    fs::write(&output, format!("unsupported! {{ {} }}\n", names.join(" "))).expect("cargo made the folder");
}

/// What the files in `src` of the crate that is built hold.
fn own_sources() -> String {
    let folder = Path::new(&env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("src");
    println!("cargo::rerun-if-changed={}", folder.display());
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let files = entries.map(|entry| entry.expect("the folder was opened").path()).filter(|path| path.is_file());
    files.map(|file| fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))).collect()
}

/// Those of some functions that Rust sources do not define. One that is taken for undefined although it is there is
/// defined twice, which does not compile.
fn undefined<'a>(functions: &'a [&str], sources: &str) -> impl Iterator<Item = &'a str> {
    functions.iter().copied().filter(move |name| !sources.contains(&format!("fn {name}(")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_that_is_called_or_has_a_longer_namesake_is_not_defined() {
        let sources = "fn hipMalloc(size: usize) { hipFree(null) }\nfn hipMemsetAsync() {}";
        let lacking: Vec<_> = undefined(&["hipMalloc", "hipFree", "hipMemset"], sources).collect();
        assert_eq!(lacking, ["hipFree", "hipMemset"]);
    }
}
