//! How launches deal rows to teams of threads.
pub(super) use crate::rocm_backend::plan::PACK;
