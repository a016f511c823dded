//! Finds the tables that `make amdgpu` has made.

use std::path::PathBuf;
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-env-changed=CANDLE_ROCM_AMDGPU_TABLES");
    let beside =
        PathBuf::from(env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../../build/amdgpu/tables");
    let folder = env::var_os("CANDLE_ROCM_AMDGPU_TABLES").map_or(beside, PathBuf::from);
    for name in ["cdna2", "cdna3", "rdna3", "rdna4"] {
        let file = folder.join(name).with_extension("rs");
        println!("cargo::rerun-if-changed={}", file.display());
        if let Err(error) = fs::metadata(&file) {
            println!("cargo::error={}: {error}; `make amdgpu` makes it", file.display());
            return;
        }
        let file = fs::canonicalize(&file).expect("it is there");
        println!("cargo::rustc-env=TABLE_{}={}", name.to_uppercase(), file.display());
    }
}
