//! Pooling: one number for each window of an image.
use super::operand::{kernel, uninit, Operand};
use super::planes::images;
use crate::rocm_backend::plan::table::pool as table;
use crate::rocm_backend::plan::{self, Op, Pooled, Window};
use crate::rocm_backend::RocmStorage;
use crate::{Layout, Result};

/// The windows' means; (b, c, h, w) to (b, c, (h - kernel.0) / stride.0 + 1, (w - kernel.1) / stride.1 + 1).
pub(in crate::rocm_backend) fn avg_pool2d(
    x: &RocmStorage,
    layout: &Layout,
    kernel: (usize, usize),
    stride: (usize, usize),
) -> Result<RocmStorage> {
    let (op, x) = (&table::AVG_POOL2D, Operand::new(x, layout));
    pool(op, Pooled::Mean, x, kernel, stride, "avg-pool2d")
}

/// The windows' largest elements; of the shape that `avg_pool2d` gives.
pub(in crate::rocm_backend) fn max_pool2d(
    x: &RocmStorage,
    layout: &Layout,
    kernel: (usize, usize),
    stride: (usize, usize),
) -> Result<RocmStorage> {
    let (op, x) = (&table::MAX_POOL2D, Operand::new(x, layout));
    pool(op, Pooled::Largest, x, kernel, stride, "max-pool2d")
}

fn pool(
    op: &Op,
    pooled: Pooled,
    x: Operand<'_>,
    window: (usize, usize),
    stride: (usize, usize),
    name: &'static str,
) -> Result<RocmStorage> {
    let window = Window::of(window.into(), stride.into())?;
    let (batch, channels, height, width) = x.layout.shape().dims4()?;
    let [rows, columns] = window.results(height, width)?;
    let kernel = kernel(op, &[x.element(name)?], x.dtype(), name)?;
    let y = uninit(batch * channels * rows * columns, x.dtype(), x.device())?;
    let (device, images) = (x.device(), images(x)?);
    plan::pool(device, kernel, pooled, &images, &window, y.pointer())?;
    Ok(y)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::BackendDevice;
    use crate::rocm_backend::testing::{gpu, launches_of, Launched};
    use crate::rocm_backend::RocmDevice;

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
