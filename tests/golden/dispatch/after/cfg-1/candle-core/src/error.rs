//! What can go wrong on the workbench.

#[derive(Debug)]
pub enum Error {
    // === devices ===
    /// CUDA said no.
    Cuda(String),

    /// Metal said no.
    Metal(String),

    /// ROCm said no.
    #[cfg(feature = "rocm")]
    Rocm(String),

    // === the rest ===
    Message(String),
}

pub type Result<T> = std::result::Result<T, Error>;

/// Leaves the function with a message.
#[macro_export]
macro_rules! bail {
    ($($arg:tt)*) => {
        return Err($crate::Error::Message(format!($($arg)*)))
    };
}
