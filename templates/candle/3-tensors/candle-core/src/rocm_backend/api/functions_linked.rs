//! How functions that the build script links are declared.

/// The foreign functions of a library, or their stand-ins where the build script did not find it.
///
/// `absent` is the status that the stand-ins answer with; those under `names` say its name, and those under `texts` what
/// it is about.
macro_rules! functions {
    (
        library: $library:tt;
        absent: $absent:ident;
        $(fn $name:ident($($param:ident: $type:ty),* $(,)?) -> $status:ty;)*
        $(names: $(fn $namer:ident($($namer_param:ident: $namer_type:ty),* $(,)?) -> $namer_text:ty;)*)?
        $(texts: $(fn $teller:ident($($teller_param:ident: $teller_type:ty),* $(,)?) -> $teller_text:ty;)*)?
    ) => {
        #[cfg(not(candle_rocm_absent = $library))]
        extern "C" {
            $(pub fn $name($($param: $type),*) -> $status;)*
            $($(pub fn $namer($($namer_param: $namer_type),*) -> $namer_text;)*)?
            $($(pub fn $teller($($teller_param: $teller_type),*) -> $teller_text;)*)?
        }

        #[cfg(candle_rocm_absent = $library)]
        mod absent {
            use super::*;

            $(
                #[allow(clippy::too_many_arguments)]
                pub unsafe fn $name($(_: $type),*) -> $status {
                    $absent
                }
            )*
            $($(
                pub unsafe fn $namer($(_: $namer_type),*) -> $namer_text {
                    concat!(stringify!($absent), "\0").as_ptr().cast()
                }
            )*)?
            $($(
                pub unsafe fn $teller($(_: $teller_type),*) -> $teller_text {
                    const TEXT: &str = concat!(
                        "no ",
                        $library,
                        " library was found when this was built; set ROCM_PATH and build again\0"
                    );
                    TEXT.as_ptr().cast()
                }
            )*)?
        }

        #[cfg(candle_rocm_absent = $library)]
        pub use absent::*;

        // Only stand-ins answer with it.
        #[cfg(not(candle_rocm_absent = $library))]
        const _: () = {
            let _ = $absent;
        };
    };
}

pub(super) use functions;
