//! From HIP source to a loaded code object: by hipRTC, which comes with the HIP runtime.
use super::disk_cache::Entry;
use super::hash::Hash128;
use super::module::Module;
use crate::rocm_backend::gpu::lock;
use crate::rocm_backend::hip::{self, HipResult};
use crate::rocm_backend::loaded::LOADER;
use crate::rocm_backend::room::lacks_memory;
use crate::rocm_backend::{api, RocmError};
use std::env;
use std::ffi::{c_char, c_int, CStr, CString, OsStr};

/// 0 forbids to compile: kernels must have been built ahead of time.
const COMPILE_VARIABLE: &str = "CANDLE_ROCM_COMPILE";

/// A source, what it includes, and how it is compiled.
pub(crate) struct Unit<'a> {
    /// For messages: `unary.hip`.
    pub(crate) file: &'a str,
    pub(crate) source: &'a str,
    /// Names, as they are included, and texts.
    pub(crate) headers: &'a [(&'a str, &'a str)],
    /// Such as "gfx90a:sramecc+:xnack-".
    pub(crate) architecture: &'a str,
}

impl Unit<'_> {
    /// A hash of the texts that the compiler reads. `candle-rocm kernels build` computes it, too.
    pub(super) fn sources(&self) -> Hash128 {
        let mut hash = Hash128::EMPTY;
        for (name, text) in self.headers {
            hash = hash.field(name).field(text);
        }
        hash.field(self.file).field(self.source)
    }
}

/// hipRTC, which this machine has.
pub(super) struct Compiler {
    /// Of hipRTC and of the runtime that loads what it compiles.
    versions: String,
}

impl Compiler {
    /// The compiler, or why there is none.
    pub(super) fn find() -> HipResult<Self> {
        if is_forbidden(env::var_os(COMPILE_VARIABLE).as_deref()) {
            return Err(format!("{COMPILE_VARIABLE}=0 forbids to compile").into());
        }
        let (mut major, mut minor, mut runtime) = (0, 0, 0);
        // SAFETY: the numbers live through the call.
        let status = unsafe { api::hiprtcVersion(&mut major, &mut minor) };
        check("hiprtcVersion", status)?;
        // SAFETY: as above.
        let status = unsafe { api::hipRuntimeGetVersion(&mut runtime) };
        hip::check("hipRuntimeGetVersion", status)?;
        Ok(Self {
            versions: format!("{major}.{minor} {runtime}"),
        })
    }

    /// Compiles a unit and loads it on the current device with `load`, or loads what an earlier run has compiled.
    pub(super) fn load(
        &self,
        unit: &Unit<'_>,
        load: fn(&[u8]) -> HipResult<Module>,
    ) -> HipResult<Module> {
        let entry = Entry::new(unit.architecture, unit.file, self.key(unit), "hsaco");
        if let Some(code) = entry.as_ref().and_then(Entry::read) {
            // What another runtime of the same version has compiled may not do for this one; then it is compiled again.
            match load(&code) {
                Err(error) if !lacks_memory(&error) => {}
                loaded => return loaded,
            }
        }
        let code = Program::new(unit)?.compile(unit)?;
        let module = load(&code)?;
        if let Some(entry) = entry {
            entry.write(&code);
        }
        Ok(module)
    }

    /// Everything that the code object depends on.
    fn key(&self, unit: &Unit<'_>) -> Hash128 {
        let key = unit.sources().field(&self.versions);
        let with_option = |key: Hash128, option: String| key.field(&option);
        options(unit).into_iter().fold(key, with_option)
    }
}

fn is_forbidden(value: Option<&OsStr>) -> bool {
    value.is_some_and(|value| value == "0")
}

fn options(unit: &Unit<'_>) -> [String; 3] {
    [
        "-O3".to_string(),
        "-std=c++17".to_string(),
        format!("--offload-arch={}", unit.architecture),
    ]
}

/// A hipRTC program; destroyed when it is dropped.
struct Program {
    handle: api::hiprtcProgram,
    file: String,
}

impl Program {
    fn new(unit: &Unit<'_>) -> HipResult<Self> {
        let Unit {
            file,
            source,
            headers,
            ..
        } = *unit;
        let text = |text: &str| CString::new(text).map_err(|_| format!("{file} has a NUL in it"));
        let (name, code) = (text(file)?, text(source)?);
        let names = headers
            .iter()
            .map(|h| text(h.0))
            .collect::<Result<Vec<_>, _>>()?;
        let texts = headers
            .iter()
            .map(|h| text(h.1))
            .collect::<Result<Vec<_>, _>>()?;
        let mut names: Vec<*const c_char> = names.iter().map(|name| name.as_ptr()).collect();
        let mut texts: Vec<*const c_char> = texts.iter().map(|text| text.as_ptr()).collect();
        let mut handle = std::ptr::null_mut();
        // SAFETY: all strings and both arrays live through the call, which copies them.
        let status = unsafe {
            api::hiprtcCreateProgram(
                &mut handle,
                code.as_ptr(),
                name.as_ptr(),
                headers.len() as c_int,
                texts.as_mut_ptr(),
                names.as_mut_ptr(),
            )
        };
        check("hiprtcCreateProgram", status)?;
        Ok(Self {
            handle,
            file: file.to_string(),
        })
    }

    fn compile(&self, unit: &Unit<'_>) -> HipResult<Vec<u8>> {
        let text = |option| CString::new(option).map_err(|_| "an option with a NUL".to_string());
        let options = options(unit).map(text);
        let options = options.into_iter().collect::<Result<Vec<_>, _>>()?;
        let mut pointers: Vec<*const c_char> = options.iter().map(|o| o.as_ptr()).collect();
        // hipRTC is open since the program was made.
        let undisturbed = lock(&LOADER);
        // SAFETY: the program is not destroyed yet, and options and array live through the call.
        let status = unsafe {
            api::hiprtcCompileProgram(self.handle, pointers.len() as c_int, pointers.as_mut_ptr())
        };
        drop(undisturbed);
        check("hiprtcCompileProgram", status).map_err(|error| RocmError::Compile {
            file: self.file.clone(),
            architecture: unit.architecture.to_string(),
            error: Box::new(error),
            log: self.log().unwrap_or_default(),
        })?;
        self.code()
    }

    fn log(&self) -> HipResult<String> {
        let mut size = 0;
        // SAFETY: `size` lives through the call.
        let status = unsafe { api::hiprtcGetProgramLogSize(self.handle, &mut size) };
        check("hiprtcGetProgramLogSize", status)?;
        let mut log = vec![0u8; size];
        // SAFETY: the log has room for the size that hipRTC has asked for.
        let status = unsafe { api::hiprtcGetProgramLog(self.handle, log.as_mut_ptr().cast()) };
        check("hiprtcGetProgramLog", status)?;
        // Of AMD's hipRTC, the size has no NUL in it; of others, it has.
        let end = log.iter().position(|byte| *byte == 0);
        Ok(String::from_utf8_lossy(&log[..end.unwrap_or(size)]).into_owned())
    }

    fn code(&self) -> HipResult<Vec<u8>> {
        let mut size = 0;
        // SAFETY: `size` lives through the call.
        let status = unsafe { api::hiprtcGetCodeSize(self.handle, &mut size) };
        check("hiprtcGetCodeSize", status)?;
        let mut code = vec![0u8; size];
        // SAFETY: the code has room for the size that hipRTC has asked for.
        let status = unsafe { api::hiprtcGetCode(self.handle, code.as_mut_ptr().cast()) };
        check("hiprtcGetCode", status)?;
        Ok(code)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: created by `new`, and destroyed once.
        let _ = unsafe { api::hiprtcDestroyProgram(&mut self.handle) };
    }
}

/// `Ok` for `HIPRTC_SUCCESS`, otherwise an error that names `call`.
fn check(call: &'static str, status: api::hiprtcResult) -> HipResult<()> {
    if status == api::HIPRTC_SUCCESS {
        return Ok(());
    }
    // SAFETY: takes any status and returns a static string.
    let message = unsafe { CStr::from_ptr(api::hiprtcGetErrorString(status)) };
    Err(RocmError::Hiprtc {
        call,
        code: status,
        message: message.to_string_lossy().into_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rocm_backend::testing::gpu;
    use std::time::{Duration, Instant};

    #[test]
    fn only_0_forbids_to_compile() {
        for (value, forbids) in [
            (None, false),
            (Some(""), false),
            (Some("0"), true),
            (Some("1"), false),
            (Some("00"), false),
        ] {
            assert_eq!(is_forbidden(value.map(OsStr::new)), forbids, "{value:?}");
        }
    }

    #[test]
    fn nothing_is_compiled_while_a_library_is_opened() -> HipResult<()> {
        if gpu("nothing_is_compiled_while_a_library_is_opened").is_none() {
            return Ok(());
        }
        let unit = Unit {
            file: "while_a_library_is_opened.hip",
            source: "extern \"C\" __global__ void nothing() {}",
            headers: &[],
            architecture: "gfx90a",
        };
        let begin = Instant::now();
        let compiled = Program::new(&unit)?.compile(&unit)?;
        let long_enough = begin.elapsed() * 2 + Duration::from_millis(100);
        let opening = lock(&LOADER);
        let (done, is_done) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let compiling = scope.spawn(|| {
                let code = Program::new(&unit)?.compile(&unit);
                let _ = done.send(());
                code
            });
            let while_opening = is_done.recv_timeout(long_enough);
            drop(opening);
            let code = compiling.join().expect("it does not panic")?;
            assert!(while_opening.is_err(), "it did not wait");
            assert!(code == compiled);
            Ok(())
        })
    }

    #[test]
    fn what_cannot_be_loaded_is_compiled_again() -> HipResult<()> {
        let Some(device) = gpu("what_cannot_be_loaded_is_compiled_again") else {
            return Ok(());
        };
        device.gpu().make_current()?;
        let architecture = device.gpu().properties().gcn_arch_name.clone();
        let unit = Unit {
            file: "what_cannot_be_loaded.hip",
            source: "extern \"C\" __global__ void nothing() {}",
            headers: &[],
            architecture: architecture.split(':').next().unwrap_or_default(),
        };
        let compiler = Compiler::find()?;
        let entry = Entry::new(unit.architecture, unit.file, compiler.key(&unit), "hsaco");
        let Some(entry) = entry else { return Ok(()) };
        entry.write(b"no code object");
        compiler.load(&unit, Module::load)?;
        let code = entry.read().unwrap_or_default();
        assert!(Module::load(&code).is_ok(), "and takes its place");
        Ok(())
    }
}
