//! The exported functions, called as programs call them, on two devices: one with waves of 32 lanes, one of 64.

mod devices;
mod faults;
mod memory;
mod modules;
mod pools;
mod streams;

use std::ffi::{CString, c_int, c_uint, c_void};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use api::amdhip64::*;
use candle_rocm_emulator_runtime::compile::{self, Source};
use candle_rocm_emulator_runtime::machine;
use candle_rocm_emulator_runtime::memory::POISON;
use candle_rocm_emulator_runtime::model::Model;
use candle_rocm_emulator_runtime::report;

use crate::device::hipSetDevice;
use crate::emulator::candle_rocm_emulator_peek;
use crate::launch::hipModuleLaunchKernel;
use crate::memory::{hipFree, hipMalloc, hipMemcpy};
use crate::module::{hipModuleGetFunction, hipModuleLoadData, hipModuleUnload};
use crate::stream::{hipDeviceSynchronize, hipStreamCreateWithFlags, hipStreamDestroy};

const INVALID_VALUE: hipError_t = 1;
const OUT_OF_MEMORY: hipError_t = 2;
const INVALID_DEVICE: hipError_t = 101;
const INVALID_HANDLE: hipError_t = 400;
const NOT_FOUND: hipError_t = 500;
const NOT_READY: hipError_t = 600;
const ILLEGAL_ADDRESS: hipError_t = 700;
const LAUNCH_FAILURE: hipError_t = 719;

const MODELS: [&str; 2] = ["gfx1100", "gfx90a"];

extern "C" fn choose_devices() {
    // SAFETY: before `main` there is one thread.
    unsafe { std::env::set_var("CANDLE_ROCM_EMULATOR_DEVICES", MODELS.join(",")) };
}

#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = choose_devices;

/// The machine for one test at a time: both devices healthy, the first one current.
struct Session(#[allow(dead_code, reason = "held")] MutexGuard<'static, ()>);

fn session() -> Session {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let session = Session(ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner));
    session.on(0);
    machine::reset();
    session
}

impl Drop for Session {
    fn drop(&mut self) {
        for device in 0..MODELS.len() {
            let _ = machine::synchronize_device(device);
        }
        machine::reset();
    }
}

impl Session {
    /// Makes a device current.
    fn on(&self, device: c_int) {
        // SAFETY: a plain call.
        assert_eq!(unsafe { hipSetDevice(device) }, hipSuccess);
    }

    /// The code and the report with which the current device's work fails; it is healthy afterwards.
    fn fault(&self) -> (hipError_t, String) {
        // SAFETY: a plain call.
        let code = unsafe { hipDeviceSynchronize() };
        let text = report::last_report().map_or(String::new(), |text| text.into_string().expect("UTF-8"));
        machine::reset();
        (code, text)
    }
}

/// What a function writes through a pointer.
fn written<T>(function: impl FnOnce(*mut T) -> hipError_t) -> Result<T, hipError_t> {
    let mut value = MaybeUninit::uninit();
    match function(value.as_mut_ptr()) {
        // SAFETY: it says that it has written it.
        0 => Ok(unsafe { value.assume_init() }),
        code => Err(code),
    }
}

/// Memory of a device, freed when dropped.
struct Buffer {
    address: usize,
    size: usize,
}

impl Buffer {
    fn new(size: usize) -> Self {
        // SAFETY: a valid pointer.
        let pointer = written(|pointer| unsafe { hipMalloc(pointer, size) }).expect("there is memory");
        Self { address: pointer as usize, size }
    }

    fn of<T: Copy>(values: &[T]) -> Self {
        let buffer = Self::new(size_of_val(values));
        // SAFETY: both ranges have that size.
        let code = unsafe { hipMemcpy(buffer.pointer(), values.as_ptr().cast(), buffer.size, hipMemcpyHostToDevice) };
        assert_eq!(code, hipSuccess);
        buffer
    }

    fn pointer(&self) -> *mut c_void {
        self.address as *mut c_void
    }

    fn at(&self, offset: usize) -> *mut c_void {
        (self.address + offset) as *mut c_void
    }

    /// Its bytes once the device is done.
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.size];
        // SAFETY: both ranges have that size.
        let code = unsafe { hipMemcpy(bytes.as_mut_ptr().cast(), self.pointer(), self.size, hipMemcpyDeviceToHost) };
        assert_eq!(code, hipSuccess);
        bytes
    }

    fn ints(&self) -> Vec<i32> {
        self.bytes().as_chunks().0.iter().map(|bytes| i32::from_ne_bytes(*bytes)).collect()
    }

    /// Its bytes now, whatever waits.
    fn now(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.size];
        // SAFETY: there is room.
        assert_eq!(unsafe { candle_rocm_emulator_peek(bytes.as_mut_ptr(), self.address, self.size) }, 1);
        bytes
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: it was allocated. A test may have freed it.
        let _ = unsafe { hipFree(self.pointer()) };
    }
}

fn poison(size: usize) -> Vec<u8> {
    vec![POISON; size]
}

/// A stream of the current device that keeps no order with the null stream.
fn stream() -> hipStream_t {
    // SAFETY: a valid pointer.
    written(|stream| unsafe { hipStreamCreateWithFlags(stream, hipStreamNonBlocking) }).expect("flags that there are")
}

fn destroy(stream: hipStream_t) {
    // SAFETY: a stream of the test's own.
    assert_eq!(unsafe { hipStreamDestroy(stream) }, hipSuccess);
}

/// The code object of a source for a device.
fn compiled(source: &str, device: usize) -> Vec<u8> {
    let source = Source { name: "test.hip".to_owned(), text: source.to_owned(), ..Source::default() };
    let outcome = compile::compile(&source, Model::named(MODELS[device]));
    outcome.code.unwrap_or_else(|| panic!("{}", outcome.log))
}

/// A module of a device, which is the current one from then on; unloaded when dropped.
struct Module(hipModule_t);

impl Module {
    fn new(session: &Session, source: &str, device: usize) -> Self {
        session.on(device as c_int);
        let code = compiled(source, device);
        // SAFETY: a whole code object.
        Self(written(|module| unsafe { hipModuleLoadData(module, code.as_ptr().cast()) }).expect("it is compiled"))
    }

    fn function(&self, name: &str) -> hipFunction_t {
        let name = CString::new(name).expect("no zeros");
        // SAFETY: valid pointers.
        written(|function| unsafe { hipModuleGetFunction(function, self.0, name.as_ptr()) }).expect("it is there")
    }

    /// Launches a kernel whose parameters are all pointers or 64-bit numbers, on the null stream.
    fn launch(&self, name: &str, grid: [c_uint; 3], block: [c_uint; 3], arguments: &[usize]) -> hipError_t {
        launch(self.function(name), grid, block, 0, ptr::null_mut(), arguments)
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: it was loaded. A test may have unloaded it.
        let _ = unsafe { hipModuleUnload(self.0) };
    }
}

fn launch(
    function: hipFunction_t,
    [grid_x, grid_y, grid_z]: [c_uint; 3],
    [block_x, block_y, block_z]: [c_uint; 3],
    lds: c_uint,
    stream: hipStream_t,
    arguments: &[usize],
) -> hipError_t {
    let mut pointers: Vec<_> = arguments.iter().map(|value| ptr::from_ref(value).cast_mut().cast::<c_void>()).collect();
    // SAFETY: a pointer for each parameter.
    unsafe {
        hipModuleLaunchKernel(
            function,
            grid_x,
            grid_y,
            grid_z,
            block_x,
            block_y,
            block_z,
            lds,
            stream,
            pointers.as_mut_ptr(),
            ptr::null_mut(),
        )
    }
}
