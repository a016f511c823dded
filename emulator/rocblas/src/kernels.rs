//! The files in which rocBLAS has its kernels: a GPU that they are not for ends the process.
//!
//! Real rocBLAS reads `TensileLibrary_lazy_<architecture>.dat` when it first multiplies, from the folder that
//! `ROCBLAS_TENSILE_LIBPATH` names or from `rocblas/library` beside it, and aborts without it. So does this one if there is
//! such a folder; what the files hold does not matter.

use std::fs;
use std::path::{Path, PathBuf};

use candle_rocm_emulator_link::{architecture, own_folder};

/// Ends the process if the folder has no kernels for the calling thread's device.
pub fn require() {
    let named = std::env::var_os("ROCBLAS_TENSILE_LIBPATH").filter(|folder| !folder.is_empty());
    let folder = named.map_or_else(|| own_folder().join("rocblas/library"), PathBuf::from);
    if let Err(message) = check(&folder, &architecture()) {
        eprintln!("{message}");
        std::process::abort();
    }
}

fn check(folder: &Path, architecture: &str) -> Result<(), String> {
    let file = folder.join(format!("TensileLibrary_lazy_{architecture}.dat"));
    if !folder.is_dir() || file.is_file() {
        return Ok(());
    }
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut others: Vec<_> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    others.sort();
    Err(format!(
        "rocBLAS error: cannot read {} for GPU architecture {architecture}; there are: {}",
        file.display(),
        others.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_kernels_for_those_it_names() {
        let folder = std::env::temp_dir().join(format!("emulated-rocblas-{}", std::process::id()));
        assert_eq!(check(&folder, "gfx1100"), Ok(()));
        fs::create_dir_all(&folder).unwrap();
        assert!(check(&folder, "gfx1100").unwrap_err().ends_with("there are: "));
        fs::write(folder.join("TensileLibrary_lazy_gfx90a.dat"), "").unwrap();
        assert_eq!(check(&folder, "gfx90a"), Ok(()));
        let message = check(&folder, "gfx1100").unwrap_err();
        assert!(message.ends_with("there are: TensileLibrary_lazy_gfx90a.dat"), "{message}");
        fs::remove_dir_all(&folder).unwrap();
    }
}
