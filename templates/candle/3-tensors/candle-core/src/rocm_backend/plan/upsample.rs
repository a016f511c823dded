//! Images brought to another size.
use super::family::Kernel;
use super::launch::{Argument, Pointer};
use super::launcher::{Launcher, Refusal};
use super::planes::{paint, Canvas, Images, PlaneKernel};
use super::table::upsample as table;

/// Each pixel of `y`, (batch, channels, height, width) and contiguous, is that of `x` at floor(i * own / target) of rows
/// and columns. The kernel is the one for the bits of x's elements.
pub(crate) fn nearest<L: Launcher>(
    launcher: &L,
    kernel: Kernel,
    x: &Images,
    [height, width]: [usize; 2],
    y: Pointer,
) -> Result<(), L::Error> {
    let [.., own_height, own_width] = x.shape;
    // A thread of several pixels counts in 32 bits.
    let most = if x.plane_reach() <= i32::MAX as usize {
        table::NEAREST_LANES
    } else {
        1
    };
    let canvas = Canvas {
        height,
        width,
        lanes: lanes(x.size, most, width),
    };
    let (rows, columns) = (ratio(own_height, height), ratio(own_width, width));
    resample(launcher, kernel, x, canvas, &[&rows, &columns], y)
}

/// How the pixels of image and result are aligned.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Aligned {
    /// The corner pixels of the image and the result.
    Corners,
    /// Their outer edges; a factor, of rows and of columns, stands for the ratio of the sizes.
    Edges([Option<f64>; 2]),
}

/// `y`, (batch, channels, height, width) and contiguous, is interpolated.
pub(crate) fn bilinear<L: Launcher>(
    launcher: &L,
    kernel: Kernel,
    x: &Images,
    [height, width]: [usize; 2],
    aligned: Aligned,
    y: Pointer,
) -> Result<(), L::Error> {
    let [.., own_height, own_width] = x.shape;
    let scale = |own, target, d: usize| match aligned {
        Aligned::Corners => between_corners(own, target),
        Aligned::Edges(factors) => factors[d].map_or(ratio(own, target), |factor: f64| 1. / factor),
    };
    let places = Places {
        row_scale: scale(own_height, height, 0),
        column_scale: scale(own_width, width, 1),
        shift: match aligned {
            Aligned::Corners => 0.,
            Aligned::Edges(_) => 0.5,
        },
    };
    let canvas = Canvas {
        height,
        width,
        lanes: lanes(x.size, table::BILINEAR_LANES, width),
    };
    resample(launcher, kernel, x, canvas, &[&places], y)
}

/// `candle::Resampling`: a result's coordinate i is that of the source at scale * (i + shift) - shift.
#[repr(C)]
struct Places {
    row_scale: f64,
    column_scale: f64,
    shift: f64,
}

// SAFETY: the same fields in the same order, with C's layout on both sides.
unsafe impl Argument for Places {}

/// Source pixels for each of the result's where the corner pixels coincide.
fn between_corners(own: usize, target: usize) -> f64 {
    if target > 1 {
        own.saturating_sub(1) as f64 / (target - 1) as f64
    } else {
        0.
    }
}

/// Source pixels for each of the result's where the outer edges coincide.
fn ratio(own: usize, target: usize) -> f64 {
    own as f64 / target.max(1) as f64
}

/// Results of a row that are one thread's: 16 bytes of elements of `size`, but no more than `most`; 1 where a row is no
/// multiple of them.
fn lanes(size: usize, most: usize, width: usize) -> usize {
    let lanes = (16 / size).min(most);
    if width.is_multiple_of(lanes) {
        lanes
    } else {
        1
    }
}

fn resample<L: Launcher>(
    launcher: &L,
    kernel: Kernel,
    x: &Images,
    canvas: Canvas,
    numbers: &[&dyn Argument],
    y: Pointer,
) -> Result<(), L::Error> {
    let [batch, channels, height, width] = x.shape;
    let (rows, columns) = (canvas.height, canvas.width);
    if batch * channels * rows * columns > 0 && height * width == 0 {
        return Err(Refusal(format!(
            "an image of {height} by {width} has nothing to make {rows} by {columns} of"
        ))
        .into());
    }
    let kernel = PlaneKernel {
        kernel,
        block: table::BLOCK,
        blocks: table::BLOCKS,
    };
    paint(launcher, &kernel, x, y, canvas, numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_are_pixels_to_a_pixel() {
        assert_eq!((ratio(3, 2), ratio(2, 8), ratio(5, 0)), (1.5, 0.25, 5.));
        for (own, target, scale) in [(5, 9, 0.5), (5, 2, 4.), (5, 1, 0.), (5, 0, 0.)] {
            assert_eq!(between_corners(own, target), scale, "{own} to {target}");
        }
        assert_eq!((between_corners(1, 4), between_corners(0, 4)), (0., 0.));
    }

    #[test]
    fn a_thread_writes_16_bytes_of_a_row() {
        for (size, most, width, expected) in [
            (4, 8, 8, 4),
            (4, 8, 12, 4),
            (4, 8, 4, 4),
            (4, 8, 6, 1),
            (4, 2, 6, 2),
            (8, 8, 8, 2),
            (1, 8, 16, 8),
            (2, 8, 24, 8),
            (2, 8, 20, 1),
        ] {
            let found = lanes(size, most, width);
            assert_eq!(found, expected, "{width} of {size} bytes, at most {most}");
        }
    }
}
