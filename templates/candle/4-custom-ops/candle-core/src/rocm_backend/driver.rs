//! What programs use that work with memory and streams themselves, under the names that cudarc gives to CUDA's.
pub use super::custom_kernel::{
    LaunchArgs, LaunchConfig, PushKernelArg, RocmFunc, RocmFunction, RocmModule, RocmSource,
};
pub use super::event::RocmEvent;
pub use super::graph::{RocmGraph, StreamCaptureMode};
pub use super::ipc::RocmIpcHandle;
pub use super::slice::{
    hipDeviceptr_t, DevicePtr, DevicePtrMut, DeviceRepr, DeviceSlice, HostSlice, RocmSlice,
    RocmView, RocmViewMut, SyncOnDrop, ValidAsZeroBits,
};
pub use super::stream::RocmStream;
