//! Images unfolded into the rows of a matrix, and such rows added up again.
use super::family::Kernel;
use super::launch::{Argument, Launch, Pointer};
use super::launcher::{Launcher, Refusal};
use super::planes::{paint, Canvas, Images, PlaneKernel, Planes};
use super::table::{im2col as table, Element};
use super::views::Divisor;

/// The largest number that kernels compute places with.
pub(crate) const MAX_PLACE: usize = i32::MAX as usize;

/// The windows that a convolution looks through; rows before columns where there are two numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) kernel: [usize; 2],
    pub(crate) padding: [usize; 2],
    pub(crate) stride: usize,
    pub(crate) dilation: usize,
}

impl Window {
    /// Height and width of the result for an image of these sizes; an error if no window fits.
    pub(crate) fn results(&self, sizes: [usize; 2]) -> Result<[usize; 2], Refusal> {
        let mut results = [0; 2];
        for (d, result) in results.iter_mut().enumerate() {
            let padded = sizes[d] + 2 * self.padding[d];
            let taps = self.kernel[d].checked_sub(1);
            let span = taps.and_then(|taps| padded.checked_sub(self.dilation * taps + 1));
            let (Some(span), true, true) = (span, self.stride > 0, padded <= MAX_PLACE) else {
                return Err(Refusal(format!(
                    "cannot convolve an image of {sizes:?} with {self:?}"
                )));
            };
            *result = span / self.stride + 1;
        }
        Ok(results)
    }

    /// The same of a transposed convolution: `out_w` in candle-core/src/conv.rs.
    pub(crate) fn transposed_results(
        &self,
        sizes: [usize; 2],
        output_padding: [usize; 2],
    ) -> Result<[usize; 2], Refusal> {
        let mut results = [0; 2];
        for (d, result) in results.iter_mut().enumerate() {
            let steps = sizes[d].checked_sub(1).zip(self.kernel[d].checked_sub(1));
            let whole = steps.map(|(inputs, taps)| {
                inputs * self.stride + self.dilation * taps + output_padding[d] + 1
            });
            let inside = whole.and_then(|whole| whole.checked_sub(2 * self.padding[d]));
            let (Some(inside), true) = (inside, self.stride > 0) else {
                return Err(Refusal(format!(
                    "cannot convolve an image of {sizes:?} with {self:?}, transposed"
                )));
            };
            if inside + self.padding[d] > MAX_PLACE {
                return Err(Refusal(format!(
                    "a result of {inside} pixels in a row is too large"
                )));
            }
            *result = inside;
        }
        Ok(results)
    }
}

/// `candle::Windows`.
#[repr(C)]
struct Windows {
    stride: u32,
    dilation: u32,
    row_padding: u32,
    column_padding: u32,
}

// SAFETY: the same fields in the same order, with C's layout on both sides.
unsafe impl Argument for Windows {}

/// `candle::Unfolding`: how blocks cut the matrix, and how LDS holds what a part is made of.
#[repr(C)]
struct Unfolding {
    tiles: Divisor,
    result_rows: Divisor,
    first_tile: u32,
    first_row: u32,
    result_width: u32,
    kernel_height: Divisor,
    kernel_rows: u32,
    kernel_width: u32,
    tile_pixels: u32,
    tile_rows: u32,
    tile_taps: Divisor,
    length: u32,
    segment: Divisor,
    segment_step: u32,
    element_step: u32,
    tap_step: u32,
    pixel_step: u32,
    pitch: u32,
    readers: u32,
}

// SAFETY: as above.
unsafe impl Argument for Unfolding {}

/// What a block unfolds: pixels of one row of the result, for some taps of some rows of kernels.
struct Tile {
    pixels: usize,
    rows: usize,
    taps: usize,
    /// Whether LDS has whole spans of the image, not one element for each tap and pixel.
    spans: bool,
    /// Elements of a row in LDS.
    length: usize,
    /// Between rows in LDS.
    pitch: usize,
}

impl Tile {
    /// The tile for elements of `size` bytes that fits into so much LDS. A row of the result has `columns` pixels, and all
    /// channels together have `kernel_rows` rows of kernels.
    fn of(
        window: &Window,
        columns: usize,
        kernel_rows: usize,
        size: usize,
        tile_bytes: usize,
    ) -> Self {
        let room = tile_bytes / size;
        let [_, width] = window.kernel;
        let mut taps = width;
        let beyond = table::SPAN_BYTES / size;
        let spanned = beyond.saturating_sub((taps - 1) * window.dilation + 1) / window.stride + 1;
        let mut pixels = columns.div_ceil(columns.div_ceil(spanned.max(table::TILE_PIXELS)));
        while row_length(window, pixels, taps).0 > room && pixels > 1 {
            pixels /= 2;
        }
        if row_length(window, pixels, taps).0 > room {
            taps = room;
        }
        let (length, spans) = row_length(window, pixels, taps);
        // Lanes that go on from one row to the next find it in the banks that follow.
        let next = taps * if spans { window.dilation } else { 1 };
        let banks = table::LDS_BANKS / size;
        let pitch = length + (next + banks - length % banks) % banks;
        let rows = if taps == width {
            tile_rows(room / pitch, kernel_rows, table::PACK_BYTES / size)
        } else {
            1
        };
        Self {
            pixels,
            rows,
            taps,
            spans,
            length,
            pitch,
        }
    }

    /// Elements of LDS.
    fn elements(&self) -> usize {
        (self.rows - 1) * self.pitch + self.length
    }
}

/// All rows of kernels if there is room for them, else whole packs of columns.
fn tile_rows(most: usize, kernel_rows: usize, lanes: usize) -> usize {
    if kernel_rows <= most {
        return kernel_rows;
    }
    (most / lanes * lanes).max(most.min(lanes)).max(1)
}

/// Elements of a row in LDS, and whether they are a whole span of the image.
fn row_length(window: &Window, pixels: usize, taps: usize) -> (usize, bool) {
    let span = (pixels - 1) * window.stride + (taps - 1) * window.dilation + 1;
    let each = pixels * taps;
    (span.min(each), span <= each)
}

/// Unfolds `count` images from number `first` on: to (count, results, channels * kernel), contiguous from `y` on. All
/// numbers are at least 1.
pub(crate) fn im2col<L: Launcher>(
    launcher: &L,
    element: Element,
    x: &Images,
    (first, count): (usize, usize),
    window: &Window,
    results: [usize; 2],
    y: Pointer,
) -> Result<(), L::Error> {
    let limits = launcher.limits();
    let [height, width] = results;
    let kernel_rows = x.shape[1] * window.kernel[0];
    let pixel = kernel_rows * window.kernel[1];
    let tile_bytes = table::TILE_BYTES.on(launcher.tuning());
    let tile = Tile::of(window, width, kernel_rows, x.size, tile_bytes);
    let tiles = height * width.div_ceil(tile.pixels);
    let Some(kernel) = table::IM2COL.kernel(&[element.bits()]) else {
        let refusal = format!("no kernel unfolds elements of {} bytes", x.size);
        return Err(Refusal(refusal).into());
    };
    let windows = Windows {
        stride: window.stride as u32,
        dilation: window.dilation as u32,
        row_padding: window.padding[0] as u32,
        column_padding: window.padding[1] as u32,
    };
    let wave = launcher.card().wave_size;
    let at_once = (limits.blocks / tiles).max(1);
    for part in (0..count).step_by(at_once) {
        let images = at_once.min(count - part);
        let planes: Planes = x.pack(images)?;
        let read = x.start.offset((first + part) * x.strides[0] * x.size);
        let written = y.offset(part * height * width * pixel * x.size);
        let rows = (0..kernel_rows).step_by(tile.rows * limits.blocks_y);
        for row in rows {
            for start in (0..images * tiles).step_by(limits.blocks) {
                let blocks = limits.blocks.min(images * tiles - start);
                let unfolding = unfolding(window, &tile, results, kernel_rows, (start, row), wave);
                let launch = Launch::new(launcher, kernel)
                    .threads(blocks, table::BLOCK)
                    .blocks_y((kernel_rows - row).div_ceil(tile.rows).min(limits.blocks_y))
                    .blocks_z(window.kernel[1].div_ceil(tile.taps))
                    .lds(tile.elements() * x.size);
                let launch = launch.arg(&written).arg(&read).arg(&planes);
                // SAFETY: the arguments of im2col kernels; y has a row for each pixel, the images lie within
                // their memory, and what lies outside of an image is not read.
                unsafe { launch.arg(&windows).arg(&unfolding).enqueue() }?;
            }
        }
    }
    Ok(())
}

fn unfolding(
    window: &Window,
    tile: &Tile,
    [height, width]: [usize; 2],
    kernel_rows: usize,
    (first_tile, first_row): (usize, usize),
    wave: usize,
) -> Unfolding {
    let (stride, dilation) = (window.stride as u32, window.dilation as u32);
    let (segment, [segment_step, element_step, tap_step, pixel_step]) = if tile.spans {
        (tile.length, [0, 1, dilation, stride])
    } else {
        (tile.taps, [stride, dilation, 1, tile.taps as u32])
    };
    Unfolding {
        tiles: Divisor::of(width.div_ceil(tile.pixels)),
        result_rows: Divisor::of(height),
        first_tile: first_tile as u32,
        first_row: first_row as u32,
        result_width: width as u32,
        kernel_height: Divisor::of(window.kernel[0]),
        kernel_rows: kernel_rows as u32,
        kernel_width: window.kernel[1] as u32,
        tile_pixels: tile.pixels as u32,
        tile_rows: tile.rows as u32,
        tile_taps: Divisor::of(tile.taps),
        length: tile.length as u32,
        segment: Divisor::of(segment),
        segment_step,
        element_step,
        tap_step,
        pixel_step,
        pitch: tile.pitch as u32,
        readers: tile.length.next_power_of_two().min(wave) as u32,
    }
}

/// Adds up windows that begin `stride` apart: `x`, (b, c, l, k), to (b, c, (l - 1) * stride + k), contiguous from `y` on.
pub(crate) fn col2im1d<L: Launcher>(
    launcher: &L,
    kernel: Kernel,
    x: &Images,
    stride: usize,
    y: Pointer,
) -> Result<(), L::Error> {
    let kernel = PlaneKernel {
        kernel,
        block: table::BLOCK,
        blocks: table::BLOCKS,
    };
    let [_, _, length, taps] = x.shape;
    let canvas = Canvas {
        height: 1,
        width: (length - 1) * stride + taps,
        lanes: 1,
    };
    let numbers: [&dyn Argument; 2] = [&Divisor::of(stride), &(taps as u32)];
    paint(launcher, &kernel, x, y, canvas, &numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(kernel: [usize; 2], stride: usize, dilation: usize) -> Window {
        Window {
            kernel,
            padding: [0; 2],
            stride,
            dilation,
        }
    }

    #[test]
    fn as_many_results_as_windows_fit() -> Result<(), Refusal> {
        let padded = Window {
            padding: [1, 2],
            ..window([3, 4], 2, 3)
        };
        // Windows span 7 rows and 10 columns; 9 rows and 15 columns are there.
        assert_eq!(padded.results([7, 11])?, [2, 3]);
        assert_eq!(padded.results([5, 6])?, [1, 1]);
        assert!(padded.results([4, 6]).is_err());
        assert!(padded.results([5, 5]).is_err());
        assert_eq!(window([1, 1], 1, 5).results([3, 2])?, [3, 2]);
        assert!(window([0, 1], 1, 1).results([3, 2]).is_err());
        assert!(window([1, 1], 0, 1).results([3, 2]).is_err());
        let widest = window([1, 1], MAX_PLACE, 1);
        assert_eq!(widest.results([1, MAX_PLACE])?, [1, 1]);
        assert!(widest.results([1, MAX_PLACE + 1]).is_err());
        Ok(())
    }

    #[test]
    fn transposed_windows_reach_further() -> Result<(), Refusal> {
        let padded = Window {
            padding: [1, 2],
            ..window([3, 4], 2, 3)
        };
        // (inputs - 1) * 2 + 3 * (taps - 1) + 1, more, and less the padding.
        assert_eq!(padded.transposed_results([5, 6], [0, 0])?, [13, 16]);
        assert_eq!(padded.transposed_results([5, 6], [1, 2])?, [14, 18]);
        assert_eq!(
            window([1, 1], 1, 1).transposed_results([1, 1], [0; 2])?,
            [1, 1]
        );
        assert!(padded.transposed_results([0, 6], [0, 0]).is_err());
        assert!(window([0, 1], 1, 1)
            .transposed_results([1, 1], [0; 2])
            .is_err());
        assert!(window([1, 1], 0, 1)
            .transposed_results([1, 1], [0; 2])
            .is_err());
        let margin = Window {
            padding: [2, 0],
            ..window([4, 1], 1, 1)
        };
        assert_eq!(margin.transposed_results([1, 1], [0; 2])?, [0, 1]);
        let margin = Window {
            padding: [3, 0],
            ..margin
        };
        assert!(margin.transposed_results([1, 1], [0; 2]).is_err());
        let far = |inputs| window([1, 1], 1, 1).transposed_results([1, inputs], [0; 2]);
        assert_eq!(far(MAX_PLACE)?, [1, MAX_PLACE]);
        assert!(far(MAX_PLACE + 1).is_err());
        let padded = Window {
            padding: [0, 5],
            ..window([1, 11], 1, 1)
        };
        assert_eq!(
            padded.transposed_results([1, MAX_PLACE - 5], [0; 2])?,
            [1, MAX_PLACE - 5]
        );
        assert!(padded
            .transposed_results([1, MAX_PLACE - 4], [0; 2])
            .is_err());
        Ok(())
    }

    /// Pixels, rows, taps, whether LDS has spans, length and pitch.
    fn tile(
        window: &Window,
        columns: usize,
        kernel_rows: usize,
        size: usize,
    ) -> (usize, usize, usize, bool, usize, usize) {
        let tile = Tile::of(window, columns, kernel_rows, size, 16 << 10);
        assert!(tile.elements() * size <= 16 << 10);
        assert_eq!(
            tile.elements(),
            (tile.rows - 1) * tile.pitch + tile.length,
            "the last row needs no gap"
        );
        let Tile {
            pixels,
            rows,
            taps,
            spans,
            length,
            pitch,
        } = tile;
        (pixels, rows, taps, spans, length, pitch)
    }

    #[test]
    fn tiles_hold_what_neighbours_share() {
        let plain = window([3, 3], 1, 1);
        // A span of 58 elements serves 56 pixels. The next row begins 3 banks on: 67 = 64 + 3. There is room for 122
        // rows, which makes 120 in whole packs of 4.
        assert_eq!(tile(&plain, 56, 192, 2), (56, 120, 3, true, 58, 67));
        assert_eq!(tile(&plain, 56, 122, 2).1, 122, "all that are there");
        assert_eq!(tile(&plain, 56, 123, 2).1, 120);
        assert_eq!(tile(&plain, 56, 9, 2).1, 9);
        // Spans are 128 bytes: 62 pixels, so that 1000 need 17 tiles of 59; of 4 bytes 30 pixels.
        assert_eq!(tile(&plain, 1000, 9, 2), (59, 9, 3, true, 61, 67));
        assert_eq!(tile(&plain, 1000, 9, 4), (30, 9, 3, true, 32, 35));
        assert_eq!(
            tile(&window([3, 3], 2, 1), 28, 9, 2),
            (28, 9, 3, true, 57, 67)
        );
        // Dilated taps are as far apart as their banks.
        assert_eq!(
            tile(&window([3, 3], 1, 5), 40, 9, 2),
            (40, 9, 3, true, 50, 79)
        );
        // Where strides leave gaps, only what is needed lies in LDS.
        assert_eq!(
            tile(&window([3, 3], 4, 1), 16, 9, 2),
            (16, 9, 3, false, 48, 67)
        );
        assert_eq!(
            tile(&window([1, 1], 2, 1), 16, 9, 2),
            (16, 9, 1, false, 16, 65)
        );
        assert_eq!(
            tile(&window([1, 1], 1, 1), 16, 9, 2),
            (16, 9, 1, true, 16, 65)
        );
        // At least 16 pixels, however few fit into a span.
        assert_eq!(
            tile(&window([1, 3], 40, 1), 33, 1, 2),
            (11, 1, 3, false, 33, 67)
        );
    }

    #[test]
    fn tiles_of_large_windows_are_cut() {
        // Of 40 pixels in tiles of 14, 7 and 3 do not fit; one takes half of the room, two rows all of it.
        let wide = window([1, 4000], 1, 3);
        assert_eq!(tile(&wide, 40, 10, 2), (1, 2, 4000, false, 4000, 4000));
        // Two pixels take exactly the room that there is.
        let even = window([1, 4096], 4096, 1);
        assert_eq!(tile(&even, 2, 10, 2), (2, 1, 4096, true, 8192, 8192));
        let more = window([1, 4097], 4097, 1);
        assert_eq!(tile(&more, 2, 10, 2), (1, 1, 4097, true, 4097, 4097));
        // More taps than there is room for.
        assert_eq!(
            tile(&window([1, 8192], 1, 1), 3, 10, 2),
            (1, 1, 8192, true, 8192, 8192)
        );
        assert_eq!(
            tile(&window([1, 8193], 1, 1), 3, 10, 2),
            (1, 1, 8192, true, 8192, 8192)
        );
        assert_eq!(
            tile(&window([1, 9999], 1, 2), 3, 10, 2),
            (1, 1, 8192, false, 8192, 8192)
        );
    }

    #[test]
    fn rows_of_kernels_come_in_whole_packs() {
        for (most, kernel_rows, rows) in [
            (8, 8, 8),
            (7, 8, 4),
            (8, 9, 8),
            (11, 12, 8),
            (3, 12, 3),
            (1, 12, 1),
            (0, 12, 1),
        ] {
            assert_eq!(
                tile_rows(most, kernel_rows, 4),
                rows,
                "{most} of {kernel_rows}"
            );
        }
    }

    #[test]
    fn every_tile_fits_into_lds() {
        // A sequence without a period that matters, as exponents of sizes.
        let mut state = 7u64;
        let mut next = |most: u64| {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (state >> 33) % (most + 1)
        };
        for _ in 0..2000 {
            let [taps, stride, dilation, columns] = [14, 8, 12, 12].map(|most| {
                let power = next(most);
                (1usize << power) + next((1 << power) - 1) as usize
            });
            let (rows, size) = (1 + next(5000) as usize, 1 << next(3));
            let window = window([1, taps], stride, dilation);
            let tile = Tile::of(&window, columns, rows, size, 16 << 10);
            assert!(tile.elements() * size <= 16 << 10, "{window:?}, {columns}");
            assert!(tile.pixels <= columns, "{window:?}, {columns}");
            assert!(tile.rows == 1 || tile.taps == taps, "{window:?}, {columns}");
        }
    }
}
