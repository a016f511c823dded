//! What a launch fixes: a kernel, its grid, and copies of its arguments.

use std::ffi::c_void;
use std::sync::Arc;

use crate::error::{HipError, HipResult};
use crate::model::{LDS_BYTES, MAX_GRID, MAX_THREADS, Model};
use crate::module::{Function, abi};
use crate::settings::settings;

/// A kernel with everything that a launch fixes.
#[derive(Debug)]
pub struct Launch {
    /// The kernel.
    pub function: Function,
    /// Blocks in each dimension.
    pub grid: [u32; 3],
    /// Those that run, counted within the grid; all if there are none.
    pub only_blocks: Arc<[u64]>,
    /// Threads of a block in each dimension.
    pub block: [u32; 3],
    /// Bytes of dynamic LDS.
    pub dynamic_lds: usize,
    /// The values of its parameters.
    pub arguments: Arguments,
    /// The device that runs it.
    pub device: usize,
    /// Devices whose memory it may use, its own included, one bit each.
    pub reachable: u64,
}

impl Launch {
    /// Checks what HIP checks before it accepts a launch.
    ///
    /// # Errors
    /// `hipErrorInvalidValue` for a shape that no device of this model runs, for more LDS than a block has and for a chosen
    /// block that the grid does not have, `hipErrorInvalidConfiguration` for more threads than the hardware counts,
    /// `hipErrorLaunchFailure` for more threads than the kernel's launch bounds, `hipErrorInvalidHandle` for a kernel of a
    /// module of another device.
    pub fn validate(&self) -> HipResult {
        if !self.function.module.is_on(self.device) {
            return Err(HipError::INVALID_HANDLE);
        }
        let threads = self.block.iter().try_fold(1u32, |product, &size| product.checked_mul(size));
        let Some(threads @ 1..=MAX_THREADS) = threads else { return Err(HipError::INVALID_VALUE) };
        let grid_fits = |(blocks, most): (&u32, u32)| (1..=most).contains(blocks);
        // The hardware counts threads, not blocks, in 32 bits.
        let work_fits = |(blocks, threads): (&u32, u32)| blocks.checked_mul(threads).is_some();
        if !self.grid.iter().zip(self.block).all(work_fits) {
            return Err(HipError::INVALID_CONFIGURATION);
        }
        if !self.grid.iter().zip(MAX_GRID).all(grid_fits) {
            return Err(HipError::INVALID_VALUE);
        }
        if self.only_blocks.iter().any(|&number| number >= self.blocks_of_grid()) {
            return Err(HipError::INVALID_VALUE);
        }
        if self.function.kernel().max_threads.is_some_and(|most| threads > most) {
            return Err(HipError::LAUNCH_FAILURE);
        }
        if self.function.kernel().static_lds_bytes() + self.dynamic_lds > LDS_BYTES {
            return Err(HipError::INVALID_VALUE);
        }
        Ok(())
    }

    /// Threads of a block.
    pub fn threads(&self) -> usize {
        self.block.iter().map(|&size| size as usize).product()
    }

    fn blocks_of_grid(&self) -> u64 {
        self.grid.iter().map(|&blocks| u64::from(blocks)).product()
    }

    /// How many blocks run.
    pub(super) fn blocks(&self) -> u64 {
        if self.only_blocks.is_empty() { self.blocks_of_grid() } else { self.only_blocks.len() as u64 }
    }

    /// The number within the grid of one of the blocks that run.
    pub(super) fn block_at(&self, place: u64) -> u64 {
        self.only_blocks.get(place as usize).copied().unwrap_or(place)
    }

    /// The model of its device.
    pub(super) fn model(&self) -> &'static Model {
        settings().devices[self.device].model
    }
}

/// Copies of a kernel's arguments.
#[derive(Clone, Debug, Default)]
pub struct Arguments {
    /// In units that are aligned for every type that a parameter can have.
    storage: Vec<u128>,
    offsets: Vec<usize>,
}

impl Arguments {
    /// Copies the arguments behind an array of pointers.
    ///
    /// # Safety
    /// `pointers` has one pointer per parameter, each to a value of the parameter's size.
    pub unsafe fn from_pointers(parameters: &[abi::Parameter], pointers: *const *const c_void) -> Self {
        let mut arguments = Self::laid_out(parameters);
        for (index, parameter) in parameters.iter().enumerate() {
            // SAFETY: by contract.
            let bytes = unsafe { std::slice::from_raw_parts((*pointers.add(index)).cast(), parameter.size as usize) };
            arguments.write(index, bytes);
        }
        arguments
    }

    /// Copies the arguments out of a buffer in which each is aligned as in a C struct.
    ///
    /// # Errors
    /// `hipErrorInvalidValue` when the buffer is too short.
    pub fn from_buffer(parameters: &[abi::Parameter], buffer: &[u8]) -> HipResult<Self> {
        let mut arguments = Self::laid_out(parameters);
        let mut end = 0usize;
        for (index, parameter) in parameters.iter().enumerate() {
            let start = end.next_multiple_of(parameter.alignment as usize);
            end = start + parameter.size as usize;
            arguments.write(index, buffer.get(start..end).ok_or(HipError::INVALID_VALUE)?);
        }
        Ok(arguments)
    }

    fn laid_out(parameters: &[abi::Parameter]) -> Self {
        const UNIT: usize = size_of::<u128>();
        let mut end = 0;
        let mut place = |parameter: &abi::Parameter| {
            let start = end;
            end += (parameter.size as usize).next_multiple_of(UNIT);
            start
        };
        let offsets = parameters.iter().map(&mut place).collect();
        Self { storage: vec![0; end / UNIT], offsets }
    }

    fn write(&mut self, index: usize, bytes: &[u8]) {
        let start = self.storage.as_mut_ptr().cast::<u8>().wrapping_add(self.offsets[index]);
        // SAFETY: `laid_out` made room for the parameter.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), start, bytes.len()) };
    }

    /// Where each argument lies, as a kernel takes them.
    pub(super) fn pointers(&self) -> Vec<*mut c_void> {
        let start = self.storage.as_ptr().cast::<u8>();
        self.offsets.iter().map(|offset| start.wrapping_add(*offset).cast_mut().cast()).collect()
    }
}
