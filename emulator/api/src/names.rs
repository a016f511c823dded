//! Names of statuses, as the libraries' own functions for that tell them.

use std::ffi::CStr;

use crate::{amdhip64, hiprtc, miopen, rccl, rocblas};

/// The name of a status in a library's `STATUS_NAMES`; None for a number that is none.
pub fn find<T: PartialEq>(names: &[(T, &'static CStr)], status: T) -> Option<&'static CStr> {
    names.iter().find(|(known, _)| *known == status).map(|(_, name)| *name)
}

/// What `hipGetErrorName` says.
pub fn hip_error(error: amdhip64::hipError_t) -> &'static CStr {
    find(amdhip64::STATUS_NAMES, error).unwrap_or(c"hipErrorUnknown")
}

/// What `hiprtcGetErrorString` says.
pub fn hiprtc_result(result: hiprtc::hiprtcResult) -> &'static CStr {
    find(hiprtc::STATUS_NAMES, result).unwrap_or(c"Invalid HIPRTC error code")
}

/// What `miopenGetErrorString` says.
pub fn miopen_status(status: miopen::miopenStatus_t) -> &'static CStr {
    find(miopen::STATUS_NAMES, status).unwrap_or(c"Unknown error status")
}

/// What `ncclGetErrorString` says.
pub fn nccl_result(result: rccl::ncclResult_t) -> &'static CStr {
    find(rccl::STATUS_NAMES, result).unwrap_or(c"unknown result code")
}

/// What `rocblas_status_to_string` says.
pub fn rocblas_status(status: rocblas::rocblas_status) -> &'static CStr {
    find(rocblas::STATUS_NAMES, status).unwrap_or(c"<undefined rocblas_status value>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_has_the_first_of_its_names_and_other_numbers_have_the_librarys_answer() {
        assert_eq!([hip_error(2), hip_error(4711)], [c"hipErrorOutOfMemory", c"hipErrorUnknown"]);
        assert_eq!(
            [hiprtc_result(6), hiprtc_result(4711)],
            [c"HIPRTC_ERROR_COMPILATION", c"Invalid HIPRTC error code"]
        );
        assert_eq!([miopen_status(3), miopen_status(4711)], [c"miopenStatusBadParm", c"Unknown error status"]);
        assert_eq!([nccl_result(6), nccl_result(4711)], [c"ncclRemoteError", c"unknown result code"]);
        let unknown = c"<undefined rocblas_status value>";
        assert_eq!([rocblas_status(2), rocblas_status(4711)], [c"rocblas_status_not_implemented", unknown]);
    }
}
