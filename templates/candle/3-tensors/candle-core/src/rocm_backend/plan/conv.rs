//! Convolutions by kernels that gather what they multiply.
use super::family::{Op, Tuning};
use super::gathering::{Gathering, Steps};
use super::im2col::{Window, MAX_PLACE};
use super::launch::Pointer;
use super::launcher::{Launcher, Refusal};
use super::planes::Images;
use super::table::conv as table;
use super::table::Element;

/// One convolution or transposed convolution; the 1-D forms are images and kernels of one row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Convolution {
    pub(crate) element: Element,
    pub(crate) x: Images,
    /// The kernels.
    pub(crate) w: Images,
    pub(crate) window: Window,
    /// Of the result.
    pub(crate) channels: usize,
    /// Of channels, each convolved by itself; one if it is transposed.
    pub(crate) groups: usize,
    /// Height and width of the result.
    pub(crate) results: [usize; 2],
}

/// A kernel whose blocks compute tiles of channels and pixels, and gather what they multiply into LDS.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tile {
    pub(crate) op: &'static Op,
    pub(crate) form: usize,
    pub(crate) channels: usize,
    pub(crate) pixels: usize,
    /// Terms of a sum that are in LDS at a time.
    pub(crate) depth: usize,
    /// Whether channels of images and kernels lie together, in packs.
    pub(crate) is_packed: bool,
}

/// What tiles have in common: of operands as they are, and of packed ones.
const TILED: Tile = Tile {
    op: &table::CONV2D_TILED,
    form: table::FORM_64,
    channels: table::FORM_64_CHANNELS,
    pixels: table::FORM_64_PIXELS,
    depth: table::TILE_DEPTH,
    is_packed: false,
};
const TILED_PACKED: Tile = Tile {
    op: &table::CONV2D_TILED_PACKED,
    is_packed: true,
    ..TILED
};
const MATRIX: Tile = Tile {
    op: &table::CONV2D_MATRIX,
    depth: table::MATRIX_DEPTH,
    ..TILED
};
const MATRIX_PACKED: Tile = Tile {
    op: &table::CONV2D_MATRIX_PACKED,
    is_packed: true,
    ..MATRIX
};

/// One kernel for each number of channels: of 16, of what all tiles have in common, and of another number.
const fn sized(of: Tile, third: Tile) -> [Tile; 3] {
    let first = Tile {
        form: table::FORM_16,
        channels: table::FORM_16_CHANNELS,
        pixels: table::FORM_16_PIXELS,
        ..of
    };
    [first, of, third]
}

const fn of_32(of: Tile) -> Tile {
    Tile {
        form: table::FORM_32,
        channels: table::FORM_32_CHANNELS,
        pixels: table::FORM_32_PIXELS,
        ..of
    }
}

const fn of_128(of: Tile) -> Tile {
    Tile {
        form: table::FORM_128,
        channels: table::FORM_128_CHANNELS,
        pixels: table::FORM_128_PIXELS,
        ..of
    }
}

static TILES: [[Tile; 3]; 4] = [
    sized(TILED, of_32(TILED)),
    sized(TILED_PACKED, of_32(TILED_PACKED)),
    sized(MATRIX, of_128(MATRIX)),
    sized(MATRIX_PACKED, of_128(MATRIX_PACKED)),
];

/// How threads share what they read.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form {
    /// Not at all, but for a few channels.
    Plain,
    Tiles(&'static Tile),
}

impl Form {
    /// That of the kernel which is called so but for its type: conv2d, conv2d_tiled_16.
    #[allow(dead_code)] // for whoever does not leave the choice to the sizes
    pub(crate) fn named(name: &str) -> Option<Self> {
        let called = |tile: &&Tile| {
            let form = tile.op.family.variants[tile.form];
            format!("{}_{form}", tile.op.name) == name
        };
        if name == table::CONV2D.name {
            return Some(Self::Plain);
        }
        TILES.iter().flatten().find(called).map(Self::Tiles)
    }
}

/// What the caller of a plan has decided, if anything.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Choice {
    pub(crate) form: Option<Form>,
    /// Of each sum.
    pub(crate) parts: Option<usize>,
}

impl Convolution {
    /// Pixels of one plane of the result.
    pub(crate) fn pixels(&self) -> usize {
        self.results[0] * self.results[1]
    }

    /// Channels of a group's input.
    pub(super) fn inputs(&self) -> usize {
        self.x.shape[1] / self.groups
    }

    /// Channels of a group's result.
    pub(super) fn outputs(&self) -> usize {
        self.channels / self.groups
    }

    /// Elements that are summed for a result, of one that is not transposed.
    pub(crate) fn depth(&self) -> usize {
        self.w.shape[1..].iter().product()
    }

    /// An error for numbers that kernels cannot count to; `name` is the operation's.
    pub(crate) fn check_sizes(&self, name: &str) -> Result<(), Refusal> {
        let Window {
            stride,
            dilation,
            padding,
            ..
        } = self.window;
        let [_, planes @ ..] = self.x.shape;
        let padded = self.x.shape[2].saturating_add(padding[0]);
        let (pixels, depth) = (self.pixels(), self.depth());
        let numbers = [pixels, self.channels, depth, stride, dilation, padded];
        let too_large = |&number: &usize| number > MAX_PLACE;
        if planes.iter().chain(&numbers).any(too_large) {
            let (x, w) = (self.x.shape, self.w.shape);
            return Err(Refusal(format!(
                "{name} of {x:?} with kernels {w:?} and {:?} is too large",
                self.window
            )));
        }
        Ok(())
    }

    /// Writes a result with elements; the sizes decide how, if the caller does not.
    pub(crate) fn gather<L: Launcher>(
        &self,
        launcher: &L,
        choice: Choice,
        y: Pointer,
    ) -> Result<(), L::Error> {
        if self.groups > 1 {
            return self.gather_groups(launcher, choice, y);
        }
        let work = [Gathering::of(self, self.channels, y)];
        match choice.form.unwrap_or_else(|| self.form(launcher, &work, 1)) {
            Form::Tiles(tile) => Gathering::by_tiles(launcher, &work, tile, choice.parts),
            Form::Plain => work[0].plainly(launcher, None),
        }
    }

    /// All groups in a launch, but for packed operands: those of each group take launches of their own.
    fn gather_groups<L: Launcher>(
        &self,
        launcher: &L,
        choice: Choice,
        y: Pointer,
    ) -> Result<(), L::Error> {
        let work = [Gathering::of(self, self.channels, y)];
        let form = choice.form.unwrap_or_else(|| {
            let (one, y) = self.of_group(0, y);
            let of_one = [Gathering::of(&one, self.channels, y)];
            one.form(launcher, &of_one, self.groups)
        });
        match form {
            Form::Plain => work[0].plainly(launcher, None),
            Form::Tiles(tile) if !tile.is_packed => {
                Gathering::by_tiles(launcher, &work, tile, choice.parts)
            }
            Form::Tiles(tile) => (0..self.groups).try_for_each(|group| {
                let (one, y) = self.of_group(group, y);
                let work = [Gathering::of(&one, self.channels, y)];
                Gathering::by_tiles(launcher, &work, tile, choice.parts)
            }),
        }
    }

    /// A group as a convolution of its own, and its first result, where all begin at `y`.
    fn of_group(&self, group: usize, y: Pointer) -> (Self, Pointer) {
        let (inputs, channels) = (self.inputs(), self.outputs());
        let mut one = Self {
            channels,
            groups: 1,
            ..*self
        };
        let size = self.x.size;
        let first = group * channels;
        one.x.shape[1] = inputs;
        one.x.start = one.x.start.offset(group * inputs * one.x.strides[1] * size);
        one.w.shape[0] = channels;
        one.w.start = one.w.start.offset(first * one.w.strides[0] * size);
        (one, y.offset(first * self.pixels() * size))
    }

    /// The same of a transposed convolution.
    pub(crate) fn gather_transposed<L: Launcher>(
        &self,
        launcher: &L,
        choice: Choice,
        y: Pointer,
    ) -> Result<(), L::Error> {
        let whole = Gathering::of(self, self.channels, y);
        let [rows, columns] = self.results.map(|size| size.min(self.window.stride));
        let few = rows * columns <= table::MOST_PHASES;
        if few || choice.form.is_some() {
            let phases = (0..rows * columns).map(|n| whole.phase([n / columns, n % columns]));
            let phases: Vec<_> = phases.collect();
            let form = choice
                .form
                .unwrap_or_else(|| self.form(launcher, &phases, 1));
            if let Form::Tiles(tile) = form {
                return Gathering::by_tiles(launcher, &phases, tile, choice.parts);
            }
        }
        whole.plainly(launcher, Some(&Steps::of(&self.window)))
    }

    /// The form that pays for this work: tiles where there are channels to share inputs, or too few results to fill the
    /// card, of long sums; but where each of the work's launches is worth its time. So many groups are computed alike.
    fn form(&self, launcher: &impl Launcher, work: &[Gathering<'_>], groups: usize) -> Form {
        let (card, limits) = (launcher.card(), launcher.limits());
        let results = self.x.shape[0] * work.iter().map(Gathering::pixels).sum::<usize>();
        let depth = work.iter().map(Gathering::depth).max().unwrap_or(0);
        let at_once = table::BLOCKS_PER_PROCESSOR * card.multiprocessors;
        let parts = (depth / table::LEAST_TERMS).max(1);
        let wide = groups * results.div_ceil(table::FORM_32_PIXELS) * parts >= at_once;
        let Some((tile, packed)) = self.tiles(launcher.tuning(), wide) else {
            return Form::Plain;
        };
        let full = table::BLOCK * at_once;
        let idle = groups * results < full && depth >= table::LEAST_TERMS;
        let most = tile.channels * limits.blocks_y;
        let threads = groups * results * self.channels.div_ceil(table::CHANNELS);
        let busy = |time| time * threads / (card.multiprocessors * table::THREADS);
        let term = busy(table::BUSY_TERM).max(table::IDLE_TERM);
        let channel = busy(table::BUSY_CHANNEL).max(table::IDLE_CHANNEL);
        let plainly = depth * term + self.inputs() * channel;
        let few = self.channels <= table::CHANNELS && !idle;
        let many = groups > table::MOST_GROUPS || self.channels > most;
        if few || many || plainly < limits.launch_time {
            return Form::Plain;
        }
        let [_, inputs, ..] = self.x.shape;
        let gathers = depth / inputs.max(1) * self.channels.div_ceil(tile.channels);
        let products = results * depth * self.channels.next_multiple_of(tile.channels);
        let pays = gathers >= table::PACKED_GATHERS && products >= limits.packed_products;
        let packed = packed.filter(|_| pays && Gathering::are_worth_packing(work, limits.blocks_y));
        Form::Tiles(packed.unwrap_or(tile))
    }

    /// The tile for so many channels, if there is one for the type, and the one for packed operands. `wide` says that blocks
    /// of 32 channels fill the card.
    fn tiles(&self, tuning: Tuning, wide: bool) -> Option<(&'static Tile, Option<&'static Tile>)> {
        let made = |tile: &Tile| tile.op.variant(tile.form, &[self.element]).is_some();
        let sixteens = self.channels.div_ceil(16);
        let (sizes, size) = if table::HAS_UNITS.on(tuning) != 0 && made(&MATRIX) {
            let size = match sixteens {
                0..=1 => 0,
                // Of 129 to 192 channels, three tiles of 64 have fewer to spare than two of 128.
                2..=4 | 9..=12 => 1,
                _ => 2,
            };
            (&TILES[2..], size)
        } else {
            // Smaller tiles gather inputs more often; larger ones compute more that nobody needs.
            let size = match sixteens {
                0..=1 => 0,
                2 | 5..=6 if wide => 2,
                2 => 0,
                _ => 1,
            };
            (&TILES[..2], size)
        };
        let (tile, packed) = (&sizes[0][size], &sizes[1][size]);
        made(tile).then_some((tile, Some(packed).filter(|tile| made(tile))))
    }
}
