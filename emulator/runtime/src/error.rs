//! The error codes of the HIP runtime.

/// A `hipError_t` other than success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HipError(pub u32);

/// What a HIP function does: nothing more to say, or an error code.
pub type HipResult<T = ()> = Result<T, HipError>;

macro_rules! errors {
    ($($constant:ident = $code:literal, $name:literal, $text:literal;)*) => {
        impl HipError {
            $(#[doc = $text] pub const $constant: Self = Self($code);)*
        }

        /// Name and description of each error code, success included.
        pub static ERRORS: &[(u32, &str, &str)] = &[(0, "hipSuccess\0", "no error\0"), $(($code, concat!($name, "\0"), concat!($text, "\0")),)*];
    };
}

// Numbers and names: hip/hip_runtime_api.h of ROCm 7.2; they are the same in 5.7 and 6.4.
errors! {
    INVALID_VALUE = 1, "hipErrorInvalidValue", "invalid argument";
    OUT_OF_MEMORY = 2, "hipErrorOutOfMemory", "out of memory";
    NOT_INITIALIZED = 3, "hipErrorNotInitialized", "initialization error";
    DEINITIALIZED = 4, "hipErrorDeinitialized", "driver shutting down";
    INVALID_CONFIGURATION = 9, "hipErrorInvalidConfiguration", "invalid configuration argument";
    INVALID_SYMBOL = 13, "hipErrorInvalidSymbol", "invalid device symbol";
    INVALID_DEVICE_POINTER = 17, "hipErrorInvalidDevicePointer", "invalid device pointer";
    INVALID_MEMCPY_DIRECTION = 21, "hipErrorInvalidMemcpyDirection", "invalid copy direction for memcpy";
    INVALID_DEVICE_FUNCTION = 98, "hipErrorInvalidDeviceFunction", "invalid device function";
    NO_DEVICE = 100, "hipErrorNoDevice", "no ROCm-capable device is detected";
    INVALID_DEVICE = 101, "hipErrorInvalidDevice", "invalid device ordinal";
    INVALID_IMAGE = 200, "hipErrorInvalidImage", "device kernel image is invalid";
    INVALID_CONTEXT = 201, "hipErrorInvalidContext", "invalid device context";
    NO_BINARY_FOR_GPU = 209, "hipErrorNoBinaryForGpu", "no kernel image is available for execution on the device";
    PEER_ACCESS_UNSUPPORTED = 217, "hipErrorPeerAccessUnsupported", "peer access is not supported between these two devices";
    INVALID_SOURCE = 300, "hipErrorInvalidSource", "device kernel image is invalid";
    FILE_NOT_FOUND = 301, "hipErrorFileNotFound", "file not found";
    SHARED_OBJECT_INIT_FAILED = 303, "hipErrorSharedObjectInitFailed", "shared object initialization failed";
    INVALID_HANDLE = 400, "hipErrorInvalidHandle", "invalid resource handle";
    NOT_FOUND = 500, "hipErrorNotFound", "named symbol not found";
    NOT_READY = 600, "hipErrorNotReady", "device not ready";
    ILLEGAL_ADDRESS = 700, "hipErrorIllegalAddress", "an illegal memory access was encountered";
    PEER_ACCESS_ALREADY_ENABLED = 704, "hipErrorPeerAccessAlreadyEnabled", "peer access is already enabled";
    PEER_ACCESS_NOT_ENABLED = 705, "hipErrorPeerAccessNotEnabled", "peer access has not been enabled";
    HOST_MEMORY_ALREADY_REGISTERED = 712, "hipErrorHostMemoryAlreadyRegistered", "part or all of the requested memory range is already mapped";
    HOST_MEMORY_NOT_REGISTERED = 713, "hipErrorHostMemoryNotRegistered", "pointer does not correspond to a registered memory region";
    LAUNCH_FAILURE = 719, "hipErrorLaunchFailure", "unspecified launch failure";
    NOT_SUPPORTED = 801, "hipErrorNotSupported", "operation not supported";
    UNKNOWN = 999, "hipErrorUnknown", "unknown error";
}

impl HipError {
    /// The row of the table, or that of `hipErrorUnknown`.
    fn row(code: u32) -> &'static (u32, &'static str, &'static str) {
        let find = |wanted| ERRORS.iter().find(|(known, _, _)| *known == wanted);
        find(code).unwrap_or_else(|| find(Self::UNKNOWN.0).expect("the table has it"))
    }

    /// The enumerator's name, zero-terminated.
    pub fn name(code: u32) -> &'static str {
        Self::row(code).1
    }

    /// The description, zero-terminated.
    pub fn description(code: u32) -> &'static str {
        Self::row(code).2
    }
}
