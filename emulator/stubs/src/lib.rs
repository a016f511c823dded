//! For build scripts: a library's name for the dynamic linker, and stand-ins for the functions that it lacks.

use std::path::Path;
use std::{env, fs};

/// Names the library `lib<library>.so`, and writes `unsupported.rs` to the output folder: one call of the crate's macro
/// `unsupported!` with the names in `emulator/unsupported/<library>.txt`.
///
/// # Panics
/// If the list cannot be read or the file cannot be written.
pub fn generate(library: &str) {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,lib{library}.so");
    let list = Path::new(env!("CARGO_MANIFEST_DIR")).join("../unsupported").join(format!("{library}.txt"));
    println!("cargo::rerun-if-changed={}", list.display());
    let names = fs::read_to_string(&list).unwrap_or_else(|error| panic!("{}: {error}", list.display()));
    let names: Vec<_> = names.split_whitespace().collect();
    let output = Path::new(&env::var_os("OUT_DIR").expect("cargo sets it")).join("unsupported.rs");
    fs::write(&output, format!("unsupported! {{ {} }}\n", names.join(" "))).expect("cargo made the folder");
}
