//! Convolutions by kernels that gather what they multiply.
use super::family::Kernel;
use super::im2col::{Window, MAX_PLACE};
use super::launch::{Argument, Launch, Pointer};
use super::launcher::{Launcher, Refusal};
use super::planes::Images;
use super::table::conv as table;
use super::views::Divisor;

/// One convolution or transposed convolution; the 1-D forms are images and kernels of one row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Convolution {
    pub(crate) x: Images,
    /// The kernels.
    pub(crate) w: Images,
    pub(crate) window: Window,
    /// Of the result.
    pub(crate) channels: usize,
    /// Height and width of the result.
    pub(crate) results: [usize; 2],
}

/// How threads of a convolution that is not transposed share what they read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Plain,
    /// Through tiles in LDS; not all types have it.
    Tiled,
}

impl Form {
    /// Pixels and channels of a block.
    fn tile(self) -> (usize, usize) {
        match self {
            Self::Plain => (table::BLOCK, table::CHANNELS),
            Self::Tiled => (table::TILE_PIXELS, table::TILE_CHANNELS),
        }
    }
}

impl Convolution {
    /// Pixels of one plane of the result.
    pub(crate) fn pixels(&self) -> usize {
        self.results[0] * self.results[1]
    }

    /// Elements that are summed for a result, of one that is not transposed.
    pub(crate) fn depth(&self) -> usize {
        self.w.shape[1..].iter().product()
    }

    /// An error for numbers that kernels cannot count to; `name` is the operation's.
    pub(crate) fn check_sizes(&self, name: &str) -> Result<(), Refusal> {
        let Window {
            stride, dilation, ..
        } = self.window;
        let [_, planes @ ..] = self.x.shape;
        let numbers = [self.pixels(), self.channels, self.depth(), stride, dilation];
        if planes
            .iter()
            .chain(&numbers)
            .any(|&number| number > MAX_PLACE)
        {
            let (x, w) = (self.x.shape, self.w.shape);
            return Err(Refusal(format!(
                "{name} of {x:?} with kernels {w:?} and {:?} is too large",
                self.window
            )));
        }
        Ok(())
    }

    /// The form that pays: tiled where there are enough output channels to share inputs, if there is such a kernel.
    pub(crate) fn form<L: Launcher>(&self, launcher: &L, has_tiled: bool) -> Form {
        let most = table::TILE_CHANNELS * launcher.limits().blocks_y;
        let many = (table::TILED_FROM_CHANNELS..=most).contains(&self.channels);
        if has_tiled && many {
            Form::Tiled
        } else {
            Form::Plain
        }
    }

    /// Writes a result with elements; the kernel is of that form.
    pub(crate) fn gather<L: Launcher>(
        &self,
        launcher: &L,
        kernel: Kernel,
        form: Form,
        y: Pointer,
    ) -> Result<(), L::Error> {
        self.launch(launcher, kernel, form.tile(), None, y)
    }

    /// The same of a transposed convolution.
    pub(crate) fn gather_transposed<L: Launcher>(
        &self,
        launcher: &L,
        kernel: Kernel,
        y: Pointer,
    ) -> Result<(), L::Error> {
        let Window {
            stride, dilation, ..
        } = self.window;
        let common = greatest_common_divisor(stride, dilation);
        let steps = Steps {
            tap: (stride / common) as u32,
            input: (dilation / common) as u32,
            remainder: (dilation % stride) as u32,
        };
        self.launch(launcher, kernel, Form::Plain.tile(), Some(&steps), y)
    }

    /// Launches of whole images; `tile` is a block's pixels and channels.
    fn launch<L: Launcher>(
        &self,
        launcher: &L,
        kernel: Kernel,
        tile: (usize, usize),
        steps: Option<&Steps>,
        y: Pointer,
    ) -> Result<(), L::Error> {
        let limits = launcher.limits();
        let (batch, pixels, size) = (self.x.shape[0], self.pixels(), self.x.size);
        let at_once = (limits.elements / pixels).max(1);
        for first in (0..batch).step_by(at_once) {
            let images = at_once.min(batch - first);
            let written = y.offset(first * self.channels * pixels * size);
            let read = self.x.start.offset(first * self.x.strides[0] * size);
            let description = self.pack(images * pixels);
            let blocks_y = self.channels.div_ceil(tile.1).min(limits.blocks_y);
            let launch = Launch::new(launcher, kernel);
            let launch = launch.threads((images * pixels).div_ceil(tile.0), table::BLOCK);
            let launch = launch.blocks_y(blocks_y).arg(&written).arg(&read);
            let mut launch = launch.arg(&self.w.start).arg(&description);
            if let Some(steps) = steps {
                launch = launch.arg(steps);
            }
            // SAFETY: the arguments of convolution kernels; y has an element for each pixel and channel, the images and
            // kernels lie within their memory, and what lies outside of an image is not read.
            unsafe { launch.enqueue() }?;
        }
        Ok(())
    }

    fn pack(&self, pixels: usize) -> KernelConvolution {
        let [_, _, in_height, in_width] = self.x.shape;
        let Window {
            kernel,
            padding,
            stride,
            dilation,
        } = self.window;
        KernelConvolution {
            width: Divisor::of(self.results[1]),
            height: Divisor::of(self.results[0]),
            pixels: pixels as u32,
            out_channels: self.channels as u32,
            in_channels: self.x.shape[1] as u32,
            in_height: in_height as u32,
            in_width: in_width as u32,
            kernel_height: Divisor::of(kernel[0]),
            kernel_width: Divisor::of(kernel[1]),
            stride: Divisor::of(stride),
            dilation: dilation as u32,
            row_padding: padding[0] as u32,
            column_padding: padding[1] as u32,
            input: self.x.strides.map(|stride| stride as i64),
            kernel: self.w.strides.map(|stride| stride as i64),
        }
    }
}

/// `candle::Convolution`.
#[repr(C)]
struct KernelConvolution {
    width: Divisor,
    height: Divisor,
    pixels: u32,
    out_channels: u32,
    in_channels: u32,
    in_height: u32,
    in_width: u32,
    kernel_height: Divisor,
    kernel_width: Divisor,
    stride: Divisor,
    dilation: u32,
    row_padding: u32,
    column_padding: u32,
    input: [i64; 4],
    kernel: [i64; 4],
}

// SAFETY: the same fields in the same order, with C's layout on both sides.
unsafe impl Argument for KernelConvolution {}

/// `candle::Steps`: how far apart the taps are that reach a result of a transposed convolution, and their inputs.
#[repr(C)]
struct Steps {
    tap: u32,
    input: u32,
    remainder: u32,
}

// SAFETY: as above.
unsafe impl Argument for Steps {}

fn greatest_common_divisor(a: usize, b: usize) -> usize {
    match b {
        0 => a,
        _ => greatest_common_divisor(b, a % b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greatest_common_divisors() {
        for (a, b, divisor) in [(4, 6, 2), (6, 4, 2), (5, 3, 1), (9, 3, 3), (1, 1, 1)] {
            assert_eq!(greatest_common_divisor(a, b), divisor, "{a}, {b}");
        }
    }
}
