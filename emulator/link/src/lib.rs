//! How the emulator's other libraries reach the state that lives in libamdhip64.so.

mod exports;
mod handles;

pub use handles::Handles;

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::mem::transmute_copy;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::OnceLock;

/// Memory that work on a stream uses.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Extent {
    /// First address; of the device or of the host.
    pub address: usize,
    /// How many bytes.
    pub bytes: usize,
    /// Whether they are written, or read.
    pub writes: bool,
}

/// Does work with its data if that is wanted, and gives the data back. Returns 0 after a panic.
type Perform = unsafe extern "C" fn(data: *mut c_void, wanted: c_int) -> c_int;

/// The functions of libamdhip64.so that its siblings use.
struct Functions {
    call: unsafe extern "C" fn(*const c_char, *const c_char) -> c_int,
    get_device: unsafe extern "C" fn(*mut c_int) -> c_uint,
    last_error: unsafe extern "C" fn() -> c_uint,
    architecture: unsafe extern "C" fn(usize, *mut c_char, usize) -> c_int,
    has_xf32: unsafe extern "C" fn(usize) -> c_int,
    enqueue: unsafe extern "C" fn(*mut c_void, *const c_char, Perform, *mut c_void) -> c_uint,
    uses: unsafe extern "C" fn(*const c_char, *const Extent, usize) -> c_int,
    note: unsafe extern "C" fn(*const c_char),
}

/// The library next to the one that this code is part of. If the program has loaded it already, it is the same one.
fn functions() -> &'static Functions {
    static FUNCTIONS: OnceLock<Functions> = OnceLock::new();
    FUNCTIONS.get_or_init(|| {
        let path = own_folder().join("libamdhip64.so");
        let name = CString::new(path.display().to_string()).expect("a path without zeros");
        // SAFETY: the library's initialisers do nothing.
        let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        assert!(!library.is_null(), "the emulator's {} cannot be loaded", path.display());
        // SAFETY: the signatures are those in emulator/amdhip64/src.
        unsafe {
            Functions {
                call: symbol(library, c"candle_rocm_emulator_call"),
                get_device: symbol(library, c"hipGetDevice"),
                last_error: symbol(library, c"hipGetLastError"),
                architecture: symbol(library, c"candle_rocm_emulator_architecture"),
                has_xf32: symbol(library, c"candle_rocm_emulator_has_xf32"),
                enqueue: symbol(library, c"candle_rocm_emulator_enqueue"),
                uses: symbol(library, c"candle_rocm_emulator_uses"),
                note: symbol(library, c"candle_rocm_emulator_note"),
            }
        }
    })
}

/// A function of libamdhip64.so.
///
/// # Safety
/// `library` is a handle, and `T` the type of the pointer to that function.
unsafe fn symbol<T: Copy>(library: *mut c_void, name: &CStr) -> T {
    // SAFETY: a valid handle and a zero-terminated name.
    let symbol = unsafe { libc::dlsym(library, name.as_ptr()) };
    assert!(!symbol.is_null(), "libamdhip64.so lacks {name:?}: it is not the emulator's");
    // SAFETY: by contract.
    unsafe { transmute_copy(&symbol) }
}

/// The folder of the shared library that holds this function, as the program has loaded it.
pub fn own_folder() -> &'static Path {
    // SAFETY: all fields are valid as zeros.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: the address is that of a function of ours.
    let found = unsafe { libc::dladdr(own_folder as *const c_void, &raw mut info) };
    assert_ne!(found, 0, "the dynamic linker knows the library that runs");
    // SAFETY: the linker's string lives as long as the library.
    let path = unsafe { CStr::from_ptr(info.dli_fname) };
    Path::new(path.to_str().expect("a path in UTF-8")).parent().unwrap_or(Path::new("."))
}

/// The calling thread's device.
pub fn current_device() -> usize {
    let mut device = 0;
    // SAFETY: a valid pointer.
    unsafe { (functions().get_device)(&raw mut device) };
    device as usize
}

/// The calling thread's last error of HIP, which is forgotten: what libraries ask after their launches.
pub fn last_error() -> c_uint {
    // SAFETY: no preconditions.
    unsafe { (functions().last_error)() }
}

/// The calling thread's device's architecture: "gfx1100".
pub fn architecture() -> String {
    let mut name: [c_char; 16] = [0; 16];
    // SAFETY: any number may be asked for, and the array has so many bytes.
    let length = unsafe { (functions().architecture)(current_device(), name.as_mut_ptr(), name.len()) };
    assert!(length >= 0, "the current device is one");
    // SAFETY: a zero was written.
    unsafe { CStr::from_ptr(name.as_ptr()) }.to_str().expect("a name in ASCII").to_string()
}

/// Whether the calling thread's device multiplies f32 with factors of 10 bits after the point where it may.
pub fn has_xf32() -> bool {
    // SAFETY: any number may be asked for.
    unsafe { (functions().has_xf32)(current_device()) != 0 }
}

/// Puts work on a stream, which does it once, or as often as a graph of it is launched. The work checks the memory that it uses with [`uses`].
///
/// `stream` is a `hipStream_t`. Returns a `hipError_t`; what the work did wrong shows when the stream is waited for.
#[allow(clippy::not_unsafe_ptr_arg_deref, reason = "a handle, looked up and not dereferenced")]
pub fn enqueue(stream: *mut c_void, function: &str, work: impl Fn() + Send + Sync + 'static) -> c_uint {
    type Boxed = Box<dyn Fn() + Send + Sync>;
    unsafe extern "C" fn perform(data: *mut c_void, wanted: c_int) -> c_int {
        if wanted == 0 {
            // SAFETY: libamdhip64.so calls this once at last, with what `enqueue` passed.
            drop(unsafe { Box::from_raw(data.cast::<Boxed>()) });
            return 1;
        }
        // SAFETY: as above, and before that.
        let work = unsafe { &*data.cast::<Boxed>() };
        // A panic must not pass through the other library; its message is on standard error.
        c_int::from(catch_unwind(AssertUnwindSafe(work)).is_ok())
    }
    let data: Box<Boxed> = Box::new(Box::new(work));
    let function = zero_terminated(function);
    // SAFETY: the arguments are as the function wants them; the work may run on any thread.
    unsafe { (functions().enqueue)(stream, function.as_ptr(), perform, Box::into_raw(data).cast()) }
}

/// Checks memory that work on a stream uses, and notes what it is about to write. Only such work calls this.
///
/// `what` names the function and what the memory is to it. On false the work must do no more: the stream's next
/// synchronisation reports the fault.
pub fn uses(what: &str, extents: &[Extent]) -> bool {
    let what = zero_terminated(what);
    // SAFETY: a zero-terminated string, and as many extents as are said.
    unsafe { (functions().uses)(what.as_ptr(), extents.as_ptr(), extents.len()) != 0 }
}

/// What a function does that the emulator lacks: it says so, is counted, and may be made to fail in another way.
pub fn unsupported(function: &str, status: c_uint) -> c_uint {
    call(function, "", status, || {
        note(&format!("{function}: not supported by the emulated device"));
        status
    })
}

/// Says why a call is refused: on standard error once, and as the last report.
pub fn note(text: &str) {
    let text = zero_terminated(text);
    // SAFETY: a zero-terminated string.
    unsafe { (functions().note)(text.as_ptr()) };
}

fn zero_terminated(text: &str) -> CString {
    CString::new(text.replace('\0', " ")).expect("no zeros are left")
}

/// Runs the body of an exported function: traced, made to fail if a test wants it, and with no panic leaving it.
///
/// `panicked` is what the function returns if the emulator has a bug.
pub fn call(function: &str, arguments: &str, panicked: c_uint, body: impl FnOnce() -> c_uint) -> c_uint {
    let guarded = AssertUnwindSafe(|| {
        let (function, arguments) = (zero_terminated(function), zero_terminated(arguments));
        // SAFETY: zero-terminated strings.
        match unsafe { (functions().call)(function.as_ptr(), arguments.as_ptr()) } {
            0 => body(),
            code => code as c_uint,
        }
    });
    catch_unwind(guarded).unwrap_or(panicked)
}
