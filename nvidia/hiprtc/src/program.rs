//! Programs, and what NVRTC answers.

use std::ffi::{CStr, CString, c_char, c_int};
use std::slice;

use api::hiprtc::*;
use cuda::{Compiler, CompilerResult, Handle};

use crate::options::HEADER;

/// What a function answers: nothing more to say, or a status other than success.
pub type Status<T = ()> = Result<T, hiprtcResult>;

/// NVRTC.
///
/// # Errors
/// `HIPRTC_ERROR_INTERNAL_ERROR` where it cannot be opened, after saying so on standard error.
pub fn compiler() -> Status<&'static Compiler> {
    Compiler::open().map_err(|missing| {
        eprintln!("{missing}");
        HIPRTC_ERROR_INTERNAL_ERROR
    })
}

/// NVRTC's answer as hipRTC's, which has taken over its numbers up to the internal error.
///
/// # Errors
/// Any other than success.
pub fn check(result: CompilerResult) -> Status {
    match u32::try_from(result) {
        Ok(0) => Ok(()),
        Ok(code) if code <= HIPRTC_ERROR_INTERNAL_ERROR => Err(code),
        _ => Err(HIPRTC_ERROR_INTERNAL_ERROR),
    }
}

/// A caller's string.
///
/// # Errors
/// `HIPRTC_ERROR_INVALID_INPUT` for a null pointer.
///
/// # Safety
/// The pointer is null, or that of a zero-terminated string.
pub unsafe fn text(string: *const c_char) -> Status<String> {
    if string.is_null() {
        return Err(HIPRTC_ERROR_INVALID_INPUT);
    }
    // SAFETY: by contract.
    Ok(unsafe { CStr::from_ptr(string) }.to_string_lossy().into_owned())
}

/// The header that hipRTC knows by itself, so that sources may include it; here everything is in the own header.
const RUNTIME: &CStr = c"hip/hip_runtime.h";

/// What a `hiprtcProgram` points to: a program of NVRTC.
pub struct Program(pub Handle);

impl Program {
    /// A program of a source and headers, and of the header that has what HIP spells otherwise.
    ///
    /// # Errors
    /// As NVRTC, and `HIPRTC_ERROR_INVALID_INPUT` for arrays that are not there.
    ///
    /// # Safety
    /// Both arrays have `count` strings; the source is a string, and the name null or one.
    pub unsafe fn new(
        source: *const c_char,
        name: *const c_char,
        count: c_int,
        headers: *const *const c_char,
        names: *const *const c_char,
    ) -> Status<Self> {
        let count = usize::try_from(count).map_err(|_| HIPRTC_ERROR_INVALID_INPUT)?;
        if source.is_null() || (count > 0 && (headers.is_null() || names.is_null())) {
            return Err(HIPRTC_ERROR_INVALID_INPUT);
        }
        let (own_name, own) =
            (CString::new(HEADER).expect("no zeros"), CString::new(include_str!("hip_on_nvidia.h")).expect("no zeros"));
        let (mut all, mut all_names) = (vec![own.as_ptr(), c"".as_ptr()], vec![own_name.as_ptr(), RUNTIME.as_ptr()]);
        if count > 0 {
            // SAFETY: by contract.
            all.extend_from_slice(unsafe { slice::from_raw_parts(headers, count) });
            // SAFETY: by contract.
            all_names.extend_from_slice(unsafe { slice::from_raw_parts(names, count) });
        }
        let mut program = std::ptr::null_mut();
        let number = all.len() as c_int;
        // SAFETY: strings and arrays that live through the call, of which NVRTC makes copies.
        let result =
            unsafe { compiler()?.create(&raw mut program, source, name, number, all.as_ptr(), all_names.as_ptr()) };
        check(result)?;
        Ok(Self(program))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if let Ok(compiler) = compiler() {
            // SAFETY: the program is given up. What NVRTC says to that changes nothing.
            let _ = unsafe { compiler.destroy(&raw mut self.0) };
        }
    }
}
