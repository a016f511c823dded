//! Users' kernels on a device: how their programs are loaded, and how they are queued.
use super::custom_kernel::RocmSource;
use super::hip::HipResult;
use super::kernels::{Function, Module};
use super::stream::RocmStream;
use super::RocmDevice;
use std::ffi::c_void;
use std::sync::Arc;

impl RocmDevice {
    /// The program, loaded on the device's GPU.
    pub(super) fn custom_module(
        &self,
        name: &str,
        source: RocmSource<'_>,
    ) -> HipResult<Arc<Module>> {
        self.gpu().make_current()?;
        let kernels = self.gpu().kernels();
        self.queue().with_room(|| match source {
            RocmSource::Hip(source) => kernels.compile(name, source),
            RocmSource::Code(objects) => kernels.load_code(name, objects),
        })
    }
}

impl Function {
    /// Queues a launch on a stream of the GPU that the function is loaded on.
    ///
    /// # Safety
    /// As for `enqueue`.
    pub(super) unsafe fn enqueue_on(
        self,
        stream: &RocmStream,
        grid: [u32; 3],
        block: [u32; 3],
        lds: u32,
        arguments: &mut [*mut c_void],
    ) -> HipResult<()> {
        stream.gpu().make_current()?;
        // SAFETY: the caller's promise; the stream is the current device's.
        unsafe { self.enqueue(stream.handle(), grid, block, lds, arguments) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rocm_backend::custom_kernel::{check, sizes, Value};
    use crate::rocm_backend::driver::{LaunchConfig, PushKernelArg, RocmSlice};
    use crate::rocm_backend::kernels::Parameter;
    use crate::rocm_backend::testing::{gpu, gpu_of, is_alone, with_calls};
    use crate::rocm_backend::WrapErr;
    use crate::Result;

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

    /// `count` numbers from 0 on, and as many -1.
    fn numbers(count: u16, device: &RocmDevice) -> Result<(RocmSlice<f32>, RocmSlice<f32>)> {
        let x: Vec<f32> = (0..count).map(f32::from).collect();
        let y = vec![-1.; x.len()];
        Ok((device.clone_htod(&x)?, device.clone_htod(&y)?))
    }

    #[test]
    fn a_kernel_gets_its_arguments_and_its_grid() -> Result<()> {
        let Some(device) = gpu("a_kernel_gets_its_arguments_and_its_grid") else {
            return Ok(());
        };
        let module = device.load_module("add.hip", SOURCE)?;
        assert_eq!(module.device(), &device);
        assert!(module.function("subtract").is_err());
        let add = device.get_or_load_custom_func("add", "add.hip", SOURCE)?;
        let configs = [
            LaunchConfig::for_num_elems(290),
            LaunchConfig {
                grid_dim: (2, 3, 2),
                block_dim: (5, 3, 2),
                shared_mem_bytes: 0,
            },
        ];
        let (term, count) = (0.5f32, 290u32);
        for config in configs {
            let (x, mut y) = numbers(300, &device)?;
            let (grid, block) = (sizes(config.grid_dim), sizes(config.block_dim));
            let blocks: u32 = grid.iter().product();
            let threads: u32 = block.iter().product();
            let mut counts = device.alloc_zeros::<i32>(blocks as usize)?;
            // From the fourth number on, and to the third place on.
            let (from, mut to) = (x.slice(3..), y.slice_mut(2..));
            let mut builder = add.builder();
            builder.arg(&from).arg(&mut to).arg(&mut counts);
            crate::rocm_builder_arg!(builder, term, count);
            // SAFETY: the kernel's parameters, with 290 floats from there on, and a place for each block.
            unsafe { builder.launch(config) }.w()?;
            let counts = device.clone_dtoh(&counts)?;
            assert_eq!(counts, vec![threads as i32; blocks as usize]);
            let expected = (0..300).map(|i| match i {
                2..292 => (i - 2 + 3) as f32 + 0.5,
                _ => -1.,
            });
            assert_eq!(device.clone_dtoh(&y)?, expected.collect::<Vec<_>>());
        }
        Ok(())
    }

    #[test]
    fn a_launch_is_in_order_with_the_streams_of_its_memory() -> Result<()> {
        let test = "a_launch_is_in_order_with_the_streams_of_its_memory";
        let Some(device) = gpu(test) else {
            return Ok(());
        };
        let other = RocmDevice::new_with_stream(0)?;
        let stream = other.rocm_stream();
        let add = device.load_module("add.hip", SOURCE)?.function("add")?;
        let counts = device.alloc_zeros::<i32>(1)?;
        for round in 0..20u16 {
            let (x, y) = numbers(200 + round, &device)?;
            let (term, count) = (f32::from(round), u32::from(200 + round));
            let mut builder = stream.launch_builder(&add);
            builder.arg(&x).arg(&y).arg(&counts).arg(&term).arg(&count);
            // SAFETY: the kernel's parameters, for one block.
            unsafe { builder.launch(LaunchConfig::for_num_elems(count)) }.w()?;
            let expected = (0..200 + round).map(|i| f32::from(i + round));
            // On the stream of the memory, which nobody has made wait.
            assert_eq!(device.clone_dtoh(&y)?, expected.collect::<Vec<_>>());
        }
        Ok(())
    }

    #[test]
    fn another_gpus_memory_and_streams_are_refused() -> Result<()> {
        let test = "another_gpus_memory_and_streams_are_refused";
        let (Some(device), Some(other)) = (gpu_of(test, 0), gpu_of(test, 1)) else {
            return Ok(());
        };
        let add = device.get_or_load_custom_func("add", "add.hip", SOURCE)?;
        let memory = other.alloc_zeros::<f32>(1)?;
        let stream = other.rocm_stream();
        let mut with_memory = add.builder();
        with_memory.arg(&memory);
        for mut builder in [with_memory, stream.launch_builder(&add)] {
            // SAFETY: nothing is launched.
            let result = unsafe { builder.launch(LaunchConfig::for_num_elems(1)) };
            let text = result.expect_err("another GPU").to_string();
            assert_eq!(text, "a kernel of device 0 with a stream or memory of 1");
        }
        Ok(())
    }

    #[test]
    fn a_launch_with_no_threads_or_too_many_is_refused() -> Result<()> {
        let Some(device) = gpu("a_launch_with_no_threads_or_too_many_is_refused") else {
            return Ok(());
        };
        let add = device.get_or_load_custom_func("add", "add.hip", SOURCE)?;
        for (grid_dim, block_dim, expected) in [
            ((1, 0, 1), (1, 1, 1), "at least one thread"),
            ((1, 1, 1), (1, 1, 0), "at least one thread"),
            ((1, 1 << 22, 1), (1, 1 << 10, 1), "fewer than 2^32 threads"),
        ] {
            let config = LaunchConfig {
                grid_dim,
                block_dim,
                shared_mem_bytes: 0,
            };
            // SAFETY: nothing is launched.
            let error = unsafe { add.builder().launch(config) }.expect_err("not this");
            assert!(error.to_string().contains(expected), "{error}");
        }
        Ok(())
    }

    #[test]
    fn arguments_are_as_many_and_as_large_as_parameters() {
        let parameter = |size, is_memory| Parameter { size, is_memory };
        let parameters = [parameter(8, true), parameter(4, false), parameter(8, false)];
        let memory = Value::Address(256);
        let value = |size| Value::Place(std::ptr::null(), size);
        for values in [[memory, value(4), value(8)], [value(8), value(4), value(8)]] {
            assert!(check(&parameters, &values).is_ok());
        }
        let cases: [(&[Value], &str); 5] = [
            (&[], "takes 3 arguments, and gets 0"),
            (
                &[memory, value(4), value(8), memory],
                "takes 3 arguments, and gets 4",
            ),
            (
                &[value(4), value(4), value(8)],
                "0 of a kernel is memory, and gets a value of 4",
            ),
            (
                &[memory, value(8), value(8)],
                "1 of a kernel has 4 bytes, and gets 8",
            ),
            (
                &[memory, value(4), memory],
                "2 of a kernel is a value of 8 bytes, and gets memory",
            ),
        ];
        for (values, expected) in cases {
            let error = check(&parameters, values).expect_err(expected).to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn elements_fill_whole_blocks() {
        let cases = [(0, 0), (1, 1), (256, 1), (257, 2), (512, 2), (513, 3)];
        for (count, blocks) in cases.into_iter().chain([(u32::MAX, 1 << 24)]) {
            let expected = LaunchConfig {
                grid_dim: (blocks, 1, 1),
                block_dim: (256, 1, 1),
                shared_mem_bytes: 0,
            };
            assert_eq!(LaunchConfig::for_num_elems(count), expected, "{count}");
        }
    }

    #[test]
    fn code_objects_are_chosen_by_their_architecture() -> Result<()> {
        let Some(device) = gpu("code_objects_are_chosen_by_their_architecture") else {
            return Ok(());
        };
        let objects: [(&str, &[u8]); 2] = [("gfx000", b"not for it"), ("gfx001", b"nor this")];
        let error = device
            .get_or_load_custom_func("add", "add.hsaco", &objects[..])
            .expect_err("no code object");
        let text = error.to_string();
        let architecture = device.gcn_arch_name()?;
        let expected =
            format!("add.hsaco has no code object for {architecture}, only for: gfx000, gfx001");
        assert!(text.contains(&expected), "{text}");
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
        let module = device.load_module("add.hip", SOURCE)?;
        let add = module.function("add")?;
        let calls = |loads, unloads| [("hipModuleLoadData", loads), ("hipModuleUnload", unloads)];
        let again = || device.load_module("add.hip", SOURCE).map(drop);
        with_calls(&calls(0, 0), again)?;
        let other = |number: usize| {
            let source = format!("{SOURCE}// {number}\n");
            device.load_module("add.hip", &source).map(drop)
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
        let result = with_calls(&programs, || device.load_module("mistake.hip", &source));
        let text = result.expect_err("a name is missing").to_string();
        assert!(text.contains("mistake.hip does not compile for "), "{text}");
        assert!(text.contains("nobody_declared_this"), "{text}");
        Ok(())
    }
}
