//! Routing of tokens to experts: scratch memory, counts that the host reads, parameters by value.
use candle_core::cuda_backend::cudarc::driver::{
    CudaFunction, DeviceRepr, LaunchConfig, PushKernelArg,
};
use candle_core::cuda_backend::WrapErr;
use candle_core::{CudaDevice, Result};

const PTX: &str = include_str!("kernels/routing.ptx");

#[repr(C)]
#[derive(Clone, Copy)]
struct Params {
    tokens: u32,
    experts: u32,
}

// SAFETY: two numbers, which the kernel declares likewise.
unsafe impl DeviceRepr for Params {}

/// Tokens by expert: a kernel that is kept, on a device that is known not to track events.
pub struct Router {
    dev: CudaDevice,
    count: CudaFunction,
}

impl Router {
    pub fn new(dev: &CudaDevice) -> Result<Self> {
        if dev.is_event_tracking() {
            // SAFETY: this program has one stream.
            unsafe { dev.disable_event_tracking() };
        }
        let count = dev.get_or_load_custom_func("count_experts", "routing", PTX)?;
        Ok(Self {
            dev: dev.clone(),
            count: count.into_cuda_function(),
        })
    }

    /// How many tokens each expert gets, and the numbers of the tokens that go to none.
    pub fn count(&self, choices: &[i32], experts: usize) -> Result<(Vec<u32>, Vec<u32>)> {
        // SAFETY: written in the next line.
        let mut on_device = unsafe { self.dev.alloc::<i32>(choices.len())? };
        self.dev.memcpy_htod(choices, &mut on_device)?;
        let mut counts = self.dev.alloc_zeros::<u32>(experts)?;
        let mut dropped = self.dev.alloc_zeros::<u32>(choices.len() + 1)?;
        let params = Params {
            tokens: choices.len() as u32,
            experts: experts as u32,
        };
        let stream = self.dev.cuda_stream();
        let mut builder = stream.launch_builder(&self.count);
        builder.arg(&on_device);
        builder.arg(&mut counts);
        builder.arg(&mut dropped);
        builder.arg(&params);
        // SAFETY: the kernel's parameters; there is room for all tokens.
        unsafe { builder.launch(LaunchConfig::for_num_elems(params.tokens)) }.w()?;
        let counts = self.dev.clone_dtoh(&counts)?;
        let mut number = [0];
        self.dev.memcpy_dtoh(&dropped.slice(..1), &mut number)?;
        let mut dropped = self
            .dev
            .clone_dtoh(&dropped.slice(1..1 + number[0] as usize))?;
        dropped.sort();
        Ok((counts, dropped))
    }
}
