//! What the crate's own tests need: a GPU, and what it was asked for.
use super::blas::Product;
use super::device::{device_count, is_available, RocmDevice};
use super::hip::HipResult;
use super::memory::DeviceMemory;
use super::plan::{Card, Launch, Launcher, Limits, Pointer, Tuning};
use super::RocmError;
use std::cell::RefCell;
use std::io::Write;
use std::process::Command;

/// GPU 0, or `None` with a message, as in rocm_basic.rs.
pub(crate) fn gpu(test: &str) -> Option<RocmDevice> {
    if !is_available() {
        skipped(test, "no ROCm device");
        return None;
    }
    Some(RocmDevice::new(0).expect("GPU 0 of a runtime that counts at least one"))
}

/// GPU `ordinal`, or `None` with a message.
pub(crate) fn gpu_of(test: &str, ordinal: usize) -> Option<RocmDevice> {
    let count = device_count().expect("the runtime answers");
    if ordinal < count {
        return Some(RocmDevice::new_with_stream(ordinal).expect("a GPU that was counted"));
    }
    if count > 0 {
        skipped(
            test,
            &format!("needs {} ROCm devices, {count} visible", ordinal + 1),
        );
    } else {
        skipped(test, "no ROCm device");
    }
    None
}

/// Past libtest's capture, so that nobody takes a skipped test for a passed one.
fn skipped(test: &str, reason: &str) {
    let line = format!("SKIPPED: {test}: {reason}\n");
    let written = std::io::stderr().write_all(line.as_bytes());
    written.expect("stderr is open");
}

/// The test that has a process of its own.
const ALONE: &str = "CANDLE_ROCM_ALONE";

/// Runs a test of this program once more, by itself in a process with these environment variables, and panics if it
/// fails there. True in that process: only there the rest of the test is to be done.
pub(crate) fn is_alone(module: &str, test: &str, variables: &[(&str, &str)]) -> bool {
    if std::env::var(ALONE).is_ok_and(|name| name == test) {
        return true;
    }
    let (_, path) = module.split_once("::").expect("tests are in modules");
    let mut again = Command::new(std::env::current_exe().expect("this program has a path"));
    again.args([&format!("{path}::{test}"), "--exact", "--nocapture"]);
    // The record of what this process does with the device has no place for others, which see other devices.
    again.env_remove("CANDLE_ROCM_RECORD").env(ALONE, test);
    again.envs(variables.iter().copied());
    let output = again.output().expect("the program starts once more");
    let text = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    let passed = output.status.success() && text.contains("test result: ok. 1 passed");
    assert!(
        passed && !said.contains("SKIPPED"),
        "{}\n{text}\n{said}",
        output.status
    );
    false
}

/// With which matrices are multiplied by a kernel of our own.
pub(crate) const OWN_PRODUCTS: [(&str, &str); 1] = [("CANDLE_ROCM_BLAS", "own")];

/// Whether rocBLAS multiplies here. Where the user has chosen otherwise, the test is done in a process without that.
pub(crate) fn by_rocblas(module: &str, test: &str) -> bool {
    let [(variable, own)] = OWN_PRODUCTS;
    std::env::var(variable).as_deref() != Ok(own)
        || is_alone(module, test, &[(variable, "rocblas")])
}

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

/// Whether the device is the emulated one.
pub(crate) fn is_emulated() -> bool {
    counter::Counter::find().is_some()
}

/// The functions with which the emulated device counts calls (docs/emulator.md of candle-rocm).
#[cfg(target_os = "linux")]
mod counter {
    use std::ffi::{c_char, c_int, c_void, CString};

    #[link(name = "dl")]
    extern "C" {
        fn dlopen(file: *const c_char, flags: c_int) -> *mut c_void;
        fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    }

    const RTLD_NOW: c_int = 2;

    pub(super) struct Counter {
        start: unsafe extern "C" fn(),
        stop: unsafe extern "C" fn(),
        count: unsafe extern "C" fn(*const c_char) -> i64,
    }

    impl Counter {
        /// In the HIP runtime that this process has loaded; `None` if that is another one.
        pub(super) fn find() -> Option<Self> {
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
mod counter {
    pub(super) struct Counter;

    impl Counter {
        pub(super) fn find() -> Option<Self> {
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

/// A launch of one of our kernels, or a product by rocBLAS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Launched {
    pub(crate) kernel: String,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 2],
    pub(crate) lds: u32,
}

impl Launched {
    /// A call of rocBLAS: rows, columns and products for a grid.
    pub(crate) fn product(product: &Product) -> Self {
        Self {
            kernel: "product".into(),
            grid: [product.m, product.n, product.batch].map(|number| number as u32),
            ..Self::default()
        }
    }
}

thread_local! {
    static LAUNCHES: RefCell<Vec<Launched>> = const { RefCell::new(Vec::new()) };
}

/// What `work` launches from this thread, in order.
pub(crate) fn launches_of<T>(work: impl FnOnce() -> T) -> (T, Vec<Launched>) {
    LAUNCHES.take();
    let result = work();
    (result, LAUNCHES.take())
}

/// How many blocks of memory `work` takes on a device whose stream nobody else has.
pub(crate) fn allocations_of<T>(device: &RocmDevice, work: impl FnOnce() -> T) -> (T, u64) {
    let count = || {
        let stats = device.memory_stats();
        stats.device_allocations + stats.reuses
    };
    let before = count();
    let result = work();
    (result, count() - before)
}

/// A device that plans take for another card, or that has other limits.
pub(crate) struct Disguised<'a> {
    pub(crate) device: &'a RocmDevice,
    pub(crate) card: Card,
    pub(crate) limits: Limits,
}

impl<'a> Disguised<'a> {
    /// With the limits that users have.
    pub(crate) fn as_usual(device: &'a RocmDevice) -> Self {
        Self {
            device,
            card: device.card(),
            limits: Limits::USUAL,
        }
    }
}

impl Launcher for Disguised<'_> {
    type Error = RocmError;
    type Workspace = DeviceMemory;

    fn tuning(&self) -> Tuning {
        self.device.tuning()
    }

    fn card(&self) -> Card {
        self.card
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    fn workspace(&self, bytes: usize) -> HipResult<(DeviceMemory, Pointer)> {
        self.device.workspace(bytes)
    }

    unsafe fn enqueue(&self, launch: Launch<'_, Self>) -> HipResult<()> {
        // SAFETY: the caller answers.
        unsafe { self.device.enqueue(launch.through(self.device)) }
    }
}

/// Called for every launch.
pub(crate) fn record(launch: Launched) {
    LAUNCHES.with_borrow_mut(|launches| launches.push(launch));
}
