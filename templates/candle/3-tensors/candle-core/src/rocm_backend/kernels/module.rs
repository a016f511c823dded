//! Code objects on a GPU.
use super::metadata::{self, Parameter};
use crate::rocm_backend::api;
use crate::rocm_backend::hip::{check, HipResult};
use std::collections::HashMap;
use std::ffi::{c_void, CString};
use std::sync::Arc;

/// A loaded code object; unloaded when it is dropped.
#[derive(Debug)]
pub(crate) struct Module {
    handle: api::hipModule_t,
    /// What its kernels take, if that was asked for and the code says so.
    parameters: Option<HashMap<String, Arc<[Parameter]>>>,
}

// SAFETY: HIP's module functions may be called from any thread, and the handle is unloaded once, in `drop`.
unsafe impl Send for Module {}
// SAFETY: as above; nothing changes a loaded module.
unsafe impl Sync for Module {}

impl Module {
    /// Loads a code object on the current device.
    pub(crate) fn load(code: &[u8]) -> HipResult<Self> {
        let mut module = std::ptr::null_mut();
        // SAFETY: `module` and `code` live through the call, which copies what it needs.
        let status = unsafe { api::hipModuleLoadData(&mut module, code.as_ptr().cast()) };
        check("hipModuleLoadData", status)?;
        Ok(Self {
            handle: module,
            parameters: None,
        })
    }

    /// As `load`, and looks up what the kernels take.
    pub(crate) fn load_described(code: &[u8]) -> HipResult<Self> {
        let mut module = Self::load(code)?;
        module.parameters = metadata::parameters(code);
        Ok(module)
    }

    /// What the kernel takes, if that is known.
    pub(crate) fn parameters(&self, symbol: &str) -> Option<Arc<[Parameter]>> {
        self.parameters.as_ref()?.get(symbol).cloned()
    }

    /// The function with that symbol.
    pub(crate) fn function(&self, symbol: &str) -> HipResult<Function> {
        let name = CString::new(symbol).map_err(|_| format!("a symbol with a NUL: {symbol:?}"))?;
        let mut function = std::ptr::null_mut();
        // SAFETY: `function` and `name` live through the call, and the module is loaded.
        let status =
            unsafe { api::hipModuleGetFunction(&mut function, self.handle, name.as_ptr()) };
        check("hipModuleGetFunction", status)?;
        Ok(Function(function))
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: loaded by `load`, and nobody has it any more. A failure means that the runtime is gone.
        let _ = unsafe { api::hipModuleUnload(self.handle) };
    }
}

/// A function of a module, valid as long as the module is loaded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Function(pub(super) api::hipFunction_t);

// SAFETY: HIP launches a function from any thread, and the handle owns nothing.
unsafe impl Send for Function {}
// SAFETY: as above; nothing changes a loaded function.
unsafe impl Sync for Function {}

impl Function {
    /// Queues a launch on a stream of the current device; `grid` and `block` are in x, y and z, `lds` in bytes.
    ///
    /// # Safety
    /// The arguments are where values of the kernel's parameters are, in their order, and what those point to on the
    /// device is large enough and stays allocated until the stream has come so far.
    pub(crate) unsafe fn enqueue(
        self,
        stream: api::hipStream_t,
        grid: [u32; 3],
        block: [u32; 3],
        lds: u32,
        arguments: &mut [*mut c_void],
    ) -> HipResult<()> {
        let [grid_x, grid_y, grid_z] = grid;
        let [block_x, block_y, block_z] = block;
        // SAFETY: the function's module is loaded, the arguments live through the call, which copies them; for the
        // rest the caller answers.
        let status = unsafe {
            api::hipModuleLaunchKernel(
                self.0,
                grid_x,
                grid_y,
                grid_z,
                block_x,
                block_y,
                block_z,
                lds,
                stream,
                arguments.as_mut_ptr(),
                std::ptr::null_mut(),
            )
        };
        check("hipModuleLaunchKernel", status)
    }

    pub(super) fn as_ptr(self) -> *mut c_void {
        self.0.cast()
    }

    /// # Safety
    /// `handle` comes from `as_ptr`.
    pub(super) unsafe fn from_ptr(handle: *mut c_void) -> Self {
        Self(handle.cast())
    }
}
