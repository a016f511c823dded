//! The library's name for the dynamic linker.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libamdhip64.so");
}
