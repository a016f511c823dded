//! libhiprtc.so on NVIDIA: NVRTC, with a header that has what HIP spells otherwise than CUDA.

#![allow(non_snake_case, reason = "the names are hipRTC's")]

mod options;
mod program;

use std::ffi::{CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::slice;

use api::hiprtc::*;
use cuda::Compiler;

use crate::options::translated;
use crate::program::{Program, Status, check, compiler, text};

/// Defines exported functions that return a `hiprtcResult`, with the signatures that the real library gives them.
macro_rules! api {
    ($($(#[$attribute:meta])* fn $name:ident($($argument:ident: $type:ty),* $(,)?) $body:block)*) => {$(
        $(#[$attribute])*
        ///
        /// # Safety
        /// As the function of the same name in hipRTC.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> hiprtcResult {
            let body = AssertUnwindSafe(|| -> Status { $body });
            catch_unwind(body).unwrap_or(Err(HIPRTC_ERROR_INTERNAL_ERROR)).err().unwrap_or(HIPRTC_SUCCESS)
        }
    )*
    api::implements!(hiprtc: $($name),*);
    };
}

/// The compiler, and the program behind a handle.
///
/// # Safety
/// The handle is null or came from `hiprtcCreateProgram`.
unsafe fn program<'a>(handle: hiprtcProgram) -> Status<(&'static Compiler, &'a Program)> {
    // SAFETY: by contract.
    let program = unsafe { handle.cast::<Program>().as_ref() }.ok_or(HIPRTC_ERROR_INVALID_PROGRAM)?;
    Ok((compiler()?, program))
}

api! {
    /// Makes a program of a source and headers.
    fn hiprtcCreateProgram(
        program: *mut hiprtcProgram,
        source: *const c_char,
        name: *const c_char,
        header_count: c_int,
        headers: *const *const c_char,
        include_names: *const *const c_char,
    ) {
        if program.is_null() {
            return Err(HIPRTC_ERROR_INVALID_INPUT);
        }
        // SAFETY: the caller's strings and arrays.
        let made = unsafe { Program::new(source, name, header_count, headers, include_names) }?;
        // SAFETY: the caller's pointer.
        unsafe { program.write(Box::into_raw(Box::new(made)).cast()) };
        Ok(())
    }

    /// Ends a program.
    fn hiprtcDestroyProgram(program: *mut hiprtcProgram) {
        // SAFETY: the caller's pointer.
        let handle = unsafe { program.as_mut() }.ok_or(HIPRTC_ERROR_INVALID_INPUT)?;
        if handle.is_null() {
            return Err(HIPRTC_ERROR_INVALID_PROGRAM);
        }
        // SAFETY: from `hiprtcCreateProgram`, and the caller gives it up.
        drop(unsafe { Box::from_raw(handle.cast::<Program>()) });
        *handle = std::ptr::null_mut();
        Ok(())
    }

    /// Asks for a kernel by an expression that names it, such as an instance of a template.
    fn hiprtcAddNameExpression(handle: hiprtcProgram, expression: *const c_char) {
        // SAFETY: the caller's handle and string.
        unsafe {
            let (compiler, program) = program(handle)?;
            check(compiler.add_name_expression(program.0, expression))
        }
    }

    /// Compiles for the architecture that the options name.
    fn hiprtcCompileProgram(handle: hiprtcProgram, option_count: c_int, options: *const *const c_char) {
        // SAFETY: the caller's handle and array.
        unsafe {
            let (compiler, program) = program(handle)?;
            let count = usize::try_from(option_count).map_err(|_| HIPRTC_ERROR_INVALID_INPUT)?;
            let given = if count == 0 { &[][..] } else { slice::from_raw_parts(options, count) };
            let given = given.iter().map(|&option| text(option)).collect::<Status<Vec<_>>>()?;
            let taken: Vec<_> = translated(&given).into_iter().filter_map(|option| CString::new(option).ok()).collect();
            let pointers: Vec<_> = taken.iter().map(|option| option.as_ptr()).collect();
            check(compiler.compile(program.0, pointers.len() as c_int, pointers.as_ptr()))
        }
    }

    /// The name under which a module has the kernel of a name expression.
    fn hiprtcGetLoweredName(handle: hiprtcProgram, expression: *const c_char, name: *mut *const c_char) {
        // SAFETY: the caller's handle, string and pointer.
        unsafe {
            let (compiler, program) = program(handle)?;
            check(compiler.lowered_name(program.0, expression, name))
        }
    }

    /// Bytes of the code.
    fn hiprtcGetCodeSize(handle: hiprtcProgram, size: *mut usize) {
        // SAFETY: the caller's handle and pointer.
        unsafe {
            let (compiler, program) = program(handle)?;
            check(compiler.code_size(program.0, size))
        }
    }

    /// The code.
    fn hiprtcGetCode(handle: hiprtcProgram, to: *mut c_char) {
        // SAFETY: the caller's handle and buffer.
        unsafe {
            let (compiler, program) = program(handle)?;
            check(compiler.code(program.0, to))
        }
    }

    /// Bytes of the log with its zero.
    fn hiprtcGetProgramLogSize(handle: hiprtcProgram, size: *mut usize) {
        // SAFETY: the caller's handle and pointer.
        unsafe {
            let (compiler, program) = program(handle)?;
            check(compiler.log_size(program.0, size))
        }
    }

    /// The log.
    fn hiprtcGetProgramLog(handle: hiprtcProgram, to: *mut c_char) {
        // SAFETY: the caller's handle and buffer.
        unsafe {
            let (compiler, program) = program(handle)?;
            check(compiler.log(program.0, to))
        }
    }

    /// The version of NVRTC.
    fn hiprtcVersion(major: *mut c_int, minor: *mut c_int) {
        // SAFETY: the caller's pointers.
        check(unsafe { compiler()?.version(major, minor) })
    }
}

/// The enumerator's name.
#[unsafe(no_mangle)]
pub extern "C" fn hiprtcGetErrorString(result: hiprtcResult) -> *const c_char {
    api::names::hiprtc_result(result).as_ptr()
}

api::implements!(hiprtc: hiprtcGetErrorString);

fn unsupported(function: &str) -> hiprtcResult {
    cuda::say_unsupported(function);
    HIPRTC_ERROR_INTERNAL_ERROR
}

macro_rules! unsupported {
    ($($name:ident)*) => { api::stand_ins! { unsupported; $($name)* } };
}
include!(concat!(env!("OUT_DIR"), "/unsupported.rs"));
