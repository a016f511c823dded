//! Launches of kernels.
use super::module::Function;
use crate::rocm_backend::api;
use crate::rocm_backend::hip::HipResult;
use std::ffi::c_void;
use std::marker::PhantomData;

/// The most blocks of a launch whose kernel strides over the rest; HIP takes fewer than 2^32 threads in a dimension. In
/// the crate's own tests they stride soon.
pub(crate) const MAX_GRID: usize = if cfg!(test) { 1 << 5 } else { 1 << 20 };

/// The most arguments that a kernel takes.
const MAX_ARGUMENTS: usize = 20;

/// An address on the device as a kernel's argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Pointer(pub(crate) *mut c_void);

impl Pointer {
    /// For an argument that the kernel does without.
    pub(crate) const NULL: Self = Self(std::ptr::null_mut());

    /// `bytes` further on.
    pub(crate) fn offset(self, bytes: usize) -> Self {
        Self(self.0.wrapping_byte_add(bytes))
    }

    /// Whether the address is a multiple of so many bytes.
    pub(crate) fn is_multiple_of(self, bytes: usize) -> bool {
        (self.0 as usize).is_multiple_of(bytes)
    }
}

/// A value that kernels take.
///
/// # Safety
/// The type is laid out in memory as the kernel's parameter is.
pub(crate) unsafe trait Argument {}

// SAFETY: the kernels' types of the same names have the same layout.
unsafe impl Argument for u32 {}
// SAFETY: as above.
unsafe impl Argument for u64 {}
// SAFETY: as above.
unsafe impl Argument for i64 {}
// SAFETY: as above.
unsafe impl Argument for f32 {}
// SAFETY: as above.
unsafe impl Argument for f64 {}
// SAFETY: a pointer of 64 bits on both sides.
unsafe impl Argument for Pointer {}

/// A kernel with the grid and the arguments that it gets.
pub(crate) struct Launch<'a> {
    function: Function,
    stream: api::hipStream_t,
    grid: [u32; 3],
    block: [u32; 2],
    lds: u32,
    arguments: [*mut c_void; MAX_ARGUMENTS],
    count: usize,
    borrowed: PhantomData<&'a ()>,
    /// What it is recorded as.
    #[cfg(test)]
    kernel: String,
}

impl<'a> Launch<'a> {
    /// Of a function on a stream of the current device: one thread, no arguments yet.
    pub(crate) fn new(function: Function, stream: api::hipStream_t) -> Self {
        Self {
            function,
            stream,
            grid: [1; 3],
            block: [1; 2],
            lds: 0,
            arguments: [std::ptr::null_mut(); MAX_ARGUMENTS],
            count: 0,
            borrowed: PhantomData,
            #[cfg(test)]
            kernel: String::new(),
        }
    }

    #[cfg(test)]
    pub(crate) fn named(mut self, kernel: String) -> Self {
        self.kernel = kernel;
        self
    }

    /// So many blocks of so many threads.
    pub(crate) fn threads(mut self, blocks: usize, block: usize) -> Self {
        self.grid[0] = blocks as u32;
        self.block[0] = block as u32;
        self
    }

    /// As `threads`, for a kernel whose threads stride over what fewer blocks leave.
    pub(crate) fn strided(self, blocks: usize, block: usize) -> Self {
        self.threads(blocks.min(MAX_GRID), block)
    }

    /// So many blocks in y for each in x.
    pub(crate) fn blocks_y(mut self, blocks: usize) -> Self {
        self.grid[1] = blocks as u32;
        self
    }

    /// So many layers of blocks.
    pub(crate) fn blocks_z(mut self, blocks: usize) -> Self {
        self.grid[2] = blocks as u32;
        self
    }

    /// So many threads of a block in y for each in x.
    pub(crate) fn threads_y(mut self, threads: usize) -> Self {
        self.block[1] = threads as u32;
        self
    }

    /// Bytes of LDS that each block gets beside what the kernel declares.
    pub(crate) fn lds(mut self, bytes: usize) -> Self {
        self.lds = bytes as u32;
        self
    }

    /// The next argument.
    pub(crate) fn arg<T: Argument + ?Sized>(mut self, value: &'a T) -> Self {
        self.arguments[self.count] = (value as *const T).cast_mut().cast();
        self.count += 1;
        self
    }

    /// Queues the launch.
    ///
    /// # Safety
    /// The arguments are those that the kernel takes, and what they point to on the device is large enough and stays
    /// allocated until the stream has come so far.
    pub(crate) unsafe fn enqueue(mut self) -> HipResult<()> {
        #[cfg(test)]
        crate::rocm_backend::testing::record(crate::rocm_backend::testing::Launched {
            kernel: std::mem::take(&mut self.kernel),
            grid: self.grid,
            block: self.block,
            lds: self.lds,
        });
        let arguments = &mut self.arguments[..self.count];
        let block = [self.block[0], self.block[1], 1];
        // SAFETY: the stream is the current device's; for the rest the caller answers.
        unsafe {
            self.function
                .enqueue(self.stream, self.grid, block, self.lds, arguments)
        }
    }
}
