//! Modules and their kernels.

use std::ffi::{CStr, OsStr, c_char, c_uint, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use api::amdhip64::{hipDeviceptr_t, hipFunction_t, hipJitOption, hipModule_t};
use candle_rocm_emulator_runtime::compile::{self, Source};
use candle_rocm_emulator_runtime::error::{HipError, HipResult};
use candle_rocm_emulator_runtime::machine::{self, current_device};
use candle_rocm_emulator_runtime::model::Model;
use candle_rocm_emulator_runtime::module::{Function, Module, code_length};
use candle_rocm_emulator_runtime::settings::settings;

use crate::call::{api, store};
use crate::handles::Handles;

/// What `hipModule_t` stand for. Launches that are enqueued share a module that was unloaded.
static MODULES: Handles<Arc<Module>> = Handles::from(0x7800_0001);

/// What `hipFunction_t` stand for, until their module is unloaded.
static FUNCTIONS: Handles<Function> = Handles::from(0x8000_0001);

/// The kernel of a handle; none for one whose module was unloaded.
pub fn function(handle: hipFunction_t) -> Option<Function> {
    FUNCTIONS.get(handle)
}

fn current_model() -> &'static Model {
    settings().devices[current_device()].model
}

fn load(code: &[u8]) -> HipResult<hipModule_t> {
    let module = Module::load(code, current_model().name, current_device())?;
    Ok(MODULES.insert(module))
}

/// The code of a file: a code object, or a HIP source, which is compiled.
fn code_of(path: &Path) -> HipResult<Vec<u8>> {
    let content = std::fs::read(path).map_err(|_| HipError::FILE_NOT_FOUND)?;
    if content.starts_with(b"\x7fELF") {
        return Ok(content);
    }
    let text = String::from_utf8(content).map_err(|_| HipError::INVALID_IMAGE)?;
    let folder = path.parent().unwrap_or(Path::new(".")).display();
    let options = vec![format!("-I{folder}")];
    let source = Source { name: path.display().to_string(), text, options, ..Source::default() };
    let outcome = compile::compile(&source, Some(current_model()));
    outcome.code.ok_or_else(|| {
        eprint!("candle-rocm emulator: {}", outcome.log);
        HipError::INVALID_SOURCE
    })
}

/// The module of a handle.
fn loaded(module: hipModule_t) -> HipResult<Arc<Module>> {
    MODULES.get(module).ok_or(HipError::INVALID_HANDLE)
}

api! {
    /// Loads a file that holds a code object or a HIP source.
    fn hipModuleLoad(module: *mut hipModule_t, name: *const c_char) {
        if name.is_null() {
            return Err(HipError::INVALID_VALUE);
        }
        // SAFETY: the caller's string.
        let path = Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(name) }.to_bytes()));
        // SAFETY: the caller's pointer.
        unsafe { store(module, load(&code_of(path)?)?) }
    }

    /// Loads a code object from memory.
    fn hipModuleLoadData(module: *mut hipModule_t, image: *const c_void) {
        if image.is_null() {
            return Err(HipError::INVALID_VALUE);
        }
        // SAFETY: the caller's image, whose headers tell its length.
        let code = unsafe { std::slice::from_raw_parts(image.cast(), code_length(image.cast())?) };
        // SAFETY: the caller's pointer.
        unsafe { store(module, load(code)?) }
    }

    /// As `hipModuleLoadData`; the options are for a compiler that is not needed.
    fn hipModuleLoadDataEx(
        module: *mut hipModule_t,
        image: *const c_void,
        option_count: c_uint,
        options: *mut hipJitOption,
        values: *mut *mut c_void,
    ) {
        let _ = (option_count, options, values);
        // SAFETY: as there.
        match unsafe { hipModuleLoadData(module, image) } {
            0 => Ok(()),
            code => Err(HipError(code)),
        }
    }

    /// Unloads a module once its kernels that are enqueued have run.
    fn hipModuleUnload(module: hipModule_t) {
        let unloaded = MODULES.remove(module).ok_or(HipError::INVALID_HANDLE)?;
        FUNCTIONS.retain(|function| !Arc::ptr_eq(&function.module, &unloaded));
        Ok(())
    }

    /// The address and the length of a `__device__` variable; null pointers are left out. Devices and copies use it in
    /// place.
    fn hipModuleGetGlobal(pointer: *mut hipDeviceptr_t, bytes: *mut usize, module: hipModule_t, name: *const c_char) {
        let loaded = loaded(module)?;
        if name.is_null() {
            return Err(HipError::INVALID_VALUE);
        }
        // SAFETY: the caller's string.
        let (start, length) = loaded.variable(unsafe { CStr::from_ptr(name) })?;
        machine::lock().pinned.insert(start, length);
        // SAFETY: the caller's pointers.
        unsafe {
            if !pointer.is_null() {
                pointer.write(start as hipDeviceptr_t);
            }
            if !bytes.is_null() {
                bytes.write(length);
            }
        }
        Ok(())
    }

    /// Looks a kernel up.
    fn hipModuleGetFunction(function: *mut hipFunction_t, module: hipModule_t, name: *const c_char) {
        let loaded = loaded(module)?;
        if name.is_null() {
            return Err(HipError::INVALID_VALUE);
        }
        // SAFETY: the caller's string.
        let name = unsafe { CStr::from_ptr(name) }.to_str().map_err(|_| HipError::NOT_FOUND)?;
        if function.is_null() {
            return Err(HipError::INVALID_VALUE);
        }
        // SAFETY: the caller's pointer.
        unsafe { store(function, FUNCTIONS.insert(loaded.function(name)?)) }?;
        record::function(name);
        Ok(())
    }
}
