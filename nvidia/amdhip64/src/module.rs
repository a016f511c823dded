//! Modules, kernels and launches.

use std::ffi::{c_char, c_int, c_uint, c_void};

use api::amdhip64::*;
use cuda::{Driver, Handle};

use crate::call::{Status, api, check, store};
use crate::context::{attribute, chosen, enter};
use crate::device::{SHARED_PER_BLOCK, SHARED_PER_BLOCK_OPTIN};
use crate::recorded;

/// Numbers of the driver's attributes of a function (`CUfunction_attribute`).
const STATIC_SHARED: c_int = 1;
const MOST_DYNAMIC_SHARED: c_int = 8;

/// Lets a kernel have all of a block's memory, which it need not ask for in HIP.
fn allow_shared_memory(driver: &Driver, function: Handle) -> Status {
    let device = chosen();
    let most = attribute(device, SHARED_PER_BLOCK_OPTIN)?;
    if most <= attribute(device, SHARED_PER_BLOCK)? {
        return Ok(());
    }
    let mut own = 0;
    // SAFETY: a function of ours and a valid pointer.
    check(unsafe { driver.function_attribute(&raw mut own, STATIC_SHARED, function) })?;
    // SAFETY: a function of ours.
    check(unsafe { driver.set_function_attribute(function, MOST_DYNAMIC_SHARED, most - own) })
}

/// Hands a loaded module to the caller, unless other libraries than these have compiled it.
///
/// # Errors
/// `hipErrorInvalidImage`, as for a code object that is not the device's.
///
/// # Safety
/// The handle is a module, which is the function's own; the pointer is the caller's.
unsafe fn hand_over(driver: &Driver, loaded: Handle, module: *mut hipModule_t) -> Status {
    let mut kernel = std::ptr::null_mut();
    // SAFETY: valid pointers, and by contract.
    unsafe {
        if driver.module_function(&raw mut kernel, loaded, cuda::edition().as_ptr()) != 0 {
            check(driver.module_unload(loaded))?;
            return Err(hipErrorInvalidImage);
        }
        store(module, loaded.cast())
    }
}

api! {
    /// Loads a code object.
    fn hipModuleLoadData(module: *mut hipModule_t, image: *const c_void) {
        let (driver, mut loaded) = (enter()?, std::ptr::null_mut());
        // SAFETY: the caller's pointers.
        unsafe {
            check(driver.module_load(&raw mut loaded, image))?;
            hand_over(driver, loaded, module)
        }
    }

    /// Loads a file with a code object.
    fn hipModuleLoad(module: *mut hipModule_t, file_name: *const c_char) {
        let (driver, mut loaded) = (enter()?, std::ptr::null_mut());
        // SAFETY: the caller's pointers.
        unsafe {
            check(driver.module_load_file(&raw mut loaded, file_name))?;
            hand_over(driver, loaded, module)
        }
    }

    /// Gives a module up.
    fn hipModuleUnload(module: hipModule_t) {
        // SAFETY: the caller's handle.
        check(unsafe { enter()?.module_unload(module.cast()) })
    }

    /// A kernel by its name.
    fn hipModuleGetFunction(function: *mut hipFunction_t, module: hipModule_t, name: *const c_char) {
        let driver = enter()?;
        // SAFETY: the caller's pointers and handle.
        unsafe {
            check(driver.module_function(function.cast(), module.cast(), name))?;
            allow_shared_memory(driver, function.read().cast())?;
            recorded::function(function, name);
        }
        Ok(())
    }

    /// Puts a kernel on a stream.
    fn hipModuleLaunchKernel(
        function: hipFunction_t,
        grid_x: c_uint,
        grid_y: c_uint,
        grid_z: c_uint,
        block_x: c_uint,
        block_y: c_uint,
        block_z: c_uint,
        shared_bytes: c_uint,
        stream: hipStream_t,
        arguments: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) {
        // SAFETY: the caller's handles and arguments. `extra` has the driver's own keys.
        check(unsafe {
            enter()?.launch(
                function.cast(), grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream.cast(),
                arguments, extra,
            )
        })?;
        recorded::launch(function, stream);
        Ok(())
    }
}
