//! Checks a ROCm installation from end to end: compiles a kernel with hipcc, runs it on GPU 0 and checks the result.
//!
//! ```text
//! cargo run -p candle-core --features rocm --example rocm_smoke
//! ```
//!
//! Exit status: 0 when the results are right, 1 when a step failed (the message says which, and what to do), 77 when
//! there is no device to run on.
use rocm_rs::hip::bindings;
use std::ffi::{c_int, c_uint, c_void, CStr, CString};
use std::mem::{size_of, size_of_val, MaybeUninit};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::ptr::addr_of_mut;

// The HIP library, or its stand-in, comes with this crate.
use candle_core as _;

const SKIPPED: u8 = 77;
const BLOCK: usize = 256;
/// A prime, so that the last block is not full.
const LENGTH: usize = 1_000_003;

const KERNEL: &str = r#"#include <hip/hip_runtime.h>

extern "C" __global__ void vector_add(const float* __restrict__ a, const float* __restrict__ b,
                                      float* __restrict__ sum, unsigned int length) {
    const unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < length) {
        sum[i] = a[i] + b[i];
    }
}
"#;

/// A step that failed, why, and what to do about it.
struct Failure {
    step: &'static str,
    cause: String,
    remedy: &'static str,
}

type Result<T> = std::result::Result<T, Failure>;

fn main() -> ExitCode {
    match device_count() {
        Ok(0) => {
            println!("SKIPPED: no ROCm device (hipErrorNoDevice)");
            return ExitCode::from(SKIPPED);
        }
        Ok(count) => println!("devices: {count}"),
        Err(failure) => return report(&failure),
    }
    match smoke() {
        Ok(()) => {
            println!("OK: {LENGTH} sums are right");
            ExitCode::SUCCESS
        }
        Err(failure) => report(&failure),
    }
}

fn report(failure: &Failure) -> ExitCode {
    eprintln!("FAILED: {}: {}", failure.step, failure.cause);
    eprintln!("  help: {}", failure.remedy);
    ExitCode::FAILURE
}

fn smoke() -> Result<()> {
    // SAFETY: device 0 exists, and HIP checks it.
    let selected = unsafe { bindings::hipSetDevice(0) };
    hip(
        "select GPU 0",
        selected,
        "Check that your user is in the groups render and video.",
    )?;
    let arch = architecture()?;
    println!("architecture: {arch}");
    let folder = TemporaryFolder::new()?;
    let code_object = compile(&folder.0, &arch)?;
    let module = Module::load(&code_object)?;
    run(&module)
}

fn device_count() -> Result<c_int> {
    let mut count = 0;
    // SAFETY: `count` lives through the call.
    let status = unsafe { bindings::hipGetDeviceCount(&mut count) };
    if status == bindings::hipError_t_hipErrorNoDevice {
        return Ok(0);
    }
    hip(
        "count the devices",
        status,
        "Check that the amdgpu driver is loaded and /dev/kfd exists; `rocminfo` shows more.",
    )?;
    Ok(count)
}

/// The compiler's name for GPU 0, such as gfx90a:sramecc+:xnack-.
fn architecture() -> Result<String> {
    let mut properties = MaybeUninit::<bindings::hipDeviceProp_tR0600>::zeroed();
    // SAFETY: `properties` lives through the call and has the layout that R0600 stands for.
    let status = unsafe { bindings::hipGetDevicePropertiesR0600(properties.as_mut_ptr(), 0) };
    hip(
        "ask for the architecture",
        status,
        "The runtime must be of ROCm 6.0 or later.",
    )?;
    // SAFETY: the fields are integers and arrays of them; HIP ends the name with a NUL.
    let name = unsafe { CStr::from_ptr(properties.assume_init_ref().gcnArchName.as_ptr()) };
    Ok(name.to_string_lossy().into_owned())
}

/// A folder that goes away with this value.
struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    fn new() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("candle-rocm-smoke-{}", std::process::id()));
        std::fs::create_dir_all(&path).map_err(|error| Failure {
            step: "make a temporary folder",
            cause: format!("{}: {error}", path.display()),
            remedy: "Set TMPDIR to a folder that you can write to.",
        })?;
        Ok(Self(path))
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn compile(folder: &Path, arch: &str) -> Result<PathBuf> {
    let source = folder.join("vector_add.hip");
    let code_object = folder.join("vector_add.hsaco");
    std::fs::write(&source, KERNEL).map_err(|error| Failure {
        step: "write the kernel's source",
        cause: format!("{}: {error}", source.display()),
        remedy: "Set TMPDIR to a folder with free space.",
    })?;
    let hipcc = hipcc();
    let output = Command::new(&hipcc)
        .args(["--genco", "-O3"])
        .arg(format!("--offload-arch={arch}"))
        .arg(&source)
        .arg("-o")
        .arg(&code_object)
        .output()
        .map_err(|error| Failure {
            step: "start hipcc",
            cause: format!("{}: {error}", hipcc.display()),
            remedy: "Install hipcc (packages rocm-dev or hipcc), or set ROCM_PATH or HIPCC.",
        })?;
    if !output.status.success() {
        return Err(Failure {
            step: "compile the kernel",
            cause: format!(
                "{}\n{}",
                output.status,
                String::from_utf8_lossy(&output.stderr).trim_end()
            ),
            remedy: "hipcc must know the architecture: `hipcc --version` says which ROCm it is of.",
        });
    }
    Ok(code_object)
}

/// `$HIPCC`, the one of `$ROCM_PATH` or `$HIP_PATH`, or the first in `$PATH`.
fn hipcc() -> PathBuf {
    if let Some(path) = std::env::var_os("HIPCC") {
        return path.into();
    }
    ["ROCM_PATH", "HIP_PATH"]
        .into_iter()
        .filter_map(std::env::var_os)
        .map(|root| Path::new(&root).join("bin/hipcc"))
        .find(|path| path.is_file())
        .unwrap_or_else(|| "hipcc".into())
}

/// A code object on the device.
struct Module(bindings::hipModule_t);

impl Module {
    fn load(path: &Path) -> Result<Self> {
        let name = CString::new(path.as_os_str().as_encoded_bytes()).map_err(|error| Failure {
            step: "load the code object",
            cause: format!("{}: {error}", path.display()),
            remedy: "Set TMPDIR to a folder without a NUL in its name.",
        })?;
        let mut module = std::ptr::null_mut();
        // SAFETY: `module` and `name` live through the call.
        let status = unsafe { bindings::hipModuleLoad(&mut module, name.as_ptr()) };
        hip(
            "load the code object",
            status,
            "hipcc and the HIP runtime must be of the same ROCm release.",
        )?;
        Ok(Self(module))
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: loaded by `load`, and nothing of it runs any more.
        let _ = unsafe { bindings::hipModuleUnload(self.0) };
    }
}

/// A vector of f32 on the device.
struct Vector {
    ptr: *mut c_void,
    length: usize,
}

impl Vector {
    fn new(length: usize) -> Result<Self> {
        let mut ptr = std::ptr::null_mut();
        // SAFETY: `ptr` lives through the call.
        let status = unsafe { bindings::hipMalloc(&mut ptr, length * size_of::<f32>()) };
        hip(
            "allocate device memory",
            status,
            "Other processes may hold the GPU's memory; `rocm-smi` shows them.",
        )?;
        Ok(Self { ptr, length })
    }

    fn of(values: &[f32]) -> Result<Self> {
        let vector = Self::new(values.len())?;
        // SAFETY: both sides have the length of `values`.
        let status = unsafe {
            bindings::hipMemcpy(
                vector.ptr,
                values.as_ptr().cast(),
                size_of_val(values),
                bindings::hipMemcpyKind_hipMemcpyHostToDevice,
            )
        };
        hip("copy to the device", status, "See `dmesg` for GPU faults.")?;
        Ok(vector)
    }

    fn to_vec(&self) -> Result<Vec<f32>> {
        let mut values = vec![0f32; self.length];
        // SAFETY: both sides have the length of `values`.
        let status = unsafe {
            bindings::hipMemcpy(
                values.as_mut_ptr().cast(),
                self.ptr,
                size_of_val(values.as_slice()),
                bindings::hipMemcpyKind_hipMemcpyDeviceToHost,
            )
        };
        hip(
            "copy from the device",
            status,
            "See `dmesg` for GPU faults.",
        )?;
        Ok(values)
    }
}

impl Drop for Vector {
    fn drop(&mut self) {
        // SAFETY: allocated by `new`, and nobody has it any more.
        let _ = unsafe { bindings::hipFree(self.ptr) };
    }
}

fn run(module: &Module) -> Result<()> {
    let a: Vec<f32> = (0..LENGTH).map(|i| (i % 1000) as f32).collect();
    let b: Vec<f32> = (0..LENGTH).map(|i| (i % 777) as f32 * 0.5).collect();
    let (a_device, b_device, sum) = (Vector::of(&a)?, Vector::of(&b)?, Vector::new(LENGTH)?);
    launch(module, &a_device, &b_device, &sum)?;
    // Sums of such numbers are exact.
    let expected = a.iter().zip(&b).map(|(a, b)| a + b);
    let wrong = sum
        .to_vec()?
        .into_iter()
        .zip(expected)
        .enumerate()
        .find(|(_, (got, expected))| got != expected);
    match wrong {
        None => Ok(()),
        Some((index, (got, expected))) => Err(Failure {
            step: "check the sums",
            cause: format!("element {index} is {got}, expected {expected}"),
            remedy: "Unset HSA_OVERRIDE_GFX_VERSION: the kernel may run as another architecture than it was made for.",
        }),
    }
}

fn launch(module: &Module, a: &Vector, b: &Vector, sum: &Vector) -> Result<()> {
    let mut function = std::ptr::null_mut();
    // SAFETY: `function` lives through the call, `module` as long as the function is used.
    let status =
        unsafe { bindings::hipModuleGetFunction(&mut function, module.0, c"vector_add".as_ptr()) };
    hip(
        "find the kernel",
        status,
        "hipcc and the HIP runtime must be of the same ROCm release.",
    )?;
    let (mut a, mut b, mut sum, mut length) = (a.ptr, b.ptr, sum.ptr, LENGTH as c_uint);
    let mut arguments: [*mut c_void; 4] = [
        addr_of_mut!(a).cast(),
        addr_of_mut!(b).cast(),
        addr_of_mut!(sum).cast(),
        addr_of_mut!(length).cast(),
    ];
    let blocks = LENGTH.div_ceil(BLOCK) as c_uint;
    // SAFETY: the arguments are the kernel's parameters in type and order, each vector has LENGTH elements, and the
    // kernel is done before any of them is freed: the caller copies the sums back first.
    let status = unsafe {
        bindings::hipModuleLaunchKernel(
            function,
            blocks,
            1,
            1,
            BLOCK as c_uint,
            1,
            1,
            0,
            std::ptr::null_mut(),
            arguments.as_mut_ptr(),
            std::ptr::null_mut(),
        )
    };
    hip("launch the kernel", status, "See `dmesg` for GPU faults.")?;
    // SAFETY: takes nothing.
    let status = unsafe { bindings::hipDeviceSynchronize() };
    hip("run the kernel", status, "See `dmesg` for GPU faults.")
}

/// `Ok` for `hipSuccess`.
fn hip(step: &'static str, status: bindings::hipError_t, remedy: &'static str) -> Result<()> {
    if status == bindings::hipError_t_hipSuccess {
        return Ok(());
    }
    // SAFETY: both functions take any status and return static strings.
    let (name, text) = unsafe {
        (
            CStr::from_ptr(bindings::hipGetErrorName(status)),
            CStr::from_ptr(bindings::hipGetErrorString(status)),
        )
    };
    Err(Failure {
        step,
        cause: format!(
            "{} ({status}): {}",
            name.to_string_lossy(),
            text.to_string_lossy()
        ),
        remedy,
    })
}
