//! How functions of libraries that are opened when the program runs are declared.
/// The functions of a library: each calls through a table of pointers that the first call of any of them fills.
///
/// Without the library, or one of its functions, they answer with the status `absent`; those under `names` say its name,
/// and those under `texts` what was looked for in vain.
macro_rules! functions {
    (
        library: $library:tt;
        files: [$($file:literal),*];
        windows: [$($dll:literal),*];
        absent: $absent:ident;
        $(fn $name:ident($($param:ident: $type:ty),* $(,)?) -> $status:ty;)*
        $(names: $(fn $namer:ident($($namer_param:ident: $namer_type:ty),* $(,)?) -> $namer_text:ty;)*)?
        $(texts: $(fn $teller:ident($($teller_param:ident: $teller_type:ty),* $(,)?) -> $teller_text:ty;)*)?
    ) => {
        struct Functions {
            $($name: unsafe extern "C" fn($($type),*) -> $status,)*
            $($($namer: unsafe extern "C" fn($($namer_type),*) -> $namer_text,)*)?
            $($($teller: unsafe extern "C" fn($($teller_type),*) -> $teller_text,)*)?
        }

        impl Functions {
            /// The table, or why there is none.
            fn get() -> Result<&'static Self, &'static std::ffi::CStr> {
                static TABLE: std::sync::OnceLock<Result<Functions, std::ffi::CString>> =
                    std::sync::OnceLock::new();
                TABLE.get_or_init(Self::load).as_ref().map_err(|problem| problem.as_c_str())
            }

            fn load() -> Result<Self, std::ffi::CString> {
                let files: &[&str] = if cfg!(windows) { &[$($dll),*] } else { &[$($file),*] };
                let library = crate::rocm_backend::installation::open($library, files)?;
                // SAFETY: the types are those of the library's header.
                unsafe {
                    Ok(Self {
                        $($name: library.function(stringify!($name))?,)*
                        $($($namer: library.function(stringify!($namer))?,)*)?
                        $($($teller: library.function(stringify!($teller))?,)*)?
                    })
                }
            }
        }

        $(
            #[allow(clippy::too_many_arguments)]
            pub unsafe fn $name($($param: $type),*) -> $status {
                match Functions::get() {
                    // SAFETY: what the caller promises.
                    Ok(functions) => unsafe { (functions.$name)($($param),*) },
                    Err(_) => $absent,
                }
            }
        )*
        $($(
            pub unsafe fn $namer($($namer_param: $namer_type),*) -> $namer_text {
                match Functions::get() {
                    // SAFETY: what the caller promises.
                    Ok(functions) => unsafe { (functions.$namer)($($namer_param),*) },
                    Err(_) => concat!(stringify!($absent), "\0").as_ptr().cast(),
                }
            }
        )*)?
        $($(
            pub unsafe fn $teller($($teller_param: $teller_type),*) -> $teller_text {
                match Functions::get() {
                    // SAFETY: what the caller promises.
                    Ok(functions) => unsafe { (functions.$teller)($($teller_param),*) },
                    Err(problem) => problem.as_ptr(),
                }
            }
        )*)?
    };
}

pub(super) use functions;
