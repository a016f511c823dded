//! libhiprtc.so on the CPU.

#![allow(non_snake_case, reason = "the names are hipRTC's")]

use std::ffi::{CStr, CString, c_char, c_int};
use std::slice;
use std::sync::Mutex;

use api::hiprtc::*;
use candle_rocm_emulator_link::{call, current_device, note};
use candle_rocm_emulator_runtime::compile::{self, Outcome, Source};
use candle_rocm_emulator_runtime::settings::settings;

/// What a `hiprtcProgram` points to.
pub struct Program(Mutex<State>);

#[derive(Default)]
struct State {
    source: Source,
    outcome: Option<Outcome>,
    /// Name expressions as strings for C, each with the name that its kernel has in the code.
    lowered: Vec<(String, CString)>,
}

type Status = Result<(), hiprtcResult>;

macro_rules! api {
    ($($(#[$attribute:meta])* fn $name:ident($($argument:ident: $type:ty),* $(,)?) $body:block)*) => {$(
        $(#[$attribute])*
        ///
        /// # Safety
        /// As the function of the same name in hipRTC.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> hiprtcResult {
            let arguments = [$(format!(concat!(stringify!($argument), "={:?}"), $argument)),*].join(", ");
            call(stringify!($name), &arguments, HIPRTC_ERROR_INTERNAL_ERROR, || {
                let body = || -> Status { $body };
                body().err().unwrap_or(HIPRTC_SUCCESS)
            })
        }
    )*
    api::implements!(hiprtc: $($name),*);
    };
}

unsafe fn text(string: *const c_char) -> Result<String, hiprtcResult> {
    if string.is_null() {
        return Err(HIPRTC_ERROR_INVALID_INPUT);
    }
    // SAFETY: the caller's zero-terminated string.
    Ok(unsafe { CStr::from_ptr(string) }.to_string_lossy().into_owned())
}

unsafe fn texts(strings: *const *const c_char, count: c_int) -> Result<Vec<String>, hiprtcResult> {
    let count = usize::try_from(count).map_err(|_| HIPRTC_ERROR_INVALID_INPUT)?;
    if count == 0 {
        return Ok(Vec::new());
    }
    if strings.is_null() {
        return Err(HIPRTC_ERROR_INVALID_INPUT);
    }
    // SAFETY: the caller's array of that many strings.
    unsafe { slice::from_raw_parts(strings, count) }.iter().map(|&string| unsafe { text(string) }).collect()
}

unsafe fn with<T>(
    program: hiprtcProgram,
    body: impl FnOnce(&mut State) -> Result<T, hiprtcResult>,
) -> Result<T, hiprtcResult> {
    // SAFETY: a caller's handle is null or came from `hiprtcCreateProgram`.
    let program = unsafe { program.cast::<Program>().as_ref() }.ok_or(HIPRTC_ERROR_INVALID_PROGRAM)?;
    body(&mut *program.0.lock().map_err(|_| HIPRTC_ERROR_INTERNAL_ERROR)?)
}

unsafe fn store<T>(pointer: *mut T, value: T) -> Status {
    if pointer.is_null() {
        return Err(HIPRTC_ERROR_INVALID_INPUT);
    }
    // SAFETY: the caller's pointer.
    unsafe { pointer.write(value) };
    Ok(())
}

unsafe fn copy_out(bytes: &[u8], to: *mut c_char) -> Status {
    if to.is_null() {
        return Err(HIPRTC_ERROR_INVALID_INPUT);
    }
    // SAFETY: the caller asked for the size before.
    unsafe { bytes.as_ptr().copy_to_nonoverlapping(to.cast(), bytes.len()) };
    Ok(())
}

/// The code of a program that was compiled.
fn code(state: &State) -> Result<&[u8], hiprtcResult> {
    state.outcome.as_ref().and_then(|outcome| outcome.code.as_deref()).ok_or(HIPRTC_ERROR_INVALID_PROGRAM)
}

/// The log with the zero that ends it.
fn log(state: &State) -> Vec<u8> {
    let log = state.outcome.as_ref().map_or("", |outcome| &outcome.log);
    log.bytes().filter(|byte| *byte != 0).collect()
}

fn no_bitcode(function: &str) -> Status {
    note(&format!("{function}: not supported by the emulated device"));
    Err(HIPRTC_ERROR_INTERNAL_ERROR)
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
        // SAFETY: the caller's strings and arrays.
        let (source_text, header_texts, names) =
            unsafe { (text(source)?, texts(headers, header_count)?, texts(include_names, header_count)?) };
        // SAFETY: as above; a program may have no name.
        let name = unsafe { text(name) }.ok().filter(|name| !name.is_empty()).unwrap_or_else(|| "CompileSource".into());
        let source = Source {
            name,
            text: source_text,
            headers: names.into_iter().zip(header_texts).collect(),
            ..Source::default()
        };
        let state = State { source, ..State::default() };
        // SAFETY: the caller's pointer.
        unsafe { store(program, Box::into_raw(Box::new(Program(Mutex::new(state)))).cast()) }
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
    fn hiprtcAddNameExpression(program: hiprtcProgram, expression: *const c_char) {
        // SAFETY: the caller's handle and string.
        unsafe {
            let expression = text(expression)?;
            with(program, |state| {
                if state.outcome.is_some() {
                    return Err(HIPRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION);
                }
                let lowered = compile::lowered_name(state.lowered.len());
                state.source.expressions.push(expression.trim_start_matches('&').to_owned());
                state.lowered.push((expression, CString::new(lowered).map_err(|_| HIPRTC_ERROR_INTERNAL_ERROR)?));
                Ok(())
            })
        }
    }

    /// Compiles for the current device, or for the one that the options name.
    fn hiprtcCompileProgram(program: hiprtcProgram, option_count: c_int, options: *const *const c_char) {
        // SAFETY: the caller's handle and array.
        unsafe {
            let options = texts(options, option_count)?;
            with(program, |state| {
                state.source.options = options;
                let current = settings().devices.get(current_device()).map(|card| card.model);
                let outcome = compile::compile(&state.source, current);
                let compiled = outcome.code.is_some();
                state.outcome = Some(outcome);
                if compiled { Ok(()) } else { Err(HIPRTC_ERROR_COMPILATION) }
            })
        }
    }

    /// The name under which a module has the kernel of a name expression.
    fn hiprtcGetLoweredName(program: hiprtcProgram, expression: *const c_char, name: *mut *const c_char) {
        // SAFETY: the caller's handle, string and pointer.
        unsafe {
            let expression = text(expression)?;
            with(program, |state| {
                if state.outcome.is_none() {
                    return Err(HIPRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION);
                }
                let found = state.lowered.iter().find(|(known, _)| *known == expression);
                store(name, found.ok_or(HIPRTC_ERROR_NAME_EXPRESSION_NOT_VALID)?.1.as_ptr())
            })
        }
    }

    /// Bytes of the code.
    fn hiprtcGetCodeSize(program: hiprtcProgram, size: *mut usize) {
        // SAFETY: the caller's handle and pointer.
        unsafe { with(program, |state| store(size, code(state)?.len())) }
    }

    /// The code.
    fn hiprtcGetCode(program: hiprtcProgram, to: *mut c_char) {
        // SAFETY: the caller's handle and buffer.
        unsafe { with(program, |state| copy_out(code(state)?, to)) }
    }

    /// Bytes of LLVM bitcode, which the host's compiler does not make.
    fn hiprtcGetBitcodeSize(program: hiprtcProgram, _size: *mut usize) {
        // SAFETY: the caller's handle.
        unsafe { with(program, |_| no_bitcode("hiprtcGetBitcodeSize")) }
    }

    /// LLVM bitcode, which the host's compiler does not make.
    fn hiprtcGetBitcode(program: hiprtcProgram, _to: *mut c_char) {
        // SAFETY: the caller's handle.
        unsafe { with(program, |_| no_bitcode("hiprtcGetBitcode")) }
    }

    /// Bytes of the log with its zero.
    fn hiprtcGetProgramLogSize(program: hiprtcProgram, size: *mut usize) {
        // SAFETY: the caller's handle and pointer.
        unsafe { with(program, |state| store(size, log(state).len())) }
    }

    /// The log.
    fn hiprtcGetProgramLog(program: hiprtcProgram, to: *mut c_char) {
        // SAFETY: the caller's handle and buffer.
        unsafe { with(program, |state| copy_out(&log(state), to)) }
    }

    /// The version of hipRTC.
    fn hiprtcVersion(major: *mut c_int, minor: *mut c_int) {
        // SAFETY: the caller's pointers.
        unsafe {
            store(major, 9)?;
            store(minor, 0)
        }
    }
}

/// The enumerator's name.
#[unsafe(no_mangle)]
pub extern "C" fn hiprtcGetErrorString(result: hiprtcResult) -> *const c_char {
    api::names::hiprtc_result(result).as_ptr()
}

api::implements_all_hiprtc!();

macro_rules! unsupported {
    ($($name:ident)*) => { candle_rocm_emulator_link::unsupported_functions!(HIPRTC_ERROR_INTERNAL_ERROR; $($name)*); };
}
include!(concat!(env!("OUT_DIR"), "/unsupported.rs"));
