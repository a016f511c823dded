//! Pooling: one number for each window of an image.
use super::operand::{kernel, uninit, Operand};
use super::planes::{paint, Canvas, Images, PlaneKernel};
use crate::rocm_backend::plan::table::pool as table;
use crate::rocm_backend::plan::{Argument, Op};
use crate::rocm_backend::RocmStorage;
use crate::{Layout, Result};

/// The windows' means; (b, c, h, w) to (b, c, (h - kernel.0) / stride.0 + 1, (w - kernel.1) / stride.1 + 1).
pub(in crate::rocm_backend) fn avg_pool2d(
    x: &RocmStorage,
    layout: &Layout,
    kernel: (usize, usize),
    stride: (usize, usize),
) -> Result<RocmStorage> {
    let window = Window::of(kernel, stride)?;
    let inverse = 1. / (kernel.0 * kernel.1) as f64;
    let (op, x) = (&table::AVG_POOL2D, Operand::new(x, layout));
    pool(op, x, &window, &[&window, &inverse], "avg-pool2d")
}

/// The windows' largest elements; of the shape that `avg_pool2d` gives.
pub(in crate::rocm_backend) fn max_pool2d(
    x: &RocmStorage,
    layout: &Layout,
    kernel: (usize, usize),
    stride: (usize, usize),
) -> Result<RocmStorage> {
    let window = Window::of(kernel, stride)?;
    let (op, x) = (&table::MAX_POOL2D, Operand::new(x, layout));
    pool(op, x, &window, &[&window], "max-pool2d")
}

/// `candle::Window`.
#[derive(Debug)]
#[repr(C)]
struct Window {
    height: u32,
    width: u32,
    row_stride: u32,
    column_stride: u32,
}

// SAFETY: the same fields in the same order, with C's layout on both sides.
unsafe impl Argument for Window {}

impl Window {
    /// An error for a window without pixels, or sizes that kernels have no number for.
    fn of(kernel: (usize, usize), stride: (usize, usize)) -> Result<Self> {
        let numbers = [kernel.0, kernel.1, stride.0, stride.1];
        let possible = 1..=u32::MAX as usize;
        if !numbers.iter().all(|number| possible.contains(number)) {
            crate::bail!("cannot pool with a window of {kernel:?} and a stride of {stride:?}")
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
    fn results(&self, height: usize, width: usize) -> Result<(usize, usize)> {
        let rows = height.checked_sub(self.height as usize);
        let columns = width.checked_sub(self.width as usize);
        let (Some(rows), Some(columns)) = (rows, columns) else {
            crate::bail!("{self:?} does not fit into an image of {height} by {width}")
        };
        let (row_stride, column_stride) = (self.row_stride as usize, self.column_stride as usize);
        Ok((rows / row_stride + 1, columns / column_stride + 1))
    }
}

/// `numbers` are what the kernel takes besides x, y and their sizes.
fn pool(
    op: &Op,
    x: Operand<'_>,
    window: &Window,
    numbers: &[&dyn Argument],
    name: &'static str,
) -> Result<RocmStorage> {
    let (batch, channels, height, width) = x.layout.shape().dims4()?;
    let (rows, columns) = window.results(height, width)?;
    let kernel = PlaneKernel {
        kernel: kernel(op, &[x.element(name)?], x.dtype(), name)?,
        block: table::BLOCK,
        blocks: table::BLOCKS,
    };
    let y = uninit(batch * channels * rows * columns, x.dtype(), x.device())?;
    let images = Images::of(x)?;
    let canvas = Canvas {
        height: rows,
        width: columns,
        lanes: lanes(&images, window, columns),
    };
    paint(x.device(), &kernel, &images, y.pointer(), canvas, numbers)?;
    Ok(y)
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
    use crate::backend::BackendDevice;
    use crate::rocm_backend::plan::Pointer;
    use crate::rocm_backend::testing::{gpu, launches_of, Launched};
    use crate::rocm_backend::RocmDevice;

    #[test]
    fn a_window_has_pixels_and_numbers_that_kernels_have() {
        let most = u32::MAX as usize;
        for (kernel, stride, possible) in [
            ((1, 1), (1, 1), true),
            ((most, 1), (1, most), true),
            ((0, 1), (1, 1), false),
            ((1, 0), (1, 1), false),
            ((1, 1), (0, 1), false),
            ((1, 1), (1, 0), false),
            ((1, most + 1), (1, 1), false),
            ((1, 1), (most + 1, 1), false),
        ] {
            let found = Window::of(kernel, stride).is_ok();
            assert_eq!(found, possible, "{kernel:?} by {stride:?}");
        }
    }

    #[test]
    fn windows_lie_within_the_image() -> Result<()> {
        let window = Window::of((3, 2), (2, 3))?;
        // Rows 0, 2, 4 and 6 begin windows of 3 in 9 or 10 rows, columns 0, 3 and 6 such of 2 in 8 to 10 columns.
        for (height, width, expected) in [
            (9, 8, (4, 3)),
            (10, 10, (4, 3)),
            (11, 11, (5, 4)),
            (3, 2, (1, 1)),
            (4, 7, (1, 2)),
        ] {
            assert_eq!(window.results(height, width)?, expected);
        }
        assert!(window.results(2, 9).is_err());
        assert!(window.results(9, 1).is_err());
        Ok(())
    }

    #[test]
    fn pairs_of_aligned_rows_are_read_in_packs() -> Result<()> {
        let images = Images {
            shape: [2, 3, 8, 16],
            strides: [384, 128, 16, 1],
            start: Pointer::NULL.offset(64),
            size: 4,
        };
        let pairs = Window::of((5, 2), (3, 2))?;
        assert_eq!(lanes(&images, &pairs, 8), 2);
        assert_eq!(lanes(&images, &pairs, 6), 2);
        assert_eq!(lanes(&images, &pairs, 7), 1);
        // As many as 16 bytes have pairs.
        for (size, expected) in [(1, 8), (2, 4), (4, 2), (8, 1)] {
            let images = Images { size, ..images };
            assert_eq!(lanes(&images, &pairs, 8), expected, "{size} bytes");
        }
        for (kernel, stride) in [((2, 3), (2, 2)), ((2, 1), (2, 2)), ((2, 2), (2, 1))] {
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

    /// The largest of windows of 2 by 2 without overlap, found by loops, and the launches for them.
    fn pooled(device: &RocmDevice, shape: [usize; 4]) -> Result<Vec<Launched>> {
        let [batch, channels, height, width] = shape;
        let count: usize = shape.iter().product();
        let data: Vec<f32> = (0..count).map(|i| (i * 7919 % 10007) as f32).collect();
        let x = device.storage_from_slice(&data)?;
        let layout = Layout::contiguous(&shape[..]);
        let (y, launches) = launches_of(|| max_pool2d(&x, &layout, (2, 2), (2, 2)));
        let y = y?;
        let (rows, columns) = (height / 2, width / 2);
        assert_eq!(y.size(), 4 * batch * channels * rows * columns);
        let mut found = vec![0; y.size()];
        y.copy_to_host(&mut found)?;
        let mut wanted: Vec<u8> = Vec::new();
        for place in 0..batch * channels * rows * columns {
            let (row, column) = (place / columns % rows, place % columns);
            let plane = place / (rows * columns);
            let at = |i, j| data[(plane * height + 2 * row + i) * width + 2 * column + j];
            let most = at(0, 0).max(at(0, 1)).max(at(1, 0)).max(at(1, 1));
            wanted.extend(most.to_ne_bytes());
        }
        assert!(found == wanted, "{shape:?}");
        Ok(launches)
    }

    #[test]
    fn a_launch_takes_as_many_planes_and_rows_as_fit() -> Result<()> {
        let Some(device) = gpu("a_launch_takes_as_many_planes_and_rows_as_fit") else {
            return Ok(());
        };
        // Threads along pixels and planes, blocks along them. Two results of a row are one thread's.
        let geometry = |launch: &Launched| {
            let ([x, y], [across, down, _]) = (launch.block, launch.grid);
            [x, y, across, down]
        };
        for (shape, expected) in [
            // 6 planes of 8 times 16: all at once.
            ([3, 2, 16, 64], &[[128, 2, 1, 3]][..]),
            // 4096 planes in a launch: two images, then the third.
            ([3, 1500, 4, 6], &[[8, 32, 1, 5], [8, 32, 1, 5]]),
            // 4096 places in a launch: three rows of 1250, then one.
            ([1, 2, 8, 5000], &[[256, 1, 15, 2], [256, 1, 5, 2]]),
        ] {
            let launches = pooled(&device, shape)?;
            let found: Vec<_> = launches.iter().map(geometry).collect();
            assert_eq!(found, expected, "{shape:?}");
        }
        for shape in [[0, 3, 4, 4], [2, 0, 4, 4]] {
            assert!(pooled(&device, shape)?.is_empty(), "{shape:?}");
        }
        Ok(())
    }
}
