//! How the permute kernels cut a view into tiles: the host's side of `Tiles` in `permute.hip`.
use super::launch::{Argument, Pointer};
use super::views::{Divisor, KernelLayout, Merged};

/// `candle::Tiles`: a copy of a view x to contiguous memory y, in which dimension X is contiguous in x, and dimension Y
/// in y.
#[repr(C)]
pub(crate) struct Tiles {
    pub(crate) count: u32,
    size_x: u32,
    size_y: u32,
    /// Squares of a tile along X are two to this power.
    log_squares_x: u32,
    /// Whether every row along X begins at an aligned address and is whole packs.
    reads_packs: u32,
    /// The same of the rows along Y.
    writes_packs: u32,
    /// Elements of a tile along X.
    tile_x: Divisor,
    tile_y: Divisor,
    /// Tiles along X.
    along_x: Divisor,
    along_y: Divisor,
    /// Elements of x between neighbours of dimension Y.
    x_step: i64,
    /// Elements of y between neighbours of dimension X.
    y_step: i64,
    outer: KernelLayout<2>,
}

// SAFETY: the same fields in the same order, with C's layout on both sides.
unsafe impl Argument for Tiles {}

/// The shape of tiles.
pub(crate) struct Shape {
    /// Squares of a tile, a power of two.
    pub(crate) squares: usize,
    /// Elements along a side of a square.
    pub(crate) side: usize,
    /// Tiles are of use if they hold an element in one of so many places.
    pub(crate) least_use: usize,
    /// And if rows of y have more elements.
    pub(crate) narrow: usize,
    /// And if a turn of dimension X, and all within it, has more bytes; the second where all rows are packs.
    pub(crate) small: [usize; 2],
    /// Where x and y begin.
    pub(crate) starts: [Pointer; 2],
    /// Bytes of an element.
    pub(crate) size: usize,
}

impl Tiles {
    /// Tiles for a layout of two views, x and y, of which y is contiguous.
    ///
    /// `None` where tiles do not help: no dimension but Y is contiguous in x, or too few places would hold an element, or
    /// threads that take elements one by one find those that they share cache lines with.
    pub(crate) fn of(layout: &Merged<2>, shape: &Shape) -> Option<Self> {
        let side = shape.side;
        let [from_x, to_y] = layout.strides;
        let dimension = (1..layout.rank).find(|&d| from_x[d] == 1)?;
        let outer = without(layout, dimension);
        let (size_x, size_y) = (layout.sizes[dimension], layout.sizes[0]);
        let needed = |size: usize| size.div_ceil(side).next_power_of_two();
        let squares_x = squares(shape.squares, needed(size_x), needed(size_y));
        let squares_y = shape.squares / squares_x;
        let tile_x = part(size_x, squares_x * side, side);
        let tile_y = part(size_y, squares_y * side, side);
        let along_x = size_x.div_ceil(tile_x);
        let along_y = size_y.div_ceil(tile_y);
        let count = along_x * along_y * outer.count();
        if count * shape.squares * side * side > shape.least_use * layout.count() {
            return None;
        }
        let whole = |k: usize, size: usize, step: usize| {
            let strides = &outer.strides[k][..outer.rank];
            shape.starts[k].is_multiple_of(side * shape.size)
                && [size, step]
                    .iter()
                    .chain(strides)
                    .all(|number| number % side == 0)
        };
        let reads_packs = whole(0, size_x, from_x[0]);
        let writes_packs = whole(1, size_y, to_y[dimension]);
        let small = shape.small[usize::from(reads_packs && writes_packs)];
        // Behind so many elements of y, the next ones come of the same rows of x.
        let passed = to_y[dimension] * size_x;
        if size_y <= shape.narrow || passed * shape.size <= small {
            return None;
        }
        Some(Self {
            count: count as u32,
            size_x: size_x as u32,
            size_y: size_y as u32,
            log_squares_x: squares_x.trailing_zeros(),
            reads_packs: reads_packs.into(),
            writes_packs: writes_packs.into(),
            tile_x: Divisor::of(tile_x),
            tile_y: Divisor::of(tile_y),
            along_x: Divisor::of(along_x),
            along_y: Divisor::of(along_y),
            x_step: from_x[0] as i64,
            y_step: to_y[dimension] as i64,
            outer: outer.pack(),
        })
    }
}

/// A dimension's size in equal parts of `most` elements at most, rounded up to whole sides.
fn part(size: usize, most: usize, side: usize) -> usize {
    let even = size.div_ceil(size.div_ceil(most));
    even.next_multiple_of(side).min(size)
}

/// The layout without its innermost dimension and without `dimension`.
fn without(layout: &Merged<2>, dimension: usize) -> Merged<2> {
    let mut outer = *layout;
    outer.offsets = [0; 2];
    outer.rank = 0;
    for d in (1..layout.rank).filter(|&d| d != dimension) {
        outer.sizes[outer.rank] = layout.sizes[d];
        for k in 0..2 {
            outer.strides[k][outer.rank] = layout.strides[k][d];
        }
        outer.rank += 1;
    }
    outer
}

/// How many of a tile's squares lie along X: half of their bits, or as few as there is need for.
fn squares(all: usize, needed_x: usize, needed_y: usize) -> usize {
    let even = 1 << (all.trailing_zeros() / 2);
    if needed_x < even {
        needed_x
    } else if needed_y < even {
        even.max(all / needed_y)
    } else {
        even
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rocm_backend::plan::{Refusal, View};

    /// Squares of four elements of 4 bytes.
    const FOURS: Shape = Shape {
        squares: 256,
        side: 4,
        least_use: 4,
        narrow: 0,
        small: [0, 0],
        starts: [Pointer::NULL; 2],
        size: 4,
    };

    /// A copy of x, matrices whose columns lie `step` apart, to matrices of rows without gaps.
    fn turned([matrices, rows, columns]: [usize; 3], step: usize) -> Result<Merged<2>, Refusal> {
        let shape = [matrices, rows, columns];
        let view = |strides| View {
            shape: &shape,
            strides,
            offset: 0,
        };
        let from = [columns * step, 1, step];
        Merged::of([view(&from), view(&[rows * columns, columns, 1])])
    }

    #[test]
    fn a_tile_has_as_many_squares_on_each_side_as_there_is_need_for() {
        for (all, needed_x, needed_y, expected) in [
            (256, 256, 256, 16),
            (256, 16, 16, 16),
            (256, 8, 256, 8),
            (256, 8, 8, 8),
            (256, 1, 256, 1),
            (256, 256, 8, 32),
            (256, 16, 8, 32),
            (256, 256, 1, 256),
            (128, 64, 64, 8),
            (128, 64, 8, 8),
            (128, 8, 64, 8),
            (128, 64, 4, 32),
        ] {
            let found = squares(all, needed_x, needed_y);
            assert_eq!(found, expected, "{needed_x} by {needed_y} of {all}");
        }
    }

    #[test]
    fn tiles_cover_matrices() -> Result<(), Refusal> {
        for (shape, log_squares_x, along_x, along_y) in [
            // Tiles of 64 by 64 elements, of 512 by 8 and of 8 by 512.
            ([1, 1000, 600], 4, 16, 10),
            ([3, 1024, 640], 4, 16, 10),
            ([1, 1025, 641], 4, 17, 11),
            ([1, 1000, 6], 7, 2, 1),
            ([5, 6, 1000], 1, 1, 2),
        ] {
            let layout = turned(shape, 2000)?;
            let tiles = Tiles::of(&layout, &FOURS).expect("more elements than places");
            assert_eq!(tiles.log_squares_x, log_squares_x, "{shape:?}");
            let [matrices, rows, columns] = shape;
            let count = matrices * along_x * along_y;
            assert_eq!(tiles.count as usize, count, "{shape:?}");
            assert_eq!((tiles.size_x, tiles.size_y), (rows as u32, columns as u32));
            assert_eq!((tiles.x_step, tiles.y_step), (2000, columns as i64));
        }
        Ok(())
    }

    #[test]
    fn tiles_that_are_mostly_empty_are_of_no_use() -> Result<(), Refusal> {
        let tiles = |shape| -> Result<_, Refusal> { Ok(Tiles::of(&turned(shape, 2000)?, &FOURS)) };
        // One tile of 4096 places for 1024 elements, or for fewer.
        assert!(tiles([1, 64, 16])?.is_some());
        assert!(tiles([1, 60, 16])?.is_none());
        assert!(tiles([7, 64, 16])?.is_some());
        assert!(tiles([7, 60, 16])?.is_none());
        // No dimension lies together in x, or it is the same as in y.
        let view = |strides| View {
            shape: &[64, 64],
            strides,
            offset: 0,
        };
        for from in [&[2, 128][..], &[70, 1], &[70, 2]] {
            let layout = Merged::of([view(from), view(&[64, 1])])?;
            assert!(Tiles::of(&layout, &FOURS).is_none(), "{from:?}");
        }
        Ok(())
    }

    #[test]
    fn elements_that_share_cache_lines_anyway_need_no_tiles() -> Result<(), Refusal> {
        let tiles = |shape, step, narrow, small| -> Result<_, Refusal> {
            let shape_of_tiles = Shape {
                narrow,
                small,
                ..FOURS
            };
            Ok(Tiles::of(&turned(shape, step)?, &shape_of_tiles).is_some())
        };
        // Rows of y of six elements, and of x.
        assert!(tiles([1, 1000, 6], 2000, 5, [0, 0])?);
        assert!(!tiles([1, 1000, 6], 2000, 6, [0, 0])?);
        assert!(tiles([5, 6, 1000], 2000, 6, [0, 0])?);
        // Matrices of 16,384 bytes, whose rows are packs or not.
        assert!(tiles([9, 64, 64], 2000, 0, [16384, 16383])?);
        assert!(!tiles([9, 64, 64], 2000, 0, [0, 16384])?);
        assert!(tiles([9, 64, 64], 2001, 0, [16383, 16384])?);
        assert!(!tiles([9, 64, 64], 2001, 0, [16384, 0])?);
        // A row of each of nine matrices, and then the next one of each.
        let view = |strides| View {
            shape: &[64, 9, 64],
            strides,
            offset: 0,
        };
        let layout = Merged::of([view(&[1, 128_000, 2000]), view(&[576, 64, 1])])?;
        for (small, expected) in [(9 * 16384, false), (9 * 16384 - 1, true)] {
            let shape_of_tiles = Shape {
                small: [small; 2],
                ..FOURS
            };
            let tiles = Tiles::of(&layout, &shape_of_tiles);
            assert_eq!(tiles.is_some(), expected, "{small}");
        }
        Ok(())
    }

    #[test]
    fn tiles_are_cut_evenly_into_whole_squares() {
        for (size, expected) in [
            (3, 3),
            (64, 64),
            (65, 36),
            (128, 64),
            (129, 44),
            (130, 44),
            (199, 52),
        ] {
            assert_eq!(part(size, 64, 4), expected, "{size}");
        }
    }

    #[test]
    fn packs_are_read_and_written_where_all_rows_are_aligned() -> Result<(), Refusal> {
        let packs = |shape, step, [x, y]: [usize; 2], size| -> Result<_, Refusal> {
            let shape_of_tiles = Shape {
                starts: [Pointer::NULL.offset(x), Pointer::NULL.offset(y)],
                size,
                ..FOURS
            };
            let tiles = Tiles::of(&turned(shape, step)?, &shape_of_tiles);
            let tiles = tiles.expect("more elements than places");
            Ok((tiles.reads_packs, tiles.writes_packs))
        };
        let even = [2, 200, 400];
        assert_eq!(packs(even, 2000, [0, 0], 4)?, (1, 1));
        assert_eq!(packs(even, 2000, [48, 16], 4)?, (1, 1));
        // Where x or y begins.
        assert_eq!(packs(even, 2000, [8, 0], 4)?, (0, 1));
        assert_eq!(packs(even, 2000, [0, 8], 4)?, (1, 0));
        assert_eq!(packs(even, 2000, [8, 24], 2)?, (1, 1));
        assert_eq!(packs(even, 2000, [4, 6], 2)?, (0, 0));
        assert_eq!(packs(even, 2000, [16, 32], 8)?, (0, 1));
        // How long rows are, and how far apart.
        assert_eq!(packs([2, 201, 400], 2000, [0, 0], 4)?, (0, 1));
        assert_eq!(packs([2, 200, 402], 2000, [0, 0], 4)?, (1, 0));
        assert_eq!(packs(even, 2002, [0, 0], 4)?, (0, 1));
        assert_eq!(packs([2, 200, 401], 2001, [0, 0], 4)?, (0, 0));
        Ok(())
    }

    #[test]
    fn what_is_left_of_a_layout_has_the_other_dimensions() -> Result<(), Refusal> {
        let shape = [2, 3, 5, 7];
        let view = |strides, offset| View {
            shape: &shape,
            strides,
            offset,
        };
        let layout = Merged::of([view(&[4000, 1, 900, 30], 11), view(&[105, 35, 7, 1], 13)])?;
        let layout = without(&layout, 1);
        assert_eq!((layout.rank, layout.offsets), (2, [0; 2]));
        assert_eq!(layout.sizes[..2], [3, 2]);
        assert_eq!(layout.strides[0][..2], [1, 4000]);
        assert_eq!(layout.strides[1][..2], [35, 105]);
        Ok(())
    }
}
