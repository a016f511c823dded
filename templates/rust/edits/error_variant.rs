#[error(transparent)]
Rocm(crate::RocmError)
