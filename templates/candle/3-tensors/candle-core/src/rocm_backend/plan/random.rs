//! Random numbers from a counter, and those that a library has drawn, moved to a range.
use super::family::{Kernel, Op};
use super::launch::{Argument, Launch, Pointer, PACK};
use super::launcher::{Launcher, Refusal};
use super::table::{random as table, Element};

/// The numbers of a distribution: `candle::Uniform` or `candle::Normal` for the type that kernels compute in.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
pub(crate) struct Distribution([u8; 24]);

// SAFETY: the bytes of the fields follow each other as in the kernels' types, and the alignment is the largest of them.
unsafe impl Argument for Distribution {}

impl Distribution {
    /// Of at most three numbers.
    pub(crate) fn of(numbers: &[f64], element: Element) -> Self {
        let mut bytes = [0; 24];
        if element == Element::F64 {
            for (field, number) in bytes.chunks_exact_mut(8).zip(numbers) {
                field.copy_from_slice(&number.to_ne_bytes());
            }
        } else {
            for (field, &number) in bytes.chunks_exact_mut(4).zip(numbers) {
                field.copy_from_slice(&(number as f32).to_ne_bytes());
            }
        }
        Self(bytes)
    }
}

/// `count` elements, contiguous.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Drawn {
    pub(crate) start: Pointer,
    pub(crate) element: Element,
    pub(crate) count: usize,
}

impl Drawn {
    /// The number of packs of 16 bytes; a thread writes one pack at once.
    fn packs(&self) -> usize {
        (self.count * self.element.size()).div_ceil(PACK)
    }

    /// How many groups of 128 random bits they are made of: a group makes four numbers of up to 32 bits, or two.
    pub(crate) fn groups(&self) -> usize {
        self.packs() * (4 / self.element.size()).max(1)
    }
}

/// Where in the sequence of all random numbers a launch begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counter {
    pub(crate) seed: u64,
    /// Number of the call.
    pub(crate) call: u64,
    /// Number of the first group.
    pub(crate) first: u64,
}

/// Draws numbers of a distribution, whose kernels are those of `op`.
pub(crate) fn random<L: Launcher>(
    launcher: &L,
    op: &Op,
    y: Drawn,
    counter: Counter,
    distribution: Distribution,
) -> Result<(), L::Error> {
    if y.count == 0 {
        return Ok(());
    }
    let kernel = only(op, y.element)?;
    let Counter { seed, call, first } = counter;
    let count = y.count as u64;
    let blocks = y.packs().div_ceil(table::BLOCK);
    let launch = Launch::new(launcher, kernel).strided(blocks, table::BLOCK);
    let launch = launch.arg(&y.start).arg(&count);
    let launch = launch.arg(&seed).arg(&call).arg(&first);
    // SAFETY: the arguments of random kernels; y has `count` elements.
    unsafe { launch.arg(&distribution).enqueue() }
}

/// Moves as many numbers in (0, 1], f64 for f64 and f32 for all else, to the range of a uniform distribution. They may lie
/// where the results go, if those have their type.
#[allow(dead_code)] // for builds with rocRAND
pub(crate) fn uniform_from<L: Launcher>(
    launcher: &L,
    units: Pointer,
    y: Drawn,
    distribution: Distribution,
) -> Result<(), L::Error> {
    if y.count == 0 {
        return Ok(());
    }
    let kernel = only(&table::RAND_UNIFORM_FROM, y.element)?;
    let count = y.count as u64;
    let read = Drawn {
        element: match y.element {
            Element::F64 => Element::F64,
            _ => Element::F32,
        },
        ..y
    };
    let blocks = read.packs().div_ceil(table::BLOCK);
    let launch = Launch::new(launcher, kernel).strided(blocks, table::BLOCK);
    let launch = launch.arg(&y.start).arg(&units).arg(&count);
    // SAFETY: the arguments of the kernel; input and output have `count` elements, and may be the same.
    unsafe { launch.arg(&distribution).enqueue() }
}

fn only(op: &Op, element: Element) -> Result<Kernel, Refusal> {
    op.form(op.variants[0], &[element])
}

#[cfg(test)]
mod tests {
    use super::super::launcher::Card;
    use super::super::testing::Recorder;
    use super::*;

    #[test]
    fn kernels_get_the_numbers_they_compute_in() {
        let single = Distribution::of(&[1.0, 2.0], Element::BF16);
        assert_eq!(single.0[..4], 1f32.to_ne_bytes());
        assert_eq!(single.0[4..8], 2f32.to_ne_bytes());
        let double = Distribution::of(&[1.0, 2.0], Element::F64);
        assert_eq!(double.0[..8], 1f64.to_ne_bytes());
        assert_eq!(double.0[8..16], 2f64.to_ne_bytes());
    }

    #[test]
    fn threads_make_16_bytes_of_whole_groups() {
        for (element, lanes, groups) in [
            (Element::F64, 2, 1),
            (Element::F32, 4, 1),
            (Element::F16, 8, 2),
            (Element::BF16, 8, 2),
            (Element::F8E4M3, 16, 4),
        ] {
            for (count, packs) in [
                (0, 0),
                (1, 1),
                (lanes, 1),
                (lanes + 1, 2),
                (lanes * 100, 100),
            ] {
                let start = Pointer::NULL;
                let drawn = Drawn {
                    start,
                    element,
                    count,
                };
                assert_eq!(drawn.packs(), packs, "{count} of {element:?}");
                assert_eq!(drawn.groups(), packs * groups, "{count} of {element:?}");
            }
        }
    }

    /// The grids of what is launched for so many numbers: blocks have 256 threads.
    fn grids(
        count: usize,
        element: Element,
        launch: impl FnOnce(&Recorder, Drawn) -> Result<(), Refusal>,
    ) -> Result<Vec<u32>, Refusal> {
        let recorder = Recorder::of(Card {
            wave_size: 64,
            multiprocessors: 104,
        });
        let start = Pointer::NULL.offset(1 << 30);
        let drawn = Drawn {
            start,
            element,
            count,
        };
        launch(&recorder, drawn)?;
        let launches = recorder.launches.take();
        assert!(launches.iter().all(|launch| launch.block == [256, 1]));
        Ok(launches.iter().map(|launch| launch.grid[0]).collect())
    }

    #[test]
    fn threads_draw_16_bytes() -> Result<(), Refusal> {
        let counter = Counter {
            seed: 1,
            call: 2,
            first: 3,
        };
        for (count, element, expected) in [
            (0, Element::F32, &[][..]),
            (1024, Element::F32, &[1]),
            (1025, Element::F32, &[2]),
            (2049, Element::F16, &[2]),
            (513, Element::F64, &[2]),
        ] {
            let op = &table::RAND_UNIFORM;
            let drawn = grids(count, element, |recorder, y| {
                random(
                    recorder,
                    op,
                    y,
                    counter,
                    Distribution::of(&[0., 1.], element),
                )
            })?;
            assert_eq!(drawn, expected, "{count} of {element:?}");
        }
        Ok(())
    }

    #[test]
    fn threads_move_16_bytes_of_units() -> Result<(), Refusal> {
        for (count, element, expected) in [
            (0, Element::F32, &[][..]),
            (1024, Element::F32, &[1]),
            (1025, Element::F32, &[2]),
            // Units are f32 here, whatever they become.
            (1025, Element::F16, &[2]),
            (512, Element::F64, &[1]),
            (513, Element::F64, &[2]),
        ] {
            let units = Pointer::NULL.offset(1 << 35);
            let moved = grids(count, element, |recorder, y| {
                uniform_from(recorder, units, y, Distribution::of(&[0., 1.], element))
            })?;
            assert_eq!(moved, expected, "{count} of {element:?}");
        }
        Ok(())
    }
}
