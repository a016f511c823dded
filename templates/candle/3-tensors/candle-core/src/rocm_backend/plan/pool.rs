//! Pooling: one number for each window of an image.
use super::family::Kernel;
use super::launch::{Argument, Pointer};
use super::launcher::{Launcher, Refusal};
use super::planes::{paint, Canvas, Images, PlaneKernel};
use super::table::pool as table;

/// The reduction of a window's pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pooled {
    Mean,
    Largest,
}

/// Writes one number for each window of `x` to `y`: (batch, channels, `window.results`), contiguous.
pub(crate) fn pool<L: Launcher>(
    launcher: &L,
    kernel: Kernel,
    pooled: Pooled,
    x: &Images,
    window: &Window,
    y: Pointer,
) -> Result<(), L::Error> {
    let [.., height, width] = x.shape;
    let [rows, columns] = window.results(height, width)?;
    let kernel = PlaneKernel {
        kernel,
        block: table::BLOCK,
        blocks: table::BLOCKS,
    };
    let canvas = Canvas {
        height: rows,
        width: columns,
        lanes: lanes(x, window, columns),
    };
    let inverse = 1. / (window.height as f64 * window.width as f64);
    let numbers: &[&dyn Argument] = match pooled {
        Pooled::Mean => &[window, &inverse],
        Pooled::Largest => &[window],
    };
    paint(launcher, &kernel, x, y, canvas, numbers)
}

/// `candle::Window`.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Window {
    height: u32,
    width: u32,
    row_stride: u32,
    column_stride: u32,
}

// SAFETY: the same fields in the same order, with C's layout on both sides.
unsafe impl Argument for Window {}

impl Window {
    /// An error for a window without pixels, or sizes that kernels have no number for.
    pub(crate) fn of(kernel: [usize; 2], stride: [usize; 2]) -> Result<Self, Refusal> {
        let numbers = [kernel[0], kernel[1], stride[0], stride[1]];
        let possible = 1..=u32::MAX as usize;
        if !numbers.iter().all(|number| possible.contains(number)) {
            return Err(Refusal(format!(
                "cannot pool with a window of {kernel:?} and a stride of {stride:?}"
            )));
        }
        let [height, width, row_stride, column_stride] = numbers.map(|number| number as u32);
        Ok(Self {
            height,
            width,
            row_stride,
            column_stride,
        })
    }

    /// Height and width of the result for an image of that shape; an error if the window does not fit.
    pub(crate) fn results(&self, height: usize, width: usize) -> Result<[usize; 2], Refusal> {
        let rows = height.checked_sub(self.height as usize);
        let columns = width.checked_sub(self.width as usize);
        let (Some(rows), Some(columns)) = (rows, columns) else {
            return Err(Refusal(format!(
                "{self:?} does not fit into an image of {height} by {width}"
            )));
        };
        let (row_stride, column_stride) = (self.row_stride as usize, self.column_stride as usize);
        Ok([rows / row_stride + 1, columns / column_stride + 1])
    }
}

/// Neighbouring windows that a thread reads as 16 aligned bytes of each row; 1 if they cannot be read so.
fn lanes(x: &Images, window: &Window, columns: usize) -> usize {
    let lanes = 8 / x.size;
    let [outer @ .., column] = x.strides;
    let in_pairs = (window.width, window.column_stride, column) == (2, 2, 1);
    let aligned = |step: &usize| (step * x.size).is_multiple_of(16);
    let aligned = x.start.is_multiple_of(16) && outer.iter().all(aligned);
    if in_pairs && aligned && columns.is_multiple_of(lanes) {
        lanes
    } else {
        1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_has_pixels_and_numbers_that_kernels_have() {
        let most = u32::MAX as usize;
        for (kernel, stride, possible) in [
            ([1, 1], [1, 1], true),
            ([most, 1], [1, most], true),
            ([0, 1], [1, 1], false),
            ([1, 0], [1, 1], false),
            ([1, 1], [0, 1], false),
            ([1, 1], [1, 0], false),
            ([1, most + 1], [1, 1], false),
            ([1, 1], [most + 1, 1], false),
        ] {
            let found = Window::of(kernel, stride).is_ok();
            assert_eq!(found, possible, "{kernel:?} by {stride:?}");
        }
    }

    #[test]
    fn windows_lie_within_the_image() -> Result<(), Refusal> {
        let window = Window::of([3, 2], [2, 3])?;
        // Rows 0, 2, 4 and 6 begin windows of 3 in 9 or 10 rows, columns 0, 3 and 6 such of 2 in 8 to 10 columns.
        for (height, width, expected) in [
            (9, 8, [4, 3]),
            (10, 10, [4, 3]),
            (11, 11, [5, 4]),
            (3, 2, [1, 1]),
            (4, 7, [1, 2]),
        ] {
            assert_eq!(window.results(height, width)?, expected);
        }
        assert!(window.results(2, 9).is_err());
        assert!(window.results(9, 1).is_err());
        Ok(())
    }

    #[test]
    fn pairs_of_aligned_rows_are_read_in_packs() -> Result<(), Refusal> {
        let images = Images {
            shape: [2, 3, 8, 16],
            strides: [384, 128, 16, 1],
            start: Pointer::NULL.offset(64),
            size: 4,
        };
        let pairs = Window::of([5, 2], [3, 2])?;
        assert_eq!(lanes(&images, &pairs, 8), 2);
        assert_eq!(lanes(&images, &pairs, 6), 2);
        assert_eq!(lanes(&images, &pairs, 7), 1);
        // As many as 16 bytes have pairs.
        for (size, expected) in [(1, 8), (2, 4), (4, 2), (8, 1)] {
            let images = Images { size, ..images };
            assert_eq!(lanes(&images, &pairs, 8), expected, "{size} bytes");
        }
        for (kernel, stride) in [([2, 3], [2, 2]), ([2, 1], [2, 2]), ([2, 2], [2, 1])] {
            let window = Window::of(kernel, stride)?;
            assert_eq!(lanes(&images, &window, 8), 1, "{kernel:?} by {stride:?}");
        }
        for strides in [
            [384, 128, 16, 2],
            [384, 128, 18, 1],
            [384, 130, 16, 1],
            [386, 128, 16, 1],
        ] {
            let images = Images { strides, ..images };
            assert_eq!(lanes(&images, &pairs, 8), 1, "{strides:?}");
        }
        for (start, expected) in [(16, 2), (8, 1), (20, 1)] {
            let start = Pointer::NULL.offset(start);
            let images = Images { start, ..images };
            assert_eq!(lanes(&images, &pairs, 8), expected, "{start:?}");
        }
        Ok(())
    }
}
