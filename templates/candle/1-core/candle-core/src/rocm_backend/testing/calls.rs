//! How often ROCm's libraries are called.
use super::alone::ALONE;

/// Does some work, and asserts how often it called these functions of ROCm's libraries. Only the emulated device counts
/// them, for all threads together, so that it is for tests that are alone; with any other device this asserts nothing.
pub(crate) fn with_calls<T>(expected: &[(&str, usize)], work: impl FnOnce() -> T) -> T {
    assert!(std::env::var_os(ALONE).is_some(), "other tests call, too");
    let Some(counter) = counter::Counter::find() else {
        return work();
    };
    let (result, found) = counter.counted(expected.iter().map(|(function, _)| *function), work);
    let wanted: Vec<_> = expected.iter().map(|&(f, n)| (f.to_string(), n)).collect();
    assert_eq!(found, wanted);
    result
}

/// The functions with which the emulated device counts calls (docs/emulator.md of candle-rocm).
#[cfg(target_os = "linux")]
pub(super) mod counter {
    use std::ffi::{c_char, c_int, c_void, CString};

    #[link(name = "dl")]
    extern "C" {
        fn dlopen(file: *const c_char, flags: c_int) -> *mut c_void;
        fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    }

    const RTLD_NOW: c_int = 2;

    pub(in super::super) struct Counter {
        start: unsafe extern "C" fn(),
        stop: unsafe extern "C" fn(),
        count: unsafe extern "C" fn(*const c_char) -> i64,
    }

    impl Counter {
        /// In the HIP runtime that this process has loaded; `None` if that is another one.
        pub(in super::super) fn find() -> Option<Self> {
            let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
            let file = maps.lines().find(|line| line.contains("/libamdhip64.so"))?;
            let file = CString::new(&file[file.find('/')?..]).ok()?;
            // SAFETY: a library that is loaded already.
            let library = unsafe { dlopen(file.as_ptr(), RTLD_NOW) };
            let function = |name: &str| {
                let name = CString::new(format!("candle_rocm_emulator_trace_{name}")).ok()?;
                // SAFETY: the library is never closed.
                let address = unsafe { dlsym(library, name.as_ptr()) };
                (!library.is_null() && !address.is_null()).then_some(address)
            };
            let (start, stop, count) = (function("start")?, function("stop")?, function("count")?);
            // SAFETY: the types that the emulated device gives them.
            unsafe {
                Some(Self {
                    start: std::mem::transmute::<*mut c_void, unsafe extern "C" fn()>(start),
                    stop: std::mem::transmute::<*mut c_void, unsafe extern "C" fn()>(stop),
                    count: std::mem::transmute::<
                        *mut c_void,
                        unsafe extern "C" fn(*const c_char) -> i64,
                    >(count),
                })
            }
        }

        /// What some work returns, and how often it called these functions.
        pub(super) fn counted<'a, T>(
            &self,
            functions: impl Iterator<Item = &'a str>,
            work: impl FnOnce() -> T,
        ) -> (T, Vec<(String, usize)>) {
            // SAFETY: no preconditions.
            unsafe { (self.start)() };
            let result = work();
            // SAFETY: as above.
            unsafe { (self.stop)() };
            let times = |function: &str| {
                let name = CString::new(function).expect("a name without a NUL");
                // SAFETY: the name lives through the call.
                unsafe { (self.count)(name.as_ptr()) as usize }
            };
            let counts = functions.map(|function| (function.to_string(), times(function)));
            (result, counts.collect())
        }
    }
}

/// There is an emulated device on Linux only.
#[cfg(not(target_os = "linux"))]
pub(super) mod counter {
    pub(in super::super) struct Counter;

    impl Counter {
        pub(in super::super) fn find() -> Option<Self> {
            None
        }

        pub(super) fn counted<'a, T>(
            &self,
            _: impl Iterator<Item = &'a str>,
            work: impl FnOnce() -> T,
        ) -> (T, Vec<(String, usize)>) {
            (work(), Vec::new())
        }
    }
}
