//! librccl.so on NVIDIA: NCCL, whose functions, types and numbers RCCL has.
//!
//! A stream of HIP on NVIDIA is one of CUDA's, and its devices are CUDA's primary contexts, so calls are handed on as they
//! are.

#![allow(non_snake_case, non_upper_case_globals, reason = "names are RCCL's")]

use std::ffi::{c_char, c_int, c_void};
use std::sync::OnceLock;

use api::amdhip64::hipStream_t;
use api::rccl::*;

/// Defines exported functions that hand their arguments to NCCL's functions of the same names. Without NCCL they answer
/// with what stands for that.
macro_rules! forward {
    ($(
        $(#[$attribute:meta])*
        fn $name:ident($($argument:ident: $type:ty),* $(,)?) -> $result:ty, or $absent:expr;
    )*) => {
        struct Functions {
            $($name: unsafe extern "C" fn($($type),*) -> $result,)*
        }

        impl Functions {
            fn load() -> Result<Self, String> {
                let library = cuda::library::open(&["libnccl.so.2"])?;
                // SAFETY: the signatures are those of NCCL's reference.
                unsafe { Ok(Self { $($name: cuda::library::symbol(library, stringify!($name))?,)* }) }
            }
        }

        $(
            $(#[$attribute])*
            ///
            /// # Safety
            /// As the function of the same name in RCCL.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($argument: $type),*) -> $result {
                match functions() {
                    // SAFETY: by contract.
                    Some(functions) => unsafe { (functions.$name)($($argument),*) },
                    None => $absent,
                }
            }
        )*
        api::implements!(rccl: $($name),*);
    };
}

/// NCCL's, or none: why is said on standard error, once.
fn functions() -> Option<&'static Functions> {
    static FUNCTIONS: OnceLock<Option<Functions>> = OnceLock::new();
    FUNCTIONS.get_or_init(|| Functions::load().inspect_err(|why| eprintln!("{why}")).ok()).as_ref()
}

forward! {
    /// The version of NCCL.
    fn ncclGetVersion(version: *mut c_int) -> ncclResult_t, or ncclSystemError;
    /// Makes an id.
    fn ncclGetUniqueId(unique_id: *mut ncclUniqueId) -> ncclResult_t, or ncclSystemError;
    /// Comes to the other ranks of an id.
    fn ncclCommInitRank(
        comm: *mut ncclComm_t, nranks: c_int, comm_id: ncclUniqueId, rank: c_int,
    ) -> ncclResult_t, or ncclSystemError;
    /// A communicator of devices of this process.
    fn ncclCommInitAll(comm: *mut ncclComm_t, ndev: c_int, devlist: *const c_int) -> ncclResult_t, or ncclSystemError;
    /// Waits for what has been queued.
    fn ncclCommFinalize(comm: ncclComm_t) -> ncclResult_t, or ncclSystemError;
    /// Leaves the communicator.
    fn ncclCommDestroy(comm: ncclComm_t) -> ncclResult_t, or ncclSystemError;
    /// Ends all calls that wait, and leaves.
    fn ncclCommAbort(comm: ncclComm_t) -> ncclResult_t, or ncclSystemError;
    /// Whether the communicator is still of use.
    fn ncclCommGetAsyncError(comm: ncclComm_t, async_error: *mut ncclResult_t) -> ncclResult_t, or ncclSystemError;
    /// How many ranks there are.
    fn ncclCommCount(comm: ncclComm_t, count: *mut c_int) -> ncclResult_t, or ncclSystemError;
    /// The device of this rank.
    fn ncclCommCuDevice(comm: ncclComm_t, device: *mut c_int) -> ncclResult_t, or ncclSystemError;
    /// The number of this rank.
    fn ncclCommUserRank(comm: ncclComm_t, rank: *mut c_int) -> ncclResult_t, or ncclSystemError;
    /// What a result means.
    fn ncclGetErrorString(result: ncclResult_t) -> *const c_char, or c"NCCL cannot be opened".as_ptr();
    /// What went wrong last.
    fn ncclGetLastError(comm: ncclComm_t) -> *const c_char, or c"NCCL cannot be opened".as_ptr();
    /// Begins a group.
    fn ncclGroupStart() -> ncclResult_t, or ncclSystemError;
    /// Ends a group.
    fn ncclGroupEnd() -> ncclResult_t, or ncclSystemError;
    /// All ranks get the elements of all, reduced.
    fn ncclAllReduce(
        sendbuff: *const c_void, recvbuff: *mut c_void, count: usize, datatype: ncclDataType_t, op: ncclRedOp_t,
        comm: ncclComm_t, stream: hipStream_t,
    ) -> ncclResult_t, or ncclSystemError;
    /// The root gets the elements of all ranks, reduced.
    fn ncclReduce(
        sendbuff: *const c_void, recvbuff: *mut c_void, count: usize, datatype: ncclDataType_t, op: ncclRedOp_t,
        root: c_int, comm: ncclComm_t, stream: hipStream_t,
    ) -> ncclResult_t, or ncclSystemError;
    /// Each rank gets its part of the elements of all ranks, reduced.
    fn ncclReduceScatter(
        sendbuff: *const c_void, recvbuff: *mut c_void, recvcount: usize, datatype: ncclDataType_t, op: ncclRedOp_t,
        comm: ncclComm_t, stream: hipStream_t,
    ) -> ncclResult_t, or ncclSystemError;
    /// All ranks get the elements of all, one rank's after the other's.
    fn ncclAllGather(
        sendbuff: *const c_void, recvbuff: *mut c_void, sendcount: usize, datatype: ncclDataType_t, comm: ncclComm_t,
        stream: hipStream_t,
    ) -> ncclResult_t, or ncclSystemError;
    /// All ranks get the root's elements.
    fn ncclBroadcast(
        sendbuff: *const c_void, recvbuff: *mut c_void, count: usize, datatype: ncclDataType_t, root: c_int,
        comm: ncclComm_t, stream: hipStream_t,
    ) -> ncclResult_t, or ncclSystemError;
    /// The same in place.
    fn ncclBcast(
        buff: *mut c_void, count: usize, datatype: ncclDataType_t, root: c_int, comm: ncclComm_t, stream: hipStream_t,
    ) -> ncclResult_t, or ncclSystemError;
    /// Sends elements to a rank.
    fn ncclSend(
        sendbuff: *const c_void, count: usize, datatype: ncclDataType_t, peer: c_int, comm: ncclComm_t,
        stream: hipStream_t,
    ) -> ncclResult_t, or ncclSystemError;
    /// Receives elements from a rank.
    fn ncclRecv(
        recvbuff: *mut c_void, count: usize, datatype: ncclDataType_t, peer: c_int, comm: ncclComm_t,
        stream: hipStream_t,
    ) -> ncclResult_t, or ncclSystemError;
}

macro_rules! unsupported {
    ($($name:ident)*) => {
        api::stand_ins! { |function| {
            cuda::say_unsupported(function);
            ncclInvalidUsage
        }; $($name)* }
    };
}
include!(concat!(env!("OUT_DIR"), "/unsupported.rs"));
