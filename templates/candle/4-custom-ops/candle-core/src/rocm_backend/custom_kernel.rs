//! Kernels that users write in HIP, for custom ops.
//!
//! [`RocmDevice::compile`] makes a [`RocmModule`] of HIP source, [`RocmModule::function`] finds a kernel in it, and
//! [`RocmFunction::launch`] queues it on the device's stream, behind the work of the tensors that it reads. A complete
//! custom op is in `candle-core/examples/rocm_custom_kernel.rs`.
use super::{kernels, DeviceMemory, RocmDevice, RocmError};
use crate::Result;
use std::ffi::c_void;
use std::marker::PhantomData;
use std::sync::Arc;

/// Threads of a block where the caller has no wish: whole waves of 32 and of 64 lanes, several of each.
const THREADS: u32 = 256;

/// The most threads of a grid in one dimension, all blocks together
/// (<https://rocm.docs.amd.com/projects/HIP/en/latest/reference/hip_runtime_api/modules/launch_api.html>).
const MAX_THREADS: usize = u32::MAX as usize;

/// A compiled HIP program on one device. Clones share it.
#[derive(Clone)]
pub struct RocmModule {
    module: Arc<kernels::Module>,
    device: RocmDevice,
}

/// A kernel of a [`RocmModule`], which it keeps loaded.
#[derive(Clone)]
pub struct RocmFunction {
    function: kernels::Function,
    module: RocmModule,
}

/// How many threads run a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaunchConfig {
    /// Blocks in x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y and z.
    pub block: [u32; 3],
    /// Bytes of `extern __shared__` memory for each block.
    pub shared: u32,
}

/// One argument of a kernel. The kernel declares a pointer for memory, and the value's own type otherwise.
#[derive(Debug, Clone, Copy)]
pub struct KernelArg<'a> {
    value: Value,
    borrowed: PhantomData<&'a ()>,
}

#[derive(Debug, Clone, Copy)]
enum Value {
    /// The argument itself.
    Address(*mut c_void),
    /// Where the argument is, on the host.
    Place(*mut c_void),
}

impl RocmDevice {
    /// Compiles HIP source for this device; `name` is for error messages and stands for a file name.
    ///
    /// Kernels are found by name if they are `extern "C" __global__`. What was compiled once is taken from the disk
    /// cache by later processes. Within one the latest sources stay loaded on their GPU, so that calling this again
    /// costs next to nothing.
    pub fn compile(&self, name: &str, source: &str) -> Result<RocmModule> {
        self.gpu().make_current()?;
        let kernels = self.gpu().kernels();
        let compile = || kernels.compile(name, source);
        Ok(RocmModule {
            module: self.queue().with_room(compile)?,
            device: self.clone(),
        })
    }
}

impl RocmModule {
    /// The kernel with that name.
    pub fn function(&self, name: &str) -> Result<RocmFunction> {
        Ok(RocmFunction {
            function: self.module.function(name)?,
            module: self.clone(),
        })
    }

    /// The device that the program was compiled for.
    pub fn device(&self) -> &RocmDevice {
        &self.device
    }
}

impl RocmFunction {
    /// Queues the kernel on the stream of the module's device, and returns at once.
    ///
    /// # Safety
    /// The arguments are as many as the kernel has parameters, in their order and of their types, and the kernel stays
    /// within the memory that they point to. All memory is on the module's device and was made by it or a clone.
    pub unsafe fn launch(&self, config: LaunchConfig, args: &[KernelArg<'_>]) -> Result<()> {
        let LaunchConfig {
            grid,
            block,
            shared,
        } = config;
        if grid.contains(&0) || block.contains(&0) {
            let message = format!("a kernel launch needs at least one thread: {config:?}");
            return Err(RocmError::Other(message).into());
        }
        let mut places: Vec<*mut c_void> = args.iter().map(KernelArg::place).collect();
        let device = self.module.device();
        device.gpu().make_current()?;
        let stream = device.stream().handle();
        // SAFETY: the caller's promise; `args`, and what they borrow, live through the call.
        unsafe {
            self.function
                .enqueue(stream, grid, block, shared, &mut places)?;
        }
        Ok(())
    }
}

impl LaunchConfig {
    /// One thread in x for each of `count` elements, rounded up to whole blocks: the kernel has to leave out the rest.
    pub fn for_elements(count: usize) -> Result<Self> {
        let blocks = count.div_ceil(THREADS as usize);
        if blocks > MAX_THREADS / THREADS as usize {
            let message = format!("too many elements for one launch: {count}");
            return Err(RocmError::Other(message).into());
        }
        let blocks = blocks as u32;
        Ok(Self {
            grid: [blocks, 1, 1],
            block: [THREADS, 1, 1],
            shared: 0,
        })
    }
}

impl<'a> KernelArg<'a> {
    /// Memory that the kernel reads, from byte `offset` on.
    pub fn read(memory: &'a DeviceMemory, offset: usize) -> Self {
        Self::address(memory.as_ptr().cast_mut(), offset)
    }

    /// Memory that the kernel writes, from byte `offset` on.
    pub fn write(memory: &'a mut DeviceMemory, offset: usize) -> Self {
        Self::address(memory.as_mut_ptr(), offset)
    }

    /// A value that is copied into the kernel: a number, or a `#[repr(C)]` struct that the kernel declares likewise.
    pub fn value<T: Copy>(value: &'a T) -> Self {
        let place = std::ptr::from_ref(value).cast_mut().cast();
        Self {
            value: Value::Place(place),
            borrowed: PhantomData,
        }
    }

    fn address(start: *mut c_void, offset: usize) -> Self {
        Self {
            value: Value::Address(start.wrapping_byte_add(offset)),
            borrowed: PhantomData,
        }
    }

    /// Where HIP finds the argument.
    fn place(&self) -> *mut c_void {
        match &self.value {
            Value::Address(address) => std::ptr::from_ref(address).cast_mut().cast(),
            Value::Place(place) => *place,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rocm_backend::testing::{gpu, is_alone, with_calls};

    const SOURCE: &str = r#"
#if !defined(__HIPCC_RTC__)
#include <hip/hip_runtime.h>
#endif

// y[i] = x[i] + term, and each block's number of threads in all, in the block's place of counts.
extern "C" __global__ void add(const float *x, float *y, int *counts, float term, unsigned count) {
    unsigned threads = blockDim.x * blockDim.y * blockDim.z;
    unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    unsigned i = block * threads + thread;
    if (i < count) {
        y[i] = x[i] + term;
    }
    if (thread == 0) {
        counts[block] = threads;
    }
}
"#;

    fn floats(values: &[f32], device: &RocmDevice) -> Result<DeviceMemory> {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_ne_bytes()).collect();
        let mut memory = DeviceMemory::alloc(bytes.len(), device)?;
        memory.copy_from_host(&bytes)?;
        Ok(memory)
    }

    fn words(memory: &DeviceMemory) -> Result<Vec<[u8; 4]>> {
        let mut bytes = vec![0; memory.size()];
        memory.copy_to_host(&mut bytes)?;
        let words = bytes.chunks_exact(4);
        Ok(words.map(|w| [w[0], w[1], w[2], w[3]]).collect())
    }

    #[test]
    fn a_kernel_gets_its_arguments_and_its_grid() -> Result<()> {
        let Some(device) = gpu("a_kernel_gets_its_arguments_and_its_grid") else {
            return Ok(());
        };
        let module = device.compile("add.hip", SOURCE)?;
        assert_eq!(module.device(), &device);
        let add = module.function("add")?;
        assert!(module.function("subtract").is_err());
        let x: Vec<f32> = (0..300).map(|i| i as f32).collect();
        let x = floats(&x, &device)?;
        let mut y = floats(&[-1.; 300], &device)?;
        let configs = [
            LaunchConfig::for_elements(290)?,
            LaunchConfig {
                grid: [2, 3, 2],
                block: [5, 3, 2],
                shared: 0,
            },
        ];
        let (term, count) = (0.5f32, 290u32);
        for config in configs {
            y.copy_from(0, &floats(&[-1.; 300], &device)?, 0, 1200)?;
            let blocks: u32 = config.grid.iter().product();
            let threads: u32 = config.block.iter().product();
            let mut counts = DeviceMemory::alloc(4 * blocks as usize, &device)?;
            let arguments = [
                // From the fourth number on, and to the third place on.
                KernelArg::read(&x, 12),
                KernelArg::write(&mut y, 8),
                KernelArg::write(&mut counts, 0),
                KernelArg::value(&term),
                KernelArg::value(&count),
            ];
            // SAFETY: the kernel's parameters, with 290 floats from there on, and a place for each block.
            unsafe { add.launch(config, &arguments) }?;
            assert_eq!(
                words(&counts)?,
                vec![threads.to_ne_bytes(); blocks as usize]
            );
            let expected = (0..300).map(|i| match i {
                2..292 => (i - 2 + 3) as f32 + 0.5,
                _ => -1.,
            });
            let expected: Vec<_> = expected.map(f32::to_ne_bytes).collect();
            assert_eq!(words(&y)?, expected);
        }
        Ok(())
    }

    #[test]
    fn a_launch_without_threads_is_refused() -> Result<()> {
        let Some(device) = gpu("a_launch_without_threads_is_refused") else {
            return Ok(());
        };
        let add = device.compile("add.hip", SOURCE)?.function("add")?;
        for (grid, block) in [([1, 0, 1], [1; 3]), ([1; 3], [1, 1, 0])] {
            let config = LaunchConfig {
                grid,
                block,
                shared: 0,
            };
            // SAFETY: nothing is launched.
            let error = unsafe { add.launch(config, &[]) }.expect_err("no thread");
            assert!(error.to_string().contains("at least one thread"), "{error}");
        }
        Ok(())
    }

    #[test]
    fn elements_fill_whole_blocks() -> Result<()> {
        let cases = [(0, 0), (1, 1), (256, 1), (257, 2), (512, 2), (513, 3)];
        for (count, blocks) in cases {
            let config = LaunchConfig::for_elements(count)?;
            let expected = LaunchConfig {
                grid: [blocks, 1, 1],
                block: [256, 1, 1],
                shared: 0,
            };
            assert_eq!(config, expected, "{count}");
        }
        // HIP takes fewer than 2^32 threads in a dimension.
        let most = (1 << 32) - 256;
        assert_eq!(LaunchConfig::for_elements(most)?.grid[0], (1 << 24) - 1);
        for count in [most + 1, 1 << 32, usize::MAX] {
            let error = LaunchConfig::for_elements(count).expect_err("too many");
            assert!(error.to_string().contains(&count.to_string()), "{error}");
        }
        Ok(())
    }

    #[test]
    fn a_module_is_unloaded_when_others_have_taken_its_place() -> Result<()> {
        let test = "a_module_is_unloaded_when_others_have_taken_its_place";
        let Some(device) = gpu(test) else {
            return Ok(());
        };
        if !is_alone(module_path!(), test, &[]) {
            return Ok(());
        }
        let module = device.compile("add.hip", SOURCE)?;
        let add = module.function("add")?;
        let calls = |loads, unloads| [("hipModuleLoadData", loads), ("hipModuleUnload", unloads)];
        let again = || device.compile("add.hip", SOURCE).map(drop);
        with_calls(&calls(0, 0), again)?;
        let other = |number: usize| {
            let source = format!("{SOURCE}// {number}\n");
            device.compile("add.hip", &source).map(drop)
        };
        // Two are kept here; this one's function is still there, too.
        with_calls(&calls(2, 0), || other(1).and_then(|()| other(2)))?;
        with_calls(&calls(0, 0), || drop(module));
        with_calls(&calls(0, 1), || drop(add));
        with_calls(&calls(1, 1), again)?;
        with_calls(&calls(0, 0), || other(2))?;
        Ok(())
    }

    #[test]
    fn a_source_with_a_mistake_is_quoted() -> Result<()> {
        let test = "a_source_with_a_mistake_is_quoted";
        let Some(device) = gpu(test) else {
            return Ok(());
        };
        if !is_alone(module_path!(), test, &[]) {
            return Ok(());
        }
        let source = SOURCE.replace("x[i] + term", "x[i] + nobody_declared_this");
        let programs = [("hiprtcCreateProgram", 1), ("hiprtcDestroyProgram", 1)];
        let result = with_calls(&programs, || device.compile("mistake.hip", &source));
        let text = result.err().expect("a name is missing").to_string();
        assert!(text.contains("mistake.hip does not compile for "), "{text}");
        assert!(text.contains("nobody_declared_this"), "{text}");
        Ok(())
    }
}
