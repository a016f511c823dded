//! Which libraries the process has loaded, and from where.
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Held while a library is opened, and while hipRTC compiles. When rocBLAS is opened, it asks AMD's compiler to unpack its
/// kernels while the dynamic loader has its lock; the compiler has a lock as well, and asks for the loader's while it links.
/// Without this one, a thread that opens rocBLAS and a thread that compiles may wait for one another for ever.
#[allow(dead_code)] // Nothing is compiled as long as HIP is the only library.
pub(super) static LOADER: Mutex<()> = Mutex::new(());

/// The files of a library that the process has loaded, in the order in which they came; "libamdhip64" names them all,
/// whatever their version. Empty where the system does not tell.
pub(super) fn files_of(library: &str) -> Vec<PathBuf> {
    let mut files = loaded();
    files.retain(|file| is_version_of(file, library));
    files
}

/// What to say where the process has loaded two HIP runtimes: its libraries are of two releases of ROCm, which do not know
/// of each other's memory and streams.
pub(super) fn second_runtime() -> Option<String> {
    let mut files: Vec<PathBuf> = files_of("libamdhip64")
        .into_iter()
        .map(|file| file.canonicalize().unwrap_or(file))
        .collect();
    files.sort();
    files.dedup();
    match &files[..] {
        [first, second, ..] => Some(format!(
            "libraries of two releases of ROCm met in this process, with the HIP runtimes {} and {}; let ROCM_PATH, or \
             the dynamic loader's path, name one ROCm only",
            first.display(),
            second.display()
        )),
        _ => None,
    }
}

/// Whether a file is some version of a library.
pub(super) fn is_version_of(file: &Path, library: &str) -> bool {
    let name = file.file_name().and_then(|name| name.to_str());
    name.and_then(|name| name.strip_prefix(library))
        .is_some_and(|rest| rest == ".so" || rest.starts_with(".so."))
}

#[cfg(target_os = "linux")]
fn loaded() -> Vec<PathBuf> {
    use std::ffi::{c_char, c_int, c_void, CStr, OsStr};
    use std::os::unix::ffi::OsStrExt;

    /// The beginning of `dl_phdr_info`, of which no more is read.
    #[repr(C)]
    struct Object {
        address: usize,
        name: *const c_char,
    }

    extern "C" {
        fn dl_iterate_phdr(
            visit: unsafe extern "C" fn(*const Object, usize, *mut c_void) -> c_int,
            data: *mut c_void,
        ) -> c_int;
    }

    unsafe extern "C" fn add(object: *const Object, _: usize, files: *mut c_void) -> c_int {
        // SAFETY: the loader's object lives through this call, and `files` is what `loaded` passed.
        let (object, files) = unsafe { (&*object, &mut *files.cast::<Vec<PathBuf>>()) };
        if !object.name.is_null() {
            // SAFETY: the loader's names are NUL-terminated.
            let name = unsafe { CStr::from_ptr(object.name) };
            files.push(PathBuf::from(OsStr::from_bytes(name.to_bytes())));
        }
        0
    }

    let mut files = Vec::new();
    // SAFETY: `add` takes the data for what it is, and does not unwind.
    unsafe { dl_iterate_phdr(add, (&mut files as *mut Vec<PathBuf>).cast()) };
    files
}

#[cfg(not(target_os = "linux"))]
fn loaded() -> Vec<PathBuf> {
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_has_many_versions_and_one_name() {
        for (file, library, expected) in [
            ("/opt/rocm/lib/libamdhip64.so", "libamdhip64", true),
            ("/opt/rocm/lib/libamdhip64.so.7", "libamdhip64", true),
            ("libamdhip64.so.6.4.43484", "libamdhip64", true),
            ("/opt/rocm/lib/libamdhip64_extra.so", "libamdhip64", false),
            ("/opt/rocm/lib/libamdhip64.sow", "libamdhip64", false),
            ("/opt/libamdhip64.so/librocblas.so", "libamdhip64", false),
            ("", "libamdhip64", false),
        ] {
            assert_eq!(is_version_of(Path::new(file), library), expected, "{file}");
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_c_library_is_loaded_and_no_made_up_one() {
        let found = files_of("libc");
        assert!(found.iter().all(|file| file.is_file()), "{found:?}");
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(files_of("libnobody_made_this").is_empty());
    }
}
