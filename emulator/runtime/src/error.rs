//! The error codes of the HIP runtime.

/// A `hipError_t` other than success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HipError(pub u32);

/// What a HIP function does: nothing more to say, or an error code.
pub type HipResult<T = ()> = Result<T, HipError>;

macro_rules! errors {
    ($($constant:ident = $code:literal, $text:literal;)*) => {
        impl HipError {
            $(#[doc = $text] pub const $constant: Self = Self($code);)*
        }

        /// The description of each error code, success included; zero-terminated.
        static ERRORS: &[(u32, &str)] = &[(0, "no error\0"), $(($code, concat!($text, "\0")),)*];
    };
}

// Numbers and names: hip/hip_runtime_api.h of ROCm 7.2; they are the same in 5.7 and 6.4.
errors! {
    INVALID_VALUE = 1, "invalid argument";
    OUT_OF_MEMORY = 2, "out of memory";
    NOT_INITIALIZED = 3, "initialization error";
    DEINITIALIZED = 4, "driver shutting down";
    INVALID_CONFIGURATION = 9, "invalid configuration argument";
    INVALID_PITCH_VALUE = 12, "invalid pitch argument";
    INVALID_SYMBOL = 13, "invalid device symbol";
    INVALID_DEVICE_POINTER = 17, "invalid device pointer";
    INVALID_MEMCPY_DIRECTION = 21, "invalid copy direction for memcpy";
    INVALID_DEVICE_FUNCTION = 98, "invalid device function";
    NO_DEVICE = 100, "no ROCm-capable device is detected";
    INVALID_DEVICE = 101, "invalid device ordinal";
    INVALID_IMAGE = 200, "device kernel image is invalid";
    INVALID_CONTEXT = 201, "invalid device context";
    NO_BINARY_FOR_GPU = 209, "no kernel image is available for execution on the device";
    PEER_ACCESS_UNSUPPORTED = 217, "peer access is not supported between these two devices";
    UNSUPPORTED_LIMIT = 215, "limit is not supported on this architecture";
    INVALID_SOURCE = 300, "device kernel image is invalid";
    FILE_NOT_FOUND = 301, "file not found";
    SHARED_OBJECT_INIT_FAILED = 303, "shared object initialization failed";
    INVALID_HANDLE = 400, "invalid resource handle";
    ILLEGAL_STATE = 401, "the operation cannot be performed in the present state";
    NOT_FOUND = 500, "named symbol not found";
    NOT_READY = 600, "device not ready";
    ILLEGAL_ADDRESS = 700, "an illegal memory access was encountered";
    PEER_ACCESS_ALREADY_ENABLED = 704, "peer access is already enabled";
    PEER_ACCESS_NOT_ENABLED = 705, "peer access has not been enabled";
    HOST_MEMORY_ALREADY_REGISTERED = 712, "part or all of the requested memory range is already mapped";
    HOST_MEMORY_NOT_REGISTERED = 713, "pointer does not correspond to a registered memory region";
    LAUNCH_FAILURE = 719, "unspecified launch failure";
    NOT_SUPPORTED = 801, "operation not supported";
    STREAM_CAPTURE_UNSUPPORTED = 900, "operation not permitted when stream is capturing";
    STREAM_CAPTURE_INVALIDATED = 901, "operation failed due to a previous error during capture";
    STREAM_CAPTURE_ISOLATION = 905, "dependency created on uncaptured work in another stream";
    STREAM_CAPTURE_IMPLICIT = 906, "operation would make the legacy stream depend on a capturing blocking stream";
    CAPTURED_EVENT = 907, "operation not permitted on an event last recorded in a capturing stream";
    STREAM_CAPTURE_WRONG_THREAD = 908, "attempt to terminate a thread-local capture sequence from another thread";
    UNKNOWN = 999, "unknown error";
}

impl HipError {
    /// The description, zero-terminated; that of `hipErrorUnknown` for a code without one.
    pub fn description(code: u32) -> &'static str {
        let find = |wanted| ERRORS.iter().find(|(known, _)| *known == wanted).map(|(_, text)| *text);
        find(code).or_else(|| find(Self::UNKNOWN.0)).expect("the table has it")
    }
}
