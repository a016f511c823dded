//! How kernels of convolutions gather what they multiply, from operands as they lie in memory or from packed ones.
use super::conv::{Convolution, Tile};
use super::im2col::Window;
use super::launch::{Argument, Launch, Pointer, PACK};
use super::launcher::{Card, Launcher};
use super::planes::Images;
use super::table::conv as table;
use super::views::Divisor;

/// A convolution as kernels see it, whose places may lie in any direction.
#[derive(Clone, Copy)]
pub(super) struct Gathering<'a> {
    of: &'a Convolution,
    weights: Pointer,
    kernel: [usize; 2],
    /// Of the result's channels, the input's, rows and columns.
    kernel_strides: [i64; 4],
    /// A negative one cuts rows or columns off.
    padding: [i64; 2],
    stride: usize,
    dilation: usize,
    /// Height and width of what is computed of the result.
    results: [usize; 2],
    /// The first result, and how far apart images, channels, rows and columns are.
    y: Pointer,
    output: [i64; 4],
}

impl<'a> Gathering<'a> {
    /// From a window to the kernels as they are; images of the result have so many channels, from those at `y` on.
    pub(super) fn of(of: &'a Convolution, channels: usize, y: Pointer) -> Self {
        let [height, width] = of.results;
        let row = width as i64;
        let plane = height as i64 * row;
        Self {
            of,
            weights: of.w.start,
            kernel: of.window.kernel,
            kernel_strides: of.w.strides.map(|stride| stride as i64),
            padding: of.window.padding.map(|padding| padding as i64),
            stride: of.window.stride,
            dilation: of.window.dilation,
            results: of.results,
            y,
            output: [channels as i64 * plane, plane, row, 1],
        }
    }

    /// Of a transposed convolution's results, every `stride`-th from this one on, in rows and in columns: they are an
    /// ordinary convolution with those taps that reach them, of which the last comes first.
    pub(super) fn phase(&self, firsts: [usize; 2]) -> Self {
        let whole = *self;
        let (stride, dilation) = (whole.stride as i64, whole.dilation as i64);
        let common = greatest_common_divisor(whole.stride, whole.dilation) as i64;
        let (tap_step, input_step) = (stride / common, dilation / common);
        let [input, output, row, column] = whole.kernel_strides;
        let mut phase = Gathering {
            kernel_strides: [output, input, -row * tap_step, -column * tap_step],
            stride: 1,
            dilation: input_step as usize,
            output: [
                whole.output[0],
                whole.output[1],
                whole.output[2] * stride,
                stride,
            ],
            ..whole
        };
        let mut first_result = 0;
        for (d, &start) in firsts.iter().enumerate() {
            let position = start as i64 + whole.padding[d];
            let first = (0..tap_step).find(|tap| (position - tap * dilation) % stride == 0);
            // Taps `first`, `first + tap_step`, ..., from inputs `input`, `input - input_step`, ...
            let taps = first.map_or(0, |first| {
                (whole.kernel[d] as i64 - first).max(0).unsigned_abs() as usize
            });
            let taps = taps.div_ceil(tap_step as usize);
            phase.kernel[d] = taps;
            if let (Some(first), Some(before_last)) = (first, taps.checked_sub(1)) {
                let before_last = before_last as i64;
                let input = (position - first * dilation) / stride;
                phase.padding[d] = before_last * input_step - input;
                let last = first + before_last * tap_step;
                let step = self.of.w.strides[2 + d] * self.of.w.size;
                phase.weights = phase.weights.offset(last as usize * step);
            }
            phase.results[d] = (whole.results[d] - start).div_ceil(whole.stride);
            first_result += start * whole.output[2 + d] as usize;
        }
        phase.y = self.y.offset(first_result * self.of.x.size);
        phase
    }

    /// Of one image's plane of the result.
    pub(super) fn pixels(&self) -> usize {
        self.results[0] * self.results[1]
    }

    /// Elements that are summed for a result.
    pub(super) fn depth(&self) -> usize {
        self.of.inputs() * self.kernel[0] * self.kernel[1]
    }

    /// Launches of whole images, as kernels without tiles take them; transposed ones know their steps.
    pub(super) fn plainly<L: Launcher>(
        &self,
        launcher: &L,
        steps: Option<&Steps>,
    ) -> Result<(), L::Error> {
        let op = match steps {
            None => &table::CONV2D,
            Some(_) => &table::CONV_TRANSPOSE2D,
        };
        let kernel = op.form(table::FORM_PLAIN, &[self.of.element])?;
        let of_group = self.of.outputs().div_ceil(table::CHANNELS);
        let blocks_y = of_group * self.of.groups;
        let blocks_y = blocks_y.min(launcher.limits().blocks_y);
        let one = std::slice::from_ref(self);
        Self::for_images(one, Self::images_at_once(launcher, one), |batches| {
            let batch = &batches[0];
            let launch = Launch::new(launcher, kernel);
            let launch = launch.threads(batch.pixels.div_ceil(table::BLOCK), table::BLOCK);
            let description = Batch::describe(batches);
            let launch = launch.blocks_y(blocks_y).arg(&batch.y).arg(&batch.x);
            let mut launch = launch.arg(&self.weights).arg(&description);
            if let Some(steps) = steps {
                launch = launch.arg(steps);
            }
            // SAFETY: the arguments of these kernels; y has an element for each pixel and channel, the images and kernels
            // lie within their memory, and what lies outside of an image is not read.
            unsafe { launch.enqueue() }
        })
    }

    /// Launches of all this work by tiles, each sum in so many parts, or in as many as pay. Images, channels and types are
    /// the same for all of it; packed ones are of one convolution.
    pub(super) fn by_tiles<L: Launcher>(
        launcher: &L,
        work: &[Self],
        tile: &Tile,
        parts: Option<usize>,
    ) -> Result<(), L::Error> {
        if tile.is_packed {
            return Self::by_packed_tiles(launcher, work, tile, parts);
        }
        Self::for_images(work, Self::images_at_once(launcher, work), |batches| {
            Batch::by_tiles(launcher, batches, tile, parts)
        })
    }

    fn images_at_once<L: Launcher>(launcher: &L, work: &[Self]) -> usize {
        (launcher.limits().elements / Self::most_pixels(work)).max(1)
    }

    fn most_pixels(work: &[Self]) -> usize {
        work.iter().map(Self::pixels).max().unwrap_or(1)
    }

    /// `each` of the images, so many at a time, of all this work.
    fn for_images<E>(
        work: &[Self],
        at_once: usize,
        mut each: impl FnMut(&[Batch<'_>]) -> Result<(), E>,
    ) -> Result<(), E> {
        let all = work[0].of.x.shape[0];
        for first in (0..all).step_by(at_once) {
            let images = at_once.min(all - first);
            let batches = work.iter().map(|one| {
                let x = one.of.x;
                let start = x.start.offset(first * x.strides[0] * x.size);
                one.batch(first, images, start)
            });
            each(&batches.collect::<Vec<_>>())?;
        }
        Ok(())
    }

    /// Some images from `first` on, which lie at `x`.
    fn batch(&self, first: usize, images: usize, x: Pointer) -> Batch<'_> {
        let written = first as i64 * self.output[0] * self.of.x.size as i64;
        Batch {
            gathering: self,
            x,
            y: self.y.offset(written as usize),
            pixels: images * self.pixels(),
        }
    }
}

/// Some images of a convolution.
#[derive(Clone, Copy)]
struct Batch<'a> {
    gathering: &'a Gathering<'a>,
    x: Pointer,
    y: Pointer,
    /// Of the result, in all images.
    pixels: usize,
}

impl Batch<'_> {
    /// What kernels are told of batches of as many images and channels, whose pointers are those of the first.
    fn describe(batches: &[Self]) -> KernelConvolutions {
        let first = &batches[0];
        let (gathering, of) = (first.gathering, first.gathering.of);
        let [_, _, in_height, in_width] = of.x.shape;
        // Where no tap reaches a result, there is no channel either: sizes that are divided by are not 0.
        let in_channels = if Self::depth(batches) == 0 {
            0
        } else {
            of.inputs()
        };
        let mut windows = [first.window(first); table::MOST_PHASES];
        for (window, batch) in windows.iter_mut().zip(batches) {
            *window = batch.window(first);
        }
        KernelConvolutions {
            out_channels: of.outputs() as u32,
            in_channels: in_channels as u32,
            groups: Divisor::of(of.groups),
            in_height: in_height as u32,
            in_width: in_width as u32,
            stride: Divisor::of(gathering.stride),
            dilation: gathering.dilation as u32,
            input: of.x.strides.map(|stride| stride as i64),
            kernel: gathering.kernel_strides,
            output: gathering.output,
            count: Divisor::of(batches.len()),
            most_pixels: Self::pixels(batches) as u32,
            windows,
        }
    }

    fn window(&self, first: &Self) -> KernelWindow {
        let (gathering, of) = (self.gathering, self.gathering.of);
        KernelWindow {
            width: Divisor::of(gathering.results[1]),
            height: Divisor::of(gathering.results[0]),
            pixels: self.pixels as u32,
            depth: gathering.depth() as u32,
            kernel_height: Divisor::of(gathering.kernel[0].max(1)),
            kernel_width: Divisor::of(gathering.kernel[1].max(1)),
            row_padding: gathering.padding[0] as u32,
            column_padding: gathering.padding[1] as u32,
            input: of.elements(self.x, first.x),
            kernel: of.elements(gathering.weights, first.gathering.weights),
            output: of.elements(self.y, first.y),
        }
    }

    /// The longest sum's.
    fn depth(batches: &[Self]) -> usize {
        let depths = batches.iter().map(|batch| batch.gathering.depth());
        depths.max().unwrap_or(0)
    }

    /// The largest batch's.
    fn pixels(batches: &[Self]) -> usize {
        batches.iter().map(|batch| batch.pixels).max().unwrap_or(0)
    }

    /// Launches for batches of as many images and channels, several side by side.
    fn by_tiles<L: Launcher>(
        launcher: &L,
        batches: &[Self],
        tile: &Tile,
        parts: Option<usize>,
    ) -> Result<(), L::Error> {
        batches
            .chunks(table::MOST_PHASES)
            .try_for_each(|some| Self::side_by_side(launcher, some, tile, parts))
    }

    fn side_by_side<L: Launcher>(
        launcher: &L,
        batches: &[Self],
        tile: &Tile,
        parts: Option<usize>,
    ) -> Result<(), L::Error> {
        let first = &batches[0];
        let of = first.gathering.of;
        let (element, channels) = (of.element, of.outputs());
        let (depth, pixels) = (Self::depth(batches), Self::pixels(batches));
        let across = pixels.div_ceil(tile.pixels);
        let down = channels.div_ceil(tile.channels);
        let convolutions = batches.len() * of.groups;
        let tiles = across * down * convolutions;
        let parts = parts.unwrap_or_else(|| Self::parts(launcher.card(), tiles, depth));
        // A sum without terms has one part, too.
        let terms = depth.div_ceil(parts).max(1).next_multiple_of(tile.depth);
        let parts = depth.div_ceil(terms).max(1);
        let each = convolutions * channels * pixels * element.wide_size();
        let sums = match parts {
            1 => None,
            _ => Some(launcher.workspace(parts * each)?),
        };
        let sums = sums.as_ref().map_or(Pointer::NULL, |(_, start)| *start);
        let terms = terms as u32;
        let description = Self::describe(batches);
        let launch = Launch::new(launcher, tile.op.form(tile.form, &[element])?);
        let launch = launch
            .threads(across, table::BLOCK)
            .blocks_y(down)
            .blocks_z(parts * convolutions);
        let launch = launch.arg(&first.y).arg(&sums).arg(&first.x);
        let launch = launch.arg(&first.gathering.weights).arg(&description);
        // SAFETY: the arguments of kernels with tiles; there is room for every part's sums, or each y has an element for each
        // pixel and channel, and images and kernels are read where there is one.
        unsafe { launch.arg(&terms).enqueue() }?;
        if parts == 1 {
            return Ok(());
        }
        let kernel = table::CONV2D_SUM.form(table::FORM_PLAIN, &[element])?;
        let shares = if parts < table::SHARED_PARTS {
            1
        } else {
            table::SHARERS
        };
        let across = pixels.div_ceil(table::BLOCK / shares);
        let launch = Launch::new(launcher, kernel)
            .threads(across, table::BLOCK)
            .blocks_y(channels.min(launcher.limits().blocks_y))
            .blocks_z(convolutions);
        let (parts, shares) = (parts as u32, shares as u32);
        let launch = launch.arg(&first.y).arg(&sums).arg(&description);
        // SAFETY: as above.
        unsafe { launch.arg(&parts).arg(&shares).enqueue() }
    }

    /// So many that their blocks keep the card busy to the end, but none too short.
    fn parts(card: Card, tiles: usize, depth: usize) -> usize {
        let at_once = card.multiprocessors * table::BLOCKS_PER_PROCESSOR;
        let most = (depth / table::LEAST_TERMS).min(table::MOST_ROUNDS * at_once / tiles);
        // Of the time that all rounds of blocks take, how much the card is busy, in percent.
        let busy = |parts: usize| {
            let blocks = tiles * parts;
            100 * blocks / blocks.next_multiple_of(at_once)
        };
        let enough = (1..=most).find(|&parts| busy(parts) >= table::BUSY);
        enough
            .or_else(|| (1..=most).max_by_key(|&parts| busy(parts)))
            .unwrap_or(1)
    }
}

/// Images of a convolution whose channels lie together in packs, and which have as much padding as all of its work needs.
struct Frame {
    padding: [i64; 2],
    sizes: [usize; 2],
    channels: usize,
}

impl Frame {
    fn around(work: &[Gathering<'_>]) -> Self {
        let convolution = work[0].of;
        let mut frame = Self {
            padding: [0; 2],
            sizes: [1; 2],
            channels: convolution.packed_channels(),
        };
        for d in 0..2 {
            let used = || work.iter().filter(|each| each.depth() > 0);
            let before = used().map(|each| each.padding[d]).max().unwrap_or(0);
            // The last element of the last window.
            let last = used().map(|each| {
                let steps =
                    (each.results[d] - 1) * each.stride + (each.kernel[d] - 1) * each.dilation;
                steps as i64 - each.padding[d]
            });
            frame.padding[d] = before;
            frame.sizes[d] = (last.max().unwrap_or(-before) + before + 1) as usize;
        }
        frame
    }

    /// Elements of an image.
    fn image(&self) -> usize {
        self.sizes[0] * self.sizes[1] * self.channels
    }
}

impl Convolution {
    /// Elements from `start` to an address.
    fn elements(&self, address: Pointer, start: Pointer) -> i64 {
        (address.bytes_from(start) / self.x.size as isize) as i64
    }

    /// Input channels, to whole packs.
    fn packed_channels(&self) -> usize {
        self.x.shape[1].next_multiple_of(PACK / self.x.size)
    }
}

impl<'a> Gathering<'a> {
    /// Whether packs are mostly full, and not too much memory for kernels that count bytes in 32 bits.
    pub(super) fn are_worth_packing(work: &[Self], blocks_y: usize) -> bool {
        let convolution = work[0].of;
        let (inputs, packed) = (convolution.x.shape[1], convolution.packed_channels());
        let most = u32::MAX as usize / 2;
        let fits = |elements: usize| elements.saturating_mul(convolution.x.size) <= most;
        // Those of all phases lie one behind another.
        let kernels = work.iter().map(Self::packed_kernel).sum::<usize>();
        let few = packed.div_ceil(PACK / convolution.x.size) <= table::PACK_PACKS * blocks_y;
        few && 2 * packed <= 3 * inputs
            && fits(Frame::around(work).image())
            && fits(kernels.saturating_mul(convolution.channels))
    }

    /// Elements of one of the kernels.
    fn packed_kernel(&self) -> usize {
        self.kernel[0] * self.kernel[1] * self.of.packed_channels()
    }

    fn by_packed_tiles<L: Launcher>(
        launcher: &L,
        work: &[Self],
        tile: &Tile,
        parts: Option<usize>,
    ) -> Result<(), L::Error> {
        let convolution = work[0].of;
        let Convolution { x, w, channels, .. } = *convolution;
        let sizes = work
            .iter()
            .map(|each| channels * each.packed_kernel() * w.size);
        let (_kernels, kernels) = launcher.workspace(sizes.clone().sum())?;
        let starts = sizes.scan(kernels, |next, size| {
            let start = *next;
            *next = start.offset(size);
            Some(start)
        });
        let starts: Vec<_> = starts.collect();
        let packings = work.iter().zip(&starts).map(|(each, &to)| Packing {
            batch: channels,
            channels: x.shape[1],
            sizes: each.kernel,
            padding: [0; 2],
            packed: each.kernel,
            strides: each.kernel_strides,
            from: each.weights,
            to,
        });
        for some in packings.collect::<Vec<_>>().chunks(table::MOST_PHASES) {
            Packing::launch(launcher, convolution, some)?;
        }
        let frame = Frame::around(work);
        let bytes = frame.image() * x.size;
        let room = table::PACKED_BYTES / bytes;
        let at_once = room.min(launcher.limits().elements / Self::most_pixels(work));
        let at_once = at_once.clamp(1, x.shape[0]);
        let (_images, images) = launcher.workspace(at_once * bytes)?;
        let packed = Convolution {
            x: Images {
                shape: [x.shape[0], frame.channels, frame.sizes[0], frame.sizes[1]],
                strides: [
                    frame.image(),
                    1,
                    frame.sizes[1] * frame.channels,
                    frame.channels,
                ],
                ..x
            },
            ..*convolution
        };
        let work = work.iter().zip(starts).map(|(each, weights)| Gathering {
            of: &packed,
            weights,
            padding: [0, 1].map(|d| each.padding[d] - frame.padding[d]),
            ..*each
        });
        let work: Vec<_> = work.collect();
        for first in (0..x.shape[0]).step_by(at_once) {
            let batch = at_once.min(x.shape[0] - first);
            let packing = Packing {
                batch,
                channels: x.shape[1],
                sizes: [x.shape[2], x.shape[3]],
                padding: frame.padding,
                packed: frame.sizes,
                strides: x.strides.map(|stride| stride as i64),
                from: x.start.offset(first * x.strides[0] * x.size),
                to: images,
            };
            Packing::launch(launcher, convolution, &[packing])?;
            let batches = work.iter().map(|each| each.batch(first, batch, images));
            Batch::by_tiles(launcher, &batches.collect::<Vec<_>>(), tile, parts)?;
        }
        Ok(())
    }
}

/// Images, or kernels, that are copied so that the channels of a pixel lie together in packs.
struct Packing {
    batch: usize,
    channels: usize,
    /// Height and width of what is copied, and of what is written, which begins with the padding.
    sizes: [usize; 2],
    padding: [i64; 2],
    packed: [usize; 2],
    strides: [i64; 4],
    from: Pointer,
    to: Pointer,
}

impl Packing {
    /// One launch of several, at most as many as it takes side by side.
    fn launch<L: Launcher>(launcher: &L, of: &Convolution, all: &[Self]) -> Result<(), L::Error> {
        let first = &all[0];
        let packs = of.packed_channels() * of.x.size / PACK;
        let pixels = all.iter().map(Self::pixels).max().unwrap_or(0);
        if packs * pixels == 0 {
            return Ok(());
        }
        let describe = |packing: &Self| KernelPacking {
            columns: Divisor::of(packing.packed[1].max(1)),
            rows: Divisor::of(packing.packed[0].max(1)),
            pixels: packing.pixels() as u32,
            channels: packing.channels as u32,
            packs: packs as u32,
            height: packing.sizes[0] as u32,
            width: packing.sizes[1] as u32,
            row_padding: packing.padding[0] as u32,
            column_padding: packing.padding[1] as u32,
            input: packing.strides,
            from: of.elements(packing.from, first.from),
            to: of.elements(packing.to, first.to),
        };
        let mut each = [describe(first); table::MOST_PHASES];
        for (place, packing) in each.iter_mut().zip(all) {
            *place = describe(packing);
        }
        let descriptions = KernelPackings { each };
        let kernel = table::CONV2D_PACK.form(table::FORM_PLAIN, &[of.element.bits()])?;
        let launch = Launch::new(launcher, kernel)
            .threads(pixels.div_ceil(table::PACK_PIXELS), table::BLOCK)
            .blocks_y(packs.div_ceil(table::PACK_PACKS))
            .blocks_z(all.len());
        let launch = launch.arg(&first.to).arg(&first.from).arg(&descriptions);
        // SAFETY: the arguments of the kernel; there is room for all packs, and elements are read where there are some.
        unsafe { launch.enqueue() }
    }

    fn pixels(&self) -> usize {
        self.batch * self.packed[0] * self.packed[1]
    }
}

/// `candle::Convolutions`.
#[repr(C)]
struct KernelConvolutions {
    out_channels: u32,
    in_channels: u32,
    groups: Divisor,
    in_height: u32,
    in_width: u32,
    stride: Divisor,
    dilation: u32,
    input: [i64; 4],
    kernel: [i64; 4],
    output: [i64; 4],
    count: Divisor,
    most_pixels: u32,
    windows: [KernelWindow; table::MOST_PHASES],
}

// SAFETY: the same fields in the same order, with C's layout on both sides.
unsafe impl Argument for KernelConvolutions {}

/// `candle::Window`.
#[derive(Clone, Copy)]
#[repr(C)]
struct KernelWindow {
    width: Divisor,
    height: Divisor,
    pixels: u32,
    depth: u32,
    kernel_height: Divisor,
    kernel_width: Divisor,
    row_padding: u32,
    column_padding: u32,
    input: i64,
    kernel: i64,
    output: i64,
}

/// `candle::Packing`.
#[derive(Clone, Copy)]
#[repr(C)]
struct KernelPacking {
    columns: Divisor,
    rows: Divisor,
    pixels: u32,
    channels: u32,
    packs: u32,
    height: u32,
    width: u32,
    row_padding: u32,
    column_padding: u32,
    input: [i64; 4],
    from: i64,
    to: i64,
}

/// `candle::Packings`.
#[repr(C)]
struct KernelPackings {
    each: [KernelPacking; table::MOST_PHASES],
}

// SAFETY: as above.
unsafe impl Argument for KernelPackings {}

/// `candle::Steps`: how far apart the taps are that reach a result of a transposed convolution, and their inputs.
#[repr(C)]
pub(super) struct Steps {
    tap: u32,
    input: u32,
    remainder: u32,
}

// SAFETY: as above.
unsafe impl Argument for Steps {}

impl Steps {
    pub(super) fn of(window: &Window) -> Self {
        let Window {
            stride, dilation, ..
        } = *window;
        let common = greatest_common_divisor(stride, dilation);
        Self {
            tap: (stride / common) as u32,
            input: (dilation / common) as u32,
            remainder: (dilation % stride) as u32,
        }
    }
}

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
