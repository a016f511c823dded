//! Kernels that the crate ug describes, on ROCm: HIP source is generated, compiled for the device and kept.
mod generator;
mod names;
#[cfg(test)]
mod tests;

use crate::rocm_backend::driver::{LaunchConfig, PushKernelArg, RocmFunc};
use crate::rocm_backend::{RocmDevice, RocmError, RocmStorage, WrapErr};
use crate::{DType, Layout, Result};
use names::{Kernel, Type};

/// The most threads that a block may have.
const MAX_BLOCK: u32 = 1024;

/// Threads of a block where the kernel says nothing of its launch, and its elements are a multiple.
const BLOCK: usize = 32;

/// The kernel's name in its source; its own name may be no identifier.
const SYMBOL: &str = "ug_kernel";

/// A kernel that changes the elements of a tensor.
pub(crate) struct UgFunc {
    func: RocmFunc,
    device: RocmDevice,
    dtype: DType,
    launch: Launch,
}

/// How many threads run the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Launch {
    /// As the kernel says.
    Fixed(LaunchConfig),
    /// One for each element: the kernel asks for its thread, and says nothing.
    Elements,
}

impl RocmDevice {
    /// Compiles a kernel of ug's for this device, or finds it loaded; `func_name` is for error messages.
    pub fn compile(&self, func_name: &'static str, kernel: Kernel) -> Result<RocmFunc> {
        let threads = match Launch::of(&kernel)? {
            Launch::Fixed(config) => config.block_dim.0,
            Launch::Elements => BLOCK as u32,
        };
        let source = generator::generate(SYMBOL, &kernel, threads)?;
        self.get_or_load_custom_func(SYMBOL, &format!("{func_name}.hip"), &source)
    }
}

impl UgFunc {
    /// The kernel takes one argument: memory of the tensor's elements.
    pub(crate) fn new(device: &RocmDevice, name: &'static str, kernel: Kernel) -> Result<Self> {
        let memory = generator::arguments(&kernel)?;
        let values = kernel
            .args()
            .iter()
            .any(|(arg, _)| matches!(arg.type_(), Type::Value(_)));
        let (1, false) = (memory.len(), values) else {
            let (found, also) = (memory.len(), if values { " and values" } else { "" });
            let message =
                format!("ug: {name} takes memory of {found} tensors{also}, and gets one tensor");
            return Err(RocmError::Other(message).into());
        };
        let launch = Launch::of(&kernel)?;
        Ok(Self {
            dtype: dtype(memory[0].1)?,
            func: device.compile(name, kernel)?,
            device: device.clone(),
            launch,
        })
    }

    /// Queues the kernel for the elements of a contiguous view.
    pub(crate) fn run(&self, name: &str, storage: &mut RocmStorage, layout: &Layout) -> Result<()> {
        let refused = |problem: String| -> Result<()> {
            Err(RocmError::Other(format!("ug: {name} {problem}")).into())
        };
        if storage.device() != &self.device {
            let (own, other) = (&self.device, storage.device());
            return refused(format!("was compiled for {own:?}, not for {other:?}"));
        }
        if storage.dtype() != self.dtype {
            let (wanted, found) = (self.dtype, storage.dtype());
            return refused(format!("takes {wanted:?}, not {found:?}"));
        }
        let Some((start, end)) = layout.contiguous_offsets() else {
            return refused("takes contiguous tensors only".to_string());
        };
        if start == end {
            return Ok(());
        }
        let config = self.launch.config(end - start)?;
        let offset = (start * self.dtype.size_in_bytes()) as u64;
        let address = storage.memory_mut().as_mut_ptr() as u64 + offset;
        let mut builder = self.func.builder();
        builder.arg(&address);
        // SAFETY: the kernel's one parameter. ug answers for the kernel's staying within its memory.
        unsafe { builder.launch(config) }.w()
    }
}

impl Launch {
    fn of(kernel: &Kernel) -> Result<Self> {
        let config = kernel.launch_config();
        if config.block_dim == 0 || config.block_dim > MAX_BLOCK {
            let message = format!("ug: a block of {} threads", config.block_dim);
            return Err(RocmError::Other(message).into());
        }
        let says_nothing = (config.grid_dim, config.block_dim) == (1, 1);
        Ok(match says_nothing && generator::knows_its_thread(kernel) {
            true => Self::Elements,
            false => Self::Fixed(LaunchConfig {
                grid_dim: (config.grid_dim, 1, 1),
                block_dim: (config.block_dim, 1, 1),
                shared_mem_bytes: config.shared_mem,
            }),
        })
    }

    fn config(self, elements: usize) -> Result<LaunchConfig> {
        let (blocks, threads) = match self {
            Self::Fixed(config) => return Ok(config),
            Self::Elements => match elements % BLOCK {
                0 => (elements / BLOCK, BLOCK),
                _ => (elements, 1),
            },
        };
        let blocks = u32::try_from(blocks).map_err(|_| {
            RocmError::Other(format!(
                "ug: {elements} elements are too many for one launch"
            ))
        })?;
        Ok(LaunchConfig {
            grid_dim: (blocks, 1, 1),
            block_dim: (threads as u32, 1, 1),
            shared_mem_bytes: 0,
        })
    }
}

/// Candle's type of that name.
fn dtype(of: names::DType) -> Result<DType> {
    let found = of.as_str().parse();
    Ok(found.map_err(|_| RocmError::Other(format!("ug: Candle has no {}", of.as_str())))?)
}
