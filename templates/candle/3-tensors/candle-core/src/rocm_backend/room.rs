//! Room for what ROCm's libraries need of the GPU's memory, which the backend may hold idle.
use super::hip::HipResult;
use super::queue::Queue;
use super::{api, RocmError};

/// Whether a library says that the GPU has no memory for what it needs.
pub(super) fn lacks_memory(error: &RocmError) -> bool {
    match *error {
        RocmError::OutOfMemory { .. } => true,
        RocmError::Hip { code, .. } => code == api::hipErrorOutOfMemory,
        RocmError::Blas { status, .. } => status == api::rocblas_status_memory_error,
        #[cfg(feature = "rocm-miopen")]
        RocmError::Miopen { status, .. } => status == api::miopenStatusAllocFailed,
        #[cfg(feature = "rocm-rocrand")]
        RocmError::Rocrand { status, .. } => status == api::ROCRAND_STATUS_ALLOCATION_FAILED,
        _ => false,
    }
}

impl Queue {
    /// A call that may need memory of the GPU that is not ours: if it finds none, cached memory is given back, and it is
    /// made once more.
    pub(super) fn with_room<T>(&self, mut call: impl FnMut() -> HipResult<T>) -> HipResult<T> {
        match call() {
            Err(error) if lacks_memory(&error) => {
                self.trim()?;
                self.allocator.trim_others()?;
                call()
            }
            result => result,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_lacking_where_hip_or_a_library_says_so() {
        let hip = |code| RocmError::Hip {
            call: "hipModuleLoadData",
            code,
            name: String::new(),
            message: String::new(),
        };
        let blas = |status| RocmError::Blas {
            call: "rocblas_gemm_ex",
            status,
            name: String::new(),
        };
        assert!(lacks_memory(&hip(api::hipErrorOutOfMemory)));
        assert!(!lacks_memory(&hip(api::hipSuccess)));
        assert!(lacks_memory(&blas(api::rocblas_status_memory_error)));
        assert!(!lacks_memory(&blas(api::rocblas_status_success)));
    }
}
