//! Kernels that users write in HIP, for custom ops. The dummy backend has the same types, with nothing in them.
//!
//! [`RocmDevice::get_or_load_custom_func`] finds a kernel in HIP source or in a code object, [`RocmFunc::builder`] takes
//! its arguments, and [`LaunchArgs::launch`] queues it on the device's stream, behind the work of the tensors that it
//! reads. A complete custom op is in `candle-core/examples/rocm_custom_kernel.rs`.
use super::kernels;
use super::slice::{DevicePtr, DeviceRepr, DeviceSlice, RocmSlice, RocmView, RocmViewMut};
use super::stream::RocmStream;
use super::{RocmDevice, RocmError};
use crate::Result;
use std::ffi::c_void;
use std::ops::Deref;
use std::sync::Arc;

/// Threads of a block where the caller has no wish: whole waves of 32 and of 64 lanes, several of each.
const THREADS: u32 = 256;

/// The most threads of a grid in one dimension, all blocks together
/// (<https://rocm.docs.amd.com/projects/HIP/en/latest/reference/hip_runtime_api/modules/launch_api.html>).
const MAX_THREADS: u64 = u32::MAX as u64;

/// What [`RocmDevice::get_or_load_custom_func`] makes a module of.
#[derive(Debug, Clone, Copy)]
pub enum RocmSource<'a> {
    /// A HIP program, which is compiled for the device.
    Hip(&'a str),
    /// Code objects, or bundles of them, as `hipcc --genco` writes them, each with its architecture: the first one for
    /// the device is taken. "gfx90a" stands for all of its kinds, "gfx90a:xnack-" for one.
    Code(&'a [(&'a str, &'a [u8])]),
}

/// A compiled HIP program on one device. Clones share it. It is `Send` and `Sync`: nothing changes a loaded program.
#[derive(Debug, Clone)]
pub struct RocmModule {
    module: Arc<kernels::Module>,
    device: RocmDevice,
}

/// A kernel of a [`RocmModule`], which it keeps loaded. It is `Send` and `Sync`, as that is.
#[derive(Debug, Clone)]
pub struct RocmFunction {
    function: kernels::Function,
    /// What it takes, if its code says so: AMD's does.
    parameters: Option<Arc<[kernels::Parameter]>>,
    module: RocmModule,
}

/// A [`RocmFunction`] and the stream that it runs on.
#[derive(Debug, Clone)]
pub struct RocmFunc {
    function: RocmFunction,
    stream: Arc<RocmStream>,
}

/// How many threads run a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaunchConfig {
    /// Blocks in x, y and z.
    pub grid_dim: (u32, u32, u32),
    /// Threads of a block in x, y and z.
    pub block_dim: (u32, u32, u32),
    /// Bytes of `extern __shared__` memory for each block.
    pub shared_mem_bytes: u32,
}

/// A launch in the making: a kernel, a stream, and the arguments so far.
#[derive(Debug)]
pub struct LaunchArgs<'a> {
    function: &'a RocmFunction,
    stream: &'a RocmStream,
    values: Vec<Value>,
    /// Of memory that has another stream than the launch.
    streams: Vec<&'a RocmStream>,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Value {
    /// The argument itself.
    Address(u64),
    /// Where the argument is, on the host, and how many bytes it has.
    Place(*const c_void, usize),
}

/// What a kernel takes as an argument: a reference to memory, for which the kernel declares a pointer, or to a value, for
/// which it declares the value's type.
pub trait PushKernelArg<T> {
    fn arg(&mut self, arg: T) -> &mut Self;
}

impl<'a> From<&'a str> for RocmSource<'a> {
    fn from(source: &'a str) -> Self {
        Self::Hip(source)
    }
}

impl<'a> From<&'a String> for RocmSource<'a> {
    fn from(source: &'a String) -> Self {
        Self::Hip(source)
    }
}

impl<'a> From<&'a [(&'a str, &'a [u8])]> for RocmSource<'a> {
    fn from(objects: &'a [(&'a str, &'a [u8])]) -> Self {
        Self::Code(objects)
    }
}

impl RocmDevice {
    /// The kernel `fn_name` of a program. What was compiled once is taken from the disk cache by later processes; within
    /// one the latest programs stay loaded on their GPU, so that calling this again costs next to nothing.
    ///
    /// Kernels are found by name if they are `extern "C" __global__`. `module_name` is for error messages, and stands for
    /// a file name.
    pub fn get_or_load_custom_func<'a>(
        &self,
        fn_name: &str,
        module_name: &str,
        source: impl Into<RocmSource<'a>>,
    ) -> Result<RocmFunc> {
        let function = self.load_module(module_name, source)?.function(fn_name)?;
        let stream = self.rocm_stream();
        Ok(RocmFunc { function, stream })
    }

    /// As [`RocmDevice::get_or_load_custom_func`], for a program with several kernels.
    pub fn load_module<'a>(
        &self,
        module_name: &str,
        source: impl Into<RocmSource<'a>>,
    ) -> Result<RocmModule> {
        Ok(RocmModule {
            module: self.custom_module(module_name, source.into())?,
            device: self.clone(),
        })
    }
}

impl RocmModule {
    /// The kernel with that name.
    pub fn function(&self, name: &str) -> Result<RocmFunction> {
        Ok(RocmFunction {
            function: self.module.function(name)?,
            parameters: self.module.parameters(name),
            module: self.clone(),
        })
    }

    /// The device that the program was compiled for.
    pub fn device(&self) -> &RocmDevice {
        &self.device
    }
}

impl RocmFunc {
    /// A launch on the device's stream.
    pub fn builder(&self) -> LaunchArgs<'_> {
        self.stream.launch_builder(&self.function)
    }

    /// The kernel, for launches on any stream of its GPU.
    pub fn into_rocm_function(self) -> RocmFunction {
        self.function
    }
}

impl Deref for RocmFunc {
    type Target = RocmFunction;

    fn deref(&self) -> &RocmFunction {
        &self.function
    }
}

impl RocmStream {
    /// A launch of a kernel on this stream, which is one of the kernel's GPU.
    pub fn launch_builder<'a>(&'a self, function: &'a RocmFunction) -> LaunchArgs<'a> {
        LaunchArgs {
            function,
            stream: self,
            values: Vec::new(),
            streams: Vec::new(),
        }
    }
}

impl<'a> LaunchArgs<'a> {
    /// Queues the kernel, and returns at once.
    ///
    /// It comes after what the streams of its memory have queued, and before what they queue from now on. Memory and
    /// streams of other GPUs than the kernel's are refused, and so are launches without threads and, on AMD GPUs,
    /// arguments of another number or size than the kernel's code says.
    ///
    /// # Safety
    /// The arguments are as many as the kernel has parameters, in their order and of their types, and the kernel stays
    /// within the memory that they point to.
    pub unsafe fn launch(&mut self, config: LaunchConfig) -> std::result::Result<(), RocmError> {
        let (grid, block) = (sizes(config.grid_dim), sizes(config.block_dim));
        for (blocks, threads) in grid.into_iter().zip(block) {
            if u64::from(blocks) * u64::from(threads) > MAX_THREADS {
                let message = format!("a kernel launch has fewer than 2^32 threads: {config:?}");
                return Err(RocmError::Other(message));
            }
        }
        if grid.contains(&0) || block.contains(&0) {
            let message = format!("a kernel launch needs at least one thread: {config:?}");
            return Err(RocmError::Other(message));
        }
        if let Some(parameters) = &self.function.parameters {
            check(parameters, &self.values)?;
        }
        let device = self.function.module.device();
        for stream in std::iter::once(self.stream).chain(self.streams.iter().copied()) {
            if stream.ordinal() != device.ordinal() {
                let (found, own) = (stream.ordinal(), device.ordinal());
                let message =
                    format!("a kernel of device {own} with a stream or memory of {found}");
                return Err(RocmError::Other(message));
            }
        }
        let values = self.values.iter().map(Value::place);
        let mut places: Vec<*mut c_void> = values.collect();
        for stream in &self.streams {
            self.stream.join(stream)?;
        }
        let lds = config.shared_mem_bytes;
        // SAFETY: the caller's promise; the values, and what they borrow, live through the call.
        let done = unsafe {
            let function = self.function.function;
            function.enqueue_on(self.stream, grid, block, lds, &mut places)
        };
        for stream in &self.streams {
            stream.join(self.stream)?;
        }
        done
    }

    fn memory<T>(&mut self, memory: &impl DevicePtr<T>, stream: &'a RocmStream) -> &mut Self {
        // In order with the stream of the memory itself; `launch` does the rest.
        let (address, _) = memory.device_ptr(stream);
        self.values.push(Value::Address(address));
        if stream != self.stream && !self.streams.contains(&stream) {
            self.streams.push(stream);
        }
        self
    }
}

/// Whether the arguments are as many and as large as the kernel's parameters.
pub(super) fn check(
    parameters: &[kernels::Parameter],
    values: &[Value],
) -> std::result::Result<(), RocmError> {
    if parameters.len() != values.len() {
        let (takes, gets) = (parameters.len(), values.len());
        let message = format!("a kernel takes {takes} arguments, and gets {gets}");
        return Err(RocmError::Other(message));
    }
    for (number, (parameter, value)) in parameters.iter().zip(values).enumerate() {
        let size = parameter.size;
        let problem = match value {
            // Also an address that is passed as a number.
            Value::Place(_, found) if *found == size => continue,
            Value::Address(_) if parameter.is_memory => continue,
            Value::Address(_) => format!("is a value of {size} bytes, and gets memory"),
            Value::Place(_, found) if parameter.is_memory => {
                format!("is memory, and gets a value of {found} bytes")
            }
            Value::Place(_, found) => format!("has {size} bytes, and gets {found}"),
        };
        let message = format!("argument {number} of a kernel {problem}; the first one is 0");
        return Err(RocmError::Other(message));
    }
    Ok(())
}

pub(super) fn sizes((x, y, z): (u32, u32, u32)) -> [u32; 3] {
    [x, y, z]
}

impl<'a, T: DeviceRepr> PushKernelArg<&'a T> for LaunchArgs<'a> {
    fn arg(&mut self, arg: &'a T) -> &mut Self {
        let place = std::ptr::from_ref(arg).cast();
        self.values.push(Value::Place(place, size_of::<T>()));
        self
    }
}

impl<'a, T> PushKernelArg<&'a RocmSlice<T>> for LaunchArgs<'a> {
    fn arg(&mut self, arg: &'a RocmSlice<T>) -> &mut Self {
        self.memory(arg, arg.stream())
    }
}

impl<'a, T> PushKernelArg<&'a mut RocmSlice<T>> for LaunchArgs<'a> {
    fn arg(&mut self, arg: &'a mut RocmSlice<T>) -> &mut Self {
        let arg: &'a RocmSlice<T> = arg;
        self.memory(arg, arg.stream())
    }
}

impl<'a, T> PushKernelArg<&'a RocmView<'_, T>> for LaunchArgs<'a> {
    fn arg(&mut self, arg: &'a RocmView<'_, T>) -> &mut Self {
        self.memory(arg, arg.stream())
    }
}

impl<'a, T> PushKernelArg<&'a mut RocmViewMut<'_, T>> for LaunchArgs<'a> {
    fn arg(&mut self, arg: &'a mut RocmViewMut<'_, T>) -> &mut Self {
        let arg: &'a RocmViewMut<'_, T> = arg;
        self.memory(arg, arg.stream())
    }
}

impl LaunchConfig {
    /// One thread in x for each of `n` elements, rounded up to whole blocks: the kernel has to leave out the rest.
    pub fn for_num_elems(n: u32) -> Self {
        Self {
            grid_dim: (n.div_ceil(THREADS), 1, 1),
            block_dim: (THREADS, 1, 1),
            shared_mem_bytes: 0,
        }
    }
}

impl Value {
    /// Where HIP finds the argument.
    fn place(&self) -> *mut c_void {
        match self {
            Self::Address(address) => std::ptr::from_ref(address).cast_mut().cast(),
            Self::Place(place, _) => place.cast_mut(),
        }
    }
}
