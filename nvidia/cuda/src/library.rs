//! Libraries that are opened when they are used.

use std::ffi::{CString, c_void};
use std::mem::transmute_copy;

/// Defines a library: a struct with a method per function, and `open`, which opens it once.
macro_rules! functions {
    (
        $(#[$attribute:meta])*
        pub struct $library:ident in $files:tt {
            $($method:ident: $name:literal ($($argument:ident: $type:ty),* $(,)?) -> $result:ty;)*
        }
    ) => {
        $(#[$attribute])*
        #[derive(Debug)]
        pub struct $library {
            $($method: unsafe extern "C" fn($($argument: $type),*) -> $result,)*
        }

        impl $library {
            /// The library, or why it cannot be used.
            ///
            /// # Errors
            /// If it cannot be opened, or lacks a function.
            pub fn open() -> Result<&'static Self, &'static str> {
                static OPENED: std::sync::OnceLock<Result<$library, String>> = std::sync::OnceLock::new();
                OPENED.get_or_init(Self::load).as_ref().map_err(String::as_str)
            }

            fn load() -> Result<Self, String> {
                let library = $crate::library::open(&$files)?;
                // SAFETY: the signatures are those of the library's reference.
                unsafe { Ok(Self { $($method: $crate::library::symbol(library, $name)?,)* }) }
            }

            $(
                #[doc = concat!("`", $name, "`")]
                ///
                /// # Safety
                /// As the function says.
                #[allow(clippy::too_many_arguments, reason = "CUDA's own")]
                pub unsafe fn $method(&self, $($argument: $type),*) -> $result {
                    // SAFETY: by contract.
                    unsafe { (self.$method)($($argument),*) }
                }
            )*
        }
    };
}
pub(crate) use functions;

/// The first of some libraries that can be opened.
///
/// # Errors
/// What was looked for.
pub fn open(files: &[&str]) -> Result<*mut c_void, String> {
    for file in files {
        let name = CString::new(*file).expect("a name without zeros");
        // SAFETY: CUDA's libraries may be loaded at any time.
        let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if !library.is_null() {
            return Ok(library);
        }
    }
    Err(format!("HIP on NVIDIA: none of {} can be opened", files.join(", ")))
}

/// A function of a library.
///
/// # Errors
/// If it has none of that name.
///
/// # Safety
/// `T` is the type of the pointer to that function.
pub unsafe fn symbol<T: Copy>(library: *mut c_void, name: &str) -> Result<T, String> {
    let terminated = CString::new(name).expect("a name without zeros");
    // SAFETY: a valid handle and a zero-terminated name.
    let symbol = unsafe { libc::dlsym(library, terminated.as_ptr()) };
    if symbol.is_null() {
        return Err(format!("HIP on NVIDIA: CUDA's library lacks {name}"));
    }
    // SAFETY: by contract.
    Ok(unsafe { transmute_copy(&symbol) })
}
