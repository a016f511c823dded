//! The emulated HIP device's own functions: counts of calls, and faults on demand.

use std::ffi::{c_char, c_int, c_void, CString};

#[link(name = "dl")]
extern "C" {
    fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

const RTLD_NOW: c_int = 2;

/// The library that the backend has loaded, or will load.
#[derive(Clone, Copy)]
pub struct Emulator {
    fail: unsafe extern "C" fn(*const c_char, i64, c_int),
    reset: unsafe extern "C" fn(),
    start: unsafe extern "C" fn(),
    stop: unsafe extern "C" fn(),
    count: unsafe extern "C" fn(*const c_char) -> i64,
}

impl Emulator {
    pub fn open() -> Self {
        let library = CString::new("libamdhip64.so").unwrap();
        let library = unsafe { dlopen(library.as_ptr(), RTLD_NOW) };
        assert!(!library.is_null(), "no libamdhip64.so in LD_LIBRARY_PATH");
        let function = |name: &str| {
            let symbol = CString::new(format!("candle_rocm_emulator_{name}")).unwrap();
            let address = unsafe { dlsym(library, symbol.as_ptr()) };
            assert!(!address.is_null(), "libamdhip64.so is not the emulated device's: no {name}");
            address
        };
        unsafe {
            Self {
                fail: std::mem::transmute(function("fail")),
                reset: std::mem::transmute(function("reset")),
                start: std::mem::transmute(function("trace_start")),
                stop: std::mem::transmute(function("trace_stop")),
                count: std::mem::transmute(function("trace_count")),
            }
        }
    }

    /// Makes the `nth` call from now of a function return `code`; 0 takes that back.
    pub fn fail(&self, function: &str, nth: i64, code: i32) {
        let name = CString::new(function).unwrap();
        unsafe { (self.fail)(name.as_ptr(), nth, code) }
    }

    /// Takes back all that was made to fail, and the device's state of error.
    pub fn reset(&self) {
        unsafe { (self.reset)() }
    }

    /// What `work` returns, with the calls made meanwhile of each of the functions.
    pub fn counted<T>(&self, functions: &[&str], work: impl FnOnce() -> T) -> (T, Vec<i64>) {
        unsafe { (self.start)() }
        let result = work();
        unsafe { (self.stop)() }
        let count = |name: &&str| {
            let name = CString::new(*name).unwrap();
            unsafe { (self.count)(name.as_ptr()) }
        };
        (result, functions.iter().map(count).collect())
    }
}
