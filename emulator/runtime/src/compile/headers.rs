//! The device headers, carried in the library so that it needs no installation.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::{fs, io};

use sha2::{Digest, Sha256};

macro_rules! headers {
    ($($path:literal),* $(,)?) => {
        [$(($path, include_str!(concat!("../../../include/", $path)))),*]
    };
}

static HEADERS: &[(&str, &str)] = &headers![
    "hip/hip_bf16.h",
    "hip/hip_bfloat16.h",
    "hip/hip_fp16.h",
    "hip/hip_runtime.h",
    "hip/emulator/abi.h",
    "hip/emulator/atomics.h",
    "hip/emulator/checks.h",
    "hip/emulator/cross_lane.h",
    "hip/emulator/floating.h",
    "hip/emulator/index.h",
    "hip/emulator/integer.h",
    "hip/emulator/qualifiers.h",
    "hip/emulator/synchronize.h",
    "hip/emulator/vector_types.h",
    "math.h",
];

/// The folder with the headers below the cache, written at first use. Its name tells their content.
///
/// # Errors
/// If the cache cannot be written.
pub fn folder(cache: &Path) -> io::Result<&'static Path> {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    if let Some(folder) = FOLDER.get() {
        return Ok(folder);
    }
    let folder = cache.join(format!("include-{}", &digest()[..16]));
    if !folder.exists() {
        let staging = cache.join(format!("include-{}.staging", std::process::id()));
        for (path, text) in HEADERS {
            let path = staging.join(path);
            fs::create_dir_all(path.parent().expect("below the staging folder"))?;
            fs::write(path, text)?;
        }
        // Another process may have been faster; its headers are the same.
        if fs::rename(&staging, &folder).is_err() {
            fs::remove_dir_all(&staging)?;
        }
    }
    Ok(FOLDER.get_or_init(|| folder))
}

/// Tells one state of the headers from another.
pub fn digest() -> String {
    let mut hash = Sha256::new();
    for (path, text) in HEADERS {
        hash.update(path);
        hash.update([0]);
        hash.update(text);
        hash.update([0]);
    }
    format!("{:x}", hash.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_headers_are_written_where_they_are_not_yet() {
        let cache = std::env::temp_dir().join(format!("candle-rocm-headers-{}", std::process::id()));
        let found = folder(&cache).unwrap();
        assert!(found.starts_with(&cache));
        for (path, text) in HEADERS {
            assert_eq!(fs::read_to_string(found.join(path)).unwrap(), *text, "{path}");
        }
        assert_eq!(fs::read_dir(&cache).unwrap().count(), 1, "nothing is left of the way there");
        assert_eq!(folder(Path::new("/elsewhere")).unwrap(), found);
        fs::remove_dir_all(&cache).unwrap();
    }
}
