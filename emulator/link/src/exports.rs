//! Macros for what a library exports.

/// Defines exported functions that return a status, with the signatures that the real library gives them. A body is
/// that of a function that returns `Result<(), status>`; `bug` is returned if it panics.
#[macro_export]
macro_rules! exports {
    (
        $library:ident, $status:ident, bug = $bug:ident;
        $($(#[$attribute:meta])* fn $name:ident($($argument:ident: $type:ty),* $(,)?) $body:block)*
    ) => {$(
        $(#[$attribute])*
        ///
        /// # Safety
        /// As the function of the same name in ROCm.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> api::$library::$status {
            let arguments: &[String] = &[$(format!(concat!(stringify!($argument), "={:?}"), $argument)),*];
            $crate::call(stringify!($name), &arguments.join(", "), api::$library::$bug, || {
                let body = || -> Result<(), api::$library::$status> { $body };
                body().err().unwrap_or(0)
            })
        }
    )*
    api::implements!($library: $($name),*);
    };
}

/// Defines exported functions that say that the emulator lacks them, and return a status.
#[macro_export]
macro_rules! unsupported_functions {
    ($status:expr; $($name:ident)*) => { api::stand_ins! { |function| $crate::unsupported(function, $status); $($name)* } };
}
