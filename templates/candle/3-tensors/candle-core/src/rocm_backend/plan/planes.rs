//! Launches of kernels built on `candle_rocm/planes.h`: threads keep their place in a plane and walk over planes.
use super::family::Kernel;
use super::launch::{Argument, Launch, Pointer};
use super::launcher::{Launcher, Refusal};
use super::views::{Divisor, Operand, View};

/// A kernel (y, x, planes, canvas, numbers...) with its launch geometry.
pub(crate) struct PlaneKernel {
    pub(crate) kernel: Kernel,
    /// Threads of a block.
    pub(crate) block: usize,
    /// Blocks that fill any card; more than these share planes.
    pub(crate) blocks: usize,
}

/// Images (batch, channels, height, width) in memory; strides count elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Images {
    pub(crate) shape: [usize; 4],
    pub(crate) strides: [usize; 4],
    /// Address of the first element.
    pub(crate) start: Pointer,
    /// Bytes of an element.
    pub(crate) size: usize,
}

impl Images {
    /// A tensor of three dimensions as images of one row, one of four as it is; none of others.
    pub(crate) fn of(x: Operand<'_>) -> Result<Self, Refusal> {
        let (shape, strides) = match (x.view.shape, x.view.strides) {
            (&[batch, channels, length], &[image, channel, column]) => {
                ([batch, channels, 1, length], [image, channel, 0, column])
            }
            (&[batch, channels, height, width], &[image, channel, row, column]) => (
                [batch, channels, height, width],
                [image, channel, row, column],
            ),
            (shape, _) => return Err(Refusal(format!("{shape:?} are no images"))),
        };
        Ok(Self {
            shape,
            strides,
            start: x.start(),
            size: x.size,
        })
    }

    /// Elements from the first of a plane to the farthest from it.
    pub(crate) fn plane_reach(&self) -> usize {
        let reach = |d: usize| self.shape[d].saturating_sub(1) * self.strides[d];
        reach(2) + reach(3)
    }

    /// Whether the dimensions from `first` on lie in row-major order without gaps.
    pub(crate) fn contiguous_from(&self, first: usize) -> bool {
        let inner = View {
            shape: &self.shape[first..],
            strides: &self.strides[first..],
            offset: 0,
        };
        inner.is_contiguous()
    }

    /// `candle::Planes` for some of the batch.
    pub(crate) fn pack(&self, batch: usize) -> Result<Planes, Refusal> {
        let [_, channels, height, width] = self.shape;
        let largest = channels.max(height).max(width);
        if largest > i32::MAX as usize {
            let shape = self.shape;
            return Err(Refusal(format!(
                "images of shape {shape:?} are too large for a launch"
            )));
        }
        let [image, channel, row, column] = self.strides.map(|stride| stride as i64);
        Ok(Planes {
            channels: Divisor::of(channels),
            count: (batch * channels) as u32,
            height: height as u32,
            width: width as u32,
            image,
            channel,
            row,
            column,
        })
    }
}

/// `candle::Planes`: the planes of a view.
#[repr(C)]
pub(crate) struct Planes {
    channels: Divisor,
    count: u32,
    height: u32,
    width: u32,
    image: i64,
    channel: i64,
    row: i64,
    column: i64,
}

// SAFETY: the same fields in the same order, with C's layout on both sides.
unsafe impl Argument for Planes {}

/// The pixels of each plane of a contiguous result.
#[derive(Clone, Copy)]
pub(crate) struct Canvas {
    pub(crate) height: usize,
    pub(crate) width: usize,
    /// Neighbours of a row that are one thread's, of which a row has a whole number.
    pub(crate) lanes: usize,
}

impl Canvas {
    /// Threads for a row.
    fn packs(&self) -> usize {
        self.width / self.lanes
    }

    fn pack(&self, first_row: usize, rows: usize) -> KernelCanvas {
        KernelCanvas {
            packs: Divisor::of(self.packs()),
            lanes: self.lanes as u32,
            height: self.height as u32,
            width: self.width as u32,
            first_row: first_row as u32,
            rows: rows as u32,
        }
    }
}

/// `candle::Canvas`: what a launch computes of a canvas.
#[repr(C)]
struct KernelCanvas {
    packs: Divisor,
    lanes: u32,
    height: u32,
    width: u32,
    first_row: u32,
    rows: u32,
}

// SAFETY: as above.
unsafe impl Argument for KernelCanvas {}

/// Computes all of a result y, contiguous (batch, channels, canvas) of x's element size; `numbers` are the kernel's.
pub(crate) fn paint<L: Launcher>(
    launcher: &L,
    kernel: &PlaneKernel,
    x: &Images,
    y: Pointer,
    canvas: Canvas,
    numbers: &[&dyn Argument],
) -> Result<(), L::Error> {
    let [batch, channels, ..] = x.shape;
    let limits = launcher.limits();
    let pixels = canvas.height * canvas.width;
    if batch * channels * pixels == 0 {
        return Ok(());
    }
    let images_at_once = (limits.elements / channels).max(1);
    let rows_at_once = (limits.elements / canvas.packs()).max(1);
    for first in (0..batch).step_by(images_at_once) {
        let images = images_at_once.min(batch - first);
        let planes = x.pack(images)?;
        let read = x.start.offset(first * x.strides[0] * x.size);
        let written = y.offset(first * channels * pixels * x.size);
        for first_row in (0..canvas.height).step_by(rows_at_once) {
            let rows = rows_at_once.min(canvas.height - first_row);
            let part = canvas.pack(first_row, rows);
            let grid = Grid::of(
                rows * canvas.packs(),
                images * channels,
                kernel,
                limits.blocks_y,
            );
            let mut launch = Launch::new(launcher, kernel.kernel);
            launch = launch.threads(grid.blocks, grid.across);
            launch = launch.blocks_y(grid.turns).threads_y(grid.down);
            launch = launch.arg(&written).arg(&read).arg(&planes).arg(&part);
            for number in numbers {
                launch = launch.arg(*number);
            }
            // SAFETY: the arguments of kernels over planes; y has an element for each pixel of each plane, and x
            // lies within its memory.
            unsafe { launch.enqueue() }?;
        }
    }
    Ok(())
}

/// How a launch is laid out: places of a plane get their own threads, and planes share them once the card is full.
struct Grid {
    blocks: usize,
    turns: usize,
    across: usize,
    /// Where places do not fill a block, its second dimension goes over planes.
    down: usize,
}

impl Grid {
    fn of(places: usize, planes: usize, kernel: &PlaneKernel, most_turns: usize) -> Self {
        let across = places.next_power_of_two().min(kernel.block);
        let down = (kernel.block / across).min(planes);
        let blocks = places.div_ceil(across);
        let most = (kernel.blocks / blocks).clamp(1, most_turns);
        Self {
            blocks,
            turns: planes.div_ceil(down).min(most),
            across,
            down,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rocm_backend::plan::table::{self, Element};

    fn images(shape: [usize; 4], strides: [usize; 4]) -> Images {
        Images {
            shape,
            strides,
            start: Pointer::NULL,
            size: 4,
        }
    }

    #[test]
    fn a_plane_reaches_to_its_last_element() {
        let reach = |shape, strides| images(shape, strides).plane_reach();
        assert_eq!(reach([2, 3, 5, 7], [900, 300, 9, 1]), 4 * 9 + 6);
        assert_eq!(reach([2, 3, 5, 7], [900, 300, 2, 11]), 4 * 2 + 6 * 11);
        assert_eq!(reach([2, 3, 1, 1], [900, 300, 9, 1]), 0);
        assert_eq!(reach([2, 3, 0, 7], [0, 0, 7, 2]), 12);
    }

    #[test]
    fn contiguous_images_are_so_from_a_dimension_on() {
        for (strides, first) in [
            ([105, 35, 7, 1], 0),
            ([106, 35, 7, 1], 1),
            ([120, 40, 7, 1], 2),
            ([120, 40, 8, 1], 3),
        ] {
            let images = images([2, 3, 5, 7], strides);
            for from in 0..4 {
                let found = images.contiguous_from(from);
                assert_eq!(found, from >= first, "{strides:?} from {from} on");
            }
        }
        assert!(!images([2, 3, 5, 7], [210, 70, 14, 2]).contiguous_from(3));
    }

    #[test]
    fn kernels_count_planes_and_pixels_in_31_bits() -> Result<(), Refusal> {
        let planes = images([4, 3, 5, 7], [105, 35, 7, 1]).pack(2)?;
        assert_eq!((planes.count, planes.height, planes.width), (6, 5, 7));
        assert_eq!((planes.image, planes.channel), (105, 35));
        assert_eq!((planes.row, planes.column), (7, 1));
        let most = (1 << 31) - 1;
        for d in 1..4 {
            let of = |size| {
                let mut shape = [1; 4];
                shape[d] = size;
                images(shape, [1; 4]).pack(1)
            };
            assert!(of(most).is_ok(), "dimension {d}");
            assert!(of(most + 1).is_err(), "dimension {d}");
        }
        Ok(())
    }

    #[test]
    fn planes_share_blocks_where_places_do_not_fill_them() {
        let kernel = table::pool::MAX_POOL2D.kernel(&[Element::F32]);
        let kernel = PlaneKernel {
            kernel: kernel.expect("f32 has all kernels"),
            block: 256,
            blocks: 64,
        };
        // Places and planes; threads along both, blocks along places and along planes.
        for (places, planes, threads, blocks) in [
            (1, 1, [1, 1], [1, 1]),
            (9, 10, [16, 10], [1, 1]),
            (9, 16, [16, 16], [1, 1]),
            (9, 17, [16, 16], [1, 2]),
            (9, 1000, [16, 16], [1, 5]),
            (200, 3, [256, 1], [1, 3]),
            (257, 3, [256, 1], [2, 3]),
            // At most 64 blocks, and at least one for each 256 places.
            (20 * 256, 3, [256, 1], [20, 3]),
            (20 * 256 + 1, 4, [256, 1], [21, 3]),
            (40 * 256, 3, [256, 1], [40, 1]),
            (100 * 256, 3, [256, 1], [100, 1]),
        ] {
            let grid = Grid::of(places, planes, &kernel, 5);
            let what = format!("{planes} planes of {places}");
            assert_eq!([grid.across, grid.down], threads, "{what}");
            assert_eq!([grid.blocks, grid.turns], blocks, "{what}");
        }
    }
}
