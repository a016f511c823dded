//! Launches: a kernel, the grid and the arguments that it gets.
use super::family::Kernel;
use super::launcher::Launcher;
use std::ffi::c_void;

/// The most arguments that a kernel takes.
const MAX_ARGUMENTS: usize = 20;

/// Bytes that a thread reads or writes at once.
pub(crate) const PACK: usize = 16;

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

    /// Bytes from `start` to here.
    pub(crate) fn bytes_from(self, start: Self) -> isize {
        (self.0 as isize).wrapping_sub(start.0 as isize)
    }

    /// Whether the address is a multiple of so many bytes.
    pub(crate) fn is_multiple_of(self, bytes: usize) -> bool {
        (self.0 as usize).is_multiple_of(bytes)
    }

    /// Whether both addresses lie as far behind a multiple of so many bytes.
    pub(crate) fn lies_like(self, other: Self, bytes: usize) -> bool {
        (self.0 as usize)
            .abs_diff(other.0 as usize)
            .is_multiple_of(bytes)
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
pub(crate) struct Launch<'a, L> {
    launcher: &'a L,
    pub(crate) kernel: Kernel,
    /// Blocks in x, y and z.
    pub(crate) grid: [u32; 3],
    /// Threads of a block in x and y.
    pub(crate) block: [u32; 2],
    /// Bytes of LDS that each block gets beside what the kernel declares.
    pub(crate) lds: u32,
    arguments: [*mut c_void; MAX_ARGUMENTS],
    sizes: [usize; MAX_ARGUMENTS],
    count: usize,
}

impl<'a, L: Launcher> Launch<'a, L> {
    /// One thread, no arguments yet.
    pub(crate) fn new(launcher: &'a L, kernel: Kernel) -> Self {
        Self {
            launcher,
            kernel,
            grid: [1; 3],
            block: [1; 2],
            lds: 0,
            arguments: [std::ptr::null_mut(); MAX_ARGUMENTS],
            sizes: [0; MAX_ARGUMENTS],
            count: 0,
        }
    }

    /// So many blocks of so many threads.
    pub(crate) fn threads(mut self, blocks: usize, block: usize) -> Self {
        self.grid[0] = blocks as u32;
        self.block[0] = block as u32;
        self
    }

    /// As `threads`, for a kernel whose threads stride over what fewer blocks leave.
    pub(crate) fn strided(self, blocks: usize, block: usize) -> Self {
        let most = self.launcher.limits().blocks;
        self.threads(blocks.min(most), block)
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
        self.sizes[self.count] = std::mem::size_of_val(value);
        self.count += 1;
        self
    }

    /// Where the arguments are, in their order.
    pub(crate) fn addresses(&mut self) -> &mut [*mut c_void] {
        &mut self.arguments[..self.count]
    }

    /// The bytes of each argument.
    #[allow(dead_code)] // for launchers that look at launches
    pub(crate) fn bytes(&self) -> impl Iterator<Item = &'a [u8]> + '_ {
        let arguments = self.arguments.iter().zip(&self.sizes).take(self.count);
        // SAFETY: each argument is a value of so many bytes, which lives as long as the launch.
        arguments
            .map(|(address, size)| unsafe { std::slice::from_raw_parts(address.cast(), *size) })
    }

    /// The same, through another launcher.
    #[cfg(test)]
    pub(crate) fn through<M: Launcher>(self, launcher: &'a M) -> Launch<'a, M> {
        Launch {
            launcher,
            kernel: self.kernel,
            grid: self.grid,
            block: self.block,
            lds: self.lds,
            arguments: self.arguments,
            sizes: self.sizes,
            count: self.count,
        }
    }

    /// Queues the launch.
    ///
    /// # Safety
    /// The arguments are those that the kernel takes, and what they point to on the device is large enough and stays
    /// allocated until the stream has come so far.
    pub(crate) unsafe fn enqueue(self) -> Result<(), L::Error> {
        // SAFETY: the caller answers.
        unsafe { self.launcher.enqueue(self) }
    }
}
