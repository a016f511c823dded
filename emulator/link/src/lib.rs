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

/// Does work with its data for 1, which returns 0 after a panic; says for 2 whether the time for it has come; gives the
/// data back for 0.
type Perform = unsafe extern "C" fn(data: *mut c_void, wanted: c_int) -> c_int;

/// The functions of libamdhip64.so that its siblings use.
struct Functions {
    call: unsafe extern "C" fn(*const c_char, *const c_char) -> c_int,
    get_device: unsafe extern "C" fn(*mut c_int) -> c_uint,
    last_error: unsafe extern "C" fn() -> c_uint,
    architecture: unsafe extern "C" fn(usize, *mut c_char, usize) -> c_int,
    has_xf32: unsafe extern "C" fn(usize) -> c_int,
    enqueue: unsafe extern "C" fn(*mut c_void, *const c_char, c_int, Perform, *mut c_void) -> c_uint,
    wake: unsafe extern "C" fn(),
    run_by_itself: unsafe extern "C" fn(),
    device_of: unsafe extern "C" fn(*mut c_void) -> c_int,
    is_captured: unsafe extern "C" fn(*mut c_void) -> c_int,
    card: unsafe extern "C" fn(usize) -> c_int,
    malloc: unsafe extern "C" fn(*mut *mut c_void, usize) -> c_uint,
    free: unsafe extern "C" fn(*mut c_void) -> c_uint,
    set_device: unsafe extern "C" fn(c_int) -> c_uint,
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
                wake: symbol(library, c"candle_rocm_emulator_wake"),
                run_by_itself: symbol(library, c"candle_rocm_emulator_run_by_itself"),
                device_of: symbol(library, c"candle_rocm_emulator_device_of"),
                is_captured: symbol(library, c"candle_rocm_emulator_is_captured"),
                card: symbol(library, c"candle_rocm_emulator_card"),
                malloc: symbol(library, c"hipMalloc"),
                free: symbol(library, c"hipFree"),
                set_device: symbol(library, c"hipSetDevice"),
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

/// Puts work on a stream, which does it once, or as often as a graph of it is launched. The work checks the memory that it
/// uses with [`uses`].
///
/// `stream` is a `hipStream_t`. Returns a `hipError_t`; what the work did wrong shows when the stream is waited for.
pub fn enqueue(stream: *mut c_void, function: &str, work: impl Fn() + Send + Sync + 'static) -> c_uint {
    put(stream, function, Queued { work: Box::new(work), ready: None })
}

/// The same for work whose time comes from outside of the machine: `ready` is asked again after each [`wake`].
pub fn enqueue_after(
    stream: *mut c_void,
    function: &str,
    ready: impl Fn() -> bool + Send + Sync + 'static,
    work: impl Fn() + Send + Sync + 'static,
) -> c_uint {
    put(stream, function, Queued { work: Box::new(work), ready: Some(Box::new(ready)) })
}

/// What a stream has to do.
struct Queued {
    work: Box<dyn Fn() + Send + Sync>,
    ready: Option<Box<dyn Fn() -> bool + Send + Sync>>,
}

#[allow(clippy::not_unsafe_ptr_arg_deref, reason = "a handle, looked up and not dereferenced")]
fn put(stream: *mut c_void, function: &str, queued: Queued) -> c_uint {
    unsafe extern "C" fn perform(data: *mut c_void, wanted: c_int) -> c_int {
        if wanted == 0 {
            // SAFETY: libamdhip64.so calls this once at last, with what `put` passed.
            drop(unsafe { Box::from_raw(data.cast::<Queued>()) });
            return 1;
        }
        // SAFETY: as above, and before that.
        let queued = unsafe { &*data.cast::<Queued>() };
        // A panic must not pass through the other library; its message is on standard error.
        let done = catch_unwind(AssertUnwindSafe(|| match (wanted, &queued.ready) {
            (2, Some(ready)) => ready(),
            _ => {
                (queued.work)();
                true
            }
        }));
        // Work whose readiness cannot be told is done, and fails then.
        done.map_or((wanted == 2).into(), c_int::from)
    }
    let waits = c_int::from(queued.ready.is_some());
    let data = Box::into_raw(Box::new(queued)).cast();
    let function = zero_terminated(function);
    // SAFETY: the arguments are as the function wants them; the work may run on any thread.
    unsafe { (functions().enqueue)(stream, function.as_ptr(), waits, perform, data) }
}

/// Asks work that waits for what is outside of the machine whether its time has come.
pub fn wake() {
    // SAFETY: no preconditions.
    unsafe { (functions().wake)() }
}

/// From now on queued work is done even if nobody in this process waits for it: another process may.
pub fn run_by_itself() {
    // SAFETY: no preconditions.
    unsafe { (functions().run_by_itself)() }
}

/// The device of a `hipStream_t`; none if there is no such stream.
#[allow(clippy::not_unsafe_ptr_arg_deref, reason = "a handle, looked up and not dereferenced")]
pub fn device_of(stream: *mut c_void) -> Option<usize> {
    // SAFETY: any handle may be asked about.
    unsafe { (functions().device_of)(stream) }.try_into().ok()
}

/// Whether a `hipStream_t` is captured.
#[allow(clippy::not_unsafe_ptr_arg_deref, reason = "a handle, looked up and not dereferenced")]
pub fn is_captured(stream: *mut c_void) -> bool {
    // SAFETY: any handle may be asked about.
    unsafe { (functions().is_captured)(stream) != 0 }
}

/// The number of a device among all cards of the machine; none if there is no such device.
pub fn card(device: usize) -> Option<usize> {
    // SAFETY: any number may be asked for.
    unsafe { (functions().card)(device) }.try_into().ok()
}

/// Makes a device the calling thread's. False if there is no such device.
pub fn set_device(device: usize) -> bool {
    // SAFETY: any number may be asked for.
    c_int::try_from(device).is_ok_and(|device| unsafe { (functions().set_device)(device) } == 0)
}

/// Memory of the calling thread's device; none if there is not so much.
pub fn malloc(bytes: usize) -> Option<*mut c_void> {
    let mut address = std::ptr::null_mut();
    // SAFETY: a valid pointer.
    let status = unsafe { (functions().malloc)(&raw mut address, bytes) };
    (status == 0).then_some(address)
}

/// Gives memory back. False if there is none.
#[allow(clippy::not_unsafe_ptr_arg_deref, reason = "an address, looked up and not dereferenced")]
pub fn free(address: *mut c_void) -> bool {
    // SAFETY: any address may be given.
    unsafe { (functions().free)(address) == 0 }
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
