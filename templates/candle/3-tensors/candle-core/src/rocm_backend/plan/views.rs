//! How a launch describes views of memory: dimensions merged, divisors as multipliers, launches below 2^31 elements.
//!
//! The host's side of `candle_rocm/layout.h`. Strides and offsets count elements; a broadcast stride is 0.
use super::launch::{Argument, Pointer};
use super::launcher::Refusal;
use super::table::{Element, MAX_RANK};

/// Where a tensor's elements lie, in elements from the start of its memory; outermost dimension first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    pub(crate) shape: &'a [usize],
    pub(crate) strides: &'a [usize],
    pub(crate) offset: usize,
}

/// Strides of contiguous memory, the last dimension innermost.
pub(crate) fn row_major(shape: &[usize]) -> Vec<usize> {
    let mut step = 1;
    let mut strides = vec![0; shape.len()];
    for (stride, &size) in strides.iter_mut().zip(shape).rev() {
        *stride = step;
        step *= size;
    }
    strides
}

impl Operand<'_> {
    /// Where the view's first element is.
    pub(crate) fn start(&self) -> Pointer {
        self.base.offset(self.view.offset * self.size)
    }
}

/// Memory and the view of it that is meant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operand<'a> {
    /// Where the memory begins; the view counts its offset from there.
    pub(crate) base: Pointer,
    /// Bytes of an element.
    pub(crate) size: usize,
    pub(crate) view: View<'a>,
}

impl<'a> View<'a> {
    /// Of matrices: rows and columns, as (size, stride).
    pub(crate) fn sides(&self) -> [(usize, usize); 2] {
        let columns = self.shape.len() - 1;
        [columns - 1, columns].map(|d| (self.shape[d], self.strides[d]))
    }

    /// Of matrices: their first elements.
    pub(crate) fn corners(&self) -> View<'a> {
        let dims = self.shape.len() - 2;
        View {
            shape: &self.shape[..dims],
            strides: &self.strides[..dims],
            offset: self.offset,
        }
    }

    /// Whether the elements lie in row-major order without gaps (dimensions of size 1 do not count).
    pub(crate) fn is_contiguous(&self) -> bool {
        let mut expected = 1;
        for (&size, &stride) in self.shape.iter().zip(self.strides).rev() {
            if size != 1 && stride != expected {
                return false;
            }
            expected *= size;
        }
        true
    }
}

/// A tensor whose elements lie in row-major order without gaps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Contiguous<'a> {
    /// Where its first element is.
    pub(crate) start: Pointer,
    pub(crate) element: Element,
    pub(crate) shape: &'a [usize],
}

/// Views of one shape with as few dimensions as describe them, innermost first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Merged<const N: usize> {
    pub(crate) rank: usize,
    pub(crate) sizes: [usize; MAX_RANK],
    /// Of each view.
    pub(crate) strides: [[usize; MAX_RANK]; N],
    /// Of each view's first element.
    pub(crate) offsets: [usize; N],
}

impl<const N: usize> Merged<N> {
    /// Sizes of 1 are dropped, and two neighbouring dimensions are one where, in every view, a step of the outer is as
    /// long as all steps of the inner. An error if more than `MAX_RANK` dimensions are left.
    pub(crate) fn of(views: [View<'_>; N]) -> Result<Self, Refusal> {
        let mut merged = Self::starting_at(views.map(|view| view.offset));
        for (d, &size) in views[0].shape.iter().enumerate().rev() {
            merged.push(size, views.map(|view| view.strides[d]))?;
        }
        Ok(merged)
    }

    /// One element of each view.
    pub(crate) fn starting_at(offsets: [usize; N]) -> Self {
        Self {
            rank: 0,
            sizes: [1; MAX_RANK],
            strides: [[0; MAX_RANK]; N],
            offsets,
        }
    }

    /// Adds a dimension around the others, or makes the outermost one longer.
    pub(crate) fn push(&mut self, size: usize, steps: [usize; N]) -> Result<(), Refusal> {
        if size == 1 {
            return Ok(());
        }
        if let Some(last) = self.rank.checked_sub(1) {
            let length = self.sizes[last];
            if (0..N).all(|k| steps[k] == self.strides[k][last] * length) {
                self.sizes[last] *= size;
                return Ok(());
            }
        }
        if self.rank == MAX_RANK {
            let message = format!(
                "kernels take views of {MAX_RANK} dimensions, and no two of more lie together here"
            );
            return Err(Refusal(message));
        }
        self.sizes[self.rank] = size;
        for (strides, step) in self.strides.iter_mut().zip(steps) {
            strides[self.rank] = step;
        }
        self.rank += 1;
        Ok(())
    }

    /// Number of elements.
    pub(crate) fn count(&self) -> usize {
        self.sizes[..self.rank].iter().product()
    }

    /// Bit k is set if view k is contiguous: its elements lie in the order in which they are counted.
    pub(crate) fn flat(&self) -> u32 {
        let mut flat = 0;
        for (k, strides) in self.strides.iter().enumerate() {
            let mut expected = 1;
            let mut contiguous = true;
            for (&size, &stride) in self.sizes[..self.rank].iter().zip(strides) {
                contiguous &= size == 1 || stride == expected;
                expected *= size;
            }
            flat |= u32::from(contiguous) << k;
        }
        flat
    }

    /// Whether every view is contiguous.
    pub(crate) fn all_flat(&self) -> bool {
        self.flat() == (1 << N) - 1
    }

    /// Whether a view's rows have neighbours in memory and begin a multiple of `pack` elements apart.
    pub(crate) fn in_packs(&self, view: usize, pack: usize) -> bool {
        match &self.strides[view][..self.rank] {
            [1, outer @ ..] => outer.iter().all(|step| step % pack == 0),
            _ => false,
        }
    }

    /// Calls `launch` with layouts of at most `limit` elements, cut along the outermost dimensions, and with the number
    /// of the first element of each in row-major order: where its results go. Never for an empty layout.
    pub(crate) fn launches<E>(
        &self,
        limit: usize,
        launch: &mut dyn FnMut(usize, &Self) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.count() == 0 {
            return Ok(());
        }
        self.cut(limit, 0, launch)
    }

    fn cut<E>(
        &self,
        limit: usize,
        first: usize,
        launch: &mut dyn FnMut(usize, &Self) -> Result<(), E>,
    ) -> Result<(), E> {
        let count = self.count();
        if count <= limit {
            return launch(first, self);
        }
        let last = self.rank - 1;
        let (outer, inner) = (self.sizes[last], count / self.sizes[last]);
        let rows = (limit / inner).max(1);
        for row in (0..outer).step_by(rows) {
            let mut part = *self;
            part.sizes[last] = rows.min(outer - row);
            for (offset, strides) in part.offsets.iter_mut().zip(&self.strides) {
                *offset += row * strides[last];
            }
            if rows == 1 {
                part.rank = last; // and what is left may still be too long
            }
            part.cut(limit, first + row * inner, launch)?;
        }
        Ok(())
    }

    /// As kernels take it. The layout has 1 to 2^31 - 1 elements.
    pub(crate) fn pack(&self) -> KernelLayout<N> {
        let mut layout = KernelLayout {
            rank: self.rank as u32,
            count: self.count() as u32,
            flat: self.flat(),
            dims: [Divisor::default(); MAX_RANK],
            strides: [[0; MAX_RANK]; N],
        };
        for d in 0..self.rank {
            layout.dims[d] = Divisor::of(self.sizes[d]);
            for k in 0..N {
                layout.strides[k][d] = self.strides[k][d] as i64;
            }
        }
        layout
    }
}

/// `candle::Divisor`: n / size == (n * magic / 2^32 + n) >> shift for n below 2^31.
///
/// Source: Granlund and Montgomery, "Division by invariant integers using multiplication", PLDI 1994, section 4.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Divisor {
    size: u32,
    magic: u32,
    shift: u32,
}

impl Divisor {
    /// For a dimension of 1 to 2^31 - 1 elements.
    pub(crate) fn of(size: usize) -> Self {
        debug_assert!(0 < size && size < 1 << 31);
        let shift = usize::BITS - (size - 1).leading_zeros();
        let magic = (1u64 << (32 + shift)) / size as u64 + 1;
        Self {
            size: size as u32,
            magic: magic as u32, // less 2^32
            shift,
        }
    }
}

/// `candle::Layout<N>`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct KernelLayout<const N: usize> {
    rank: u32,
    count: u32,
    flat: u32,
    dims: [Divisor; MAX_RANK],
    strides: [[i64; MAX_RANK]; N],
}

// SAFETY: the same fields in the same order, with C's layout on both sides.
unsafe impl<const N: usize> Argument for KernelLayout<N> {}
// SAFETY: as above.
unsafe impl Argument for Divisor {}

#[cfg(test)]
mod tests {
    use super::*;

    fn divide(divisor: Divisor, n: u32) -> u32 {
        let high = ((n as u64 * divisor.magic as u64) >> 32) as u32;
        (high + n) >> divisor.shift
    }

    #[test]
    fn divisors_divide() {
        for size in [
            1,
            2,
            3,
            5,
            7,
            64,
            641,
            1000003,
            (1 << 30) - 1,
            1 << 30,
            (1 << 31) - 1,
        ] {
            let divisor = Divisor::of(size);
            for n in [
                0,
                1,
                2,
                63,
                64,
                65,
                12345678,
                (1 << 30) - 1,
                1 << 30,
                (1u32 << 31) - 1,
            ] {
                assert_eq!(divide(divisor, n), n / size as u32, "{n} / {size}");
            }
        }
    }

    #[test]
    fn neighbours_merge() -> Result<(), Refusal> {
        let view = |strides| View {
            shape: &[2, 3, 1, 4],
            strides,
            offset: 0,
        };
        let merged = Merged::of([view(&[12, 4, 9, 1]), view(&[24, 4, 0, 1])])?;
        assert_eq!((merged.rank, merged.sizes[0], merged.sizes[1]), (2, 12, 2));
        assert_eq!(merged.flat(), 0b01);
        let one = Merged::of([view(&[12, 4, 9, 1])])?;
        assert_eq!((one.rank, one.sizes[0], one.flat()), (1, 24, 1));
        Ok(())
    }

    #[test]
    fn launches_cover_every_element_once() -> Result<(), Refusal> {
        let view = View {
            shape: &[5, 7, 16],
            strides: &[1, 5, 35],
            offset: 3,
        };
        let merged = Merged::of([view])?;
        let mut seen = vec![0; 5 * 7 * 16];
        let mut firsts = vec![];
        merged.launches(32, &mut |first, piece| {
            assert!(piece.count() <= 32);
            firsts.push(first);
            for i in 0..piece.count() {
                seen[first + i] += 1;
            }
            Ok(())
        })?;
        assert!(firsts.len() > 1);
        assert!(seen.iter().all(|&times| times == 1));
        Ok(())
    }
    #[test]
    fn contiguous_views_have_no_gaps() {
        for (shape, strides, contiguous) in [
            (&[2, 3, 4][..], &[12, 4, 1][..], true),
            (&[2, 3, 4], &[12, 4, 2], false),
            (&[2, 3, 4], &[12, 5, 1], false),
            (&[2, 3, 4], &[7, 4, 1], false),
            (&[2, 1, 4], &[4, 99, 1], true),
            (&[2, 1, 4], &[5, 4, 1], false),
            (&[1], &[7], true),
            (&[3], &[2], false),
            (&[], &[], true),
        ] {
            let view = View {
                shape,
                strides,
                offset: 5,
            };
            assert_eq!(view.is_contiguous(), contiguous, "{view:?}");
        }
    }

    /// These dimensions, innermost first, of which none is merged; sizes may be 1, as behind a cut.
    fn unmerged<const N: usize>(sizes: &[usize], strides: [&[usize]; N]) -> Merged<N> {
        let mut layout = Merged::starting_at([0; N]);
        layout.rank = sizes.len();
        layout.sizes[..sizes.len()].copy_from_slice(sizes);
        for (own, strides) in layout.strides.iter_mut().zip(strides) {
            own[..sizes.len()].copy_from_slice(strides);
        }
        layout
    }

    #[test]
    fn each_contiguous_view_has_a_bit() {
        let layout = unmerged(&[4, 3, 2], [&[1, 4, 12], &[1, 4, 13], &[1, 4, 12], &[0; 3]]);
        assert_eq!((layout.flat(), layout.all_flat()), (0b0101, false));
        let layout = unmerged(&[4, 3], [&[1, 5], &[1, 4]]);
        assert_eq!((layout.flat(), layout.all_flat()), (0b10, false));
        let layout = unmerged(&[4, 1, 3], [&[1, 99, 4], &[1, 0, 4]]);
        assert_eq!((layout.flat(), layout.all_flat()), (0b11, true));
        let layout = unmerged(&[1, 3], [&[7, 1]]);
        assert_eq!((layout.flat(), layout.all_flat()), (1, true));
        let layout = unmerged(&[1, 3], [&[1, 2]]);
        assert_eq!((layout.flat(), layout.all_flat()), (0, false));
        assert!(unmerged(&[], [&[]; 3]).all_flat());
    }

    #[test]
    fn rows_are_in_packs_where_each_begins_with_one() {
        let layout = unmerged(&[16, 5, 2], [&[1, 24, 120], &[1, 24, 122], &[2, 24, 120]]);
        for (view, pack, expected) in [
            (0, 1, true),
            (0, 4, true),
            (0, 8, true),
            (0, 16, false),
            (1, 2, true),
            (1, 4, false),
            (2, 1, false),
        ] {
            let found = layout.in_packs(view, pack);
            assert_eq!(found, expected, "view {view}, packs of {pack}");
        }
        assert!(unmerged(&[16], [&[1]]).in_packs(0, 4));
        assert!(!unmerged(&[], [&[]]).in_packs(0, 1));
    }

    #[test]
    fn more_dimensions_than_kernels_take_are_an_error() -> Result<(), Refusal> {
        let shape = [2; MAX_RANK + 1];
        // No step is as long as all steps of the next dimension.
        let mut strides: [usize; MAX_RANK + 1] =
            std::array::from_fn(|d| 3usize.pow((MAX_RANK - d) as u32));
        let merged = |shape: &[usize], strides: &[usize]| {
            Merged::of([View {
                shape,
                strides,
                offset: 0,
            }])
        };
        assert_eq!(merged(&shape[1..], &strides[1..])?.rank, MAX_RANK);
        assert!(merged(&shape, &strides).is_err());
        strides[0] = 2 * strides[1];
        let merged = merged(&shape, &strides)?;
        assert_eq!((merged.rank, merged.sizes[MAX_RANK - 1]), (MAX_RANK, 4));
        Ok(())
    }

    /// Where the elements of a layout's views are, in row-major order.
    fn places<const N: usize>(layout: &Merged<N>) -> Vec<[usize; N]> {
        let mut places = vec![layout.offsets];
        for d in (0..layout.rank).rev() {
            let steps = |&place: &[usize; N]| {
                (0..layout.sizes[d]).map(move |i| {
                    let mut next = place;
                    for (k, place) in next.iter_mut().enumerate() {
                        *place += i * layout.strides[k][d];
                    }
                    next
                })
            };
            places = places.iter().flat_map(steps).collect();
        }
        places
    }

    #[test]
    fn pieces_are_the_parts_of_the_whole_in_order() -> Result<(), Refusal> {
        let layout = Merged {
            offsets: [3, 100],
            ..unmerged(&[16, 7, 5], [&[5, 81, 1000], &[0, 1, 7]])
        };
        let whole = places(&layout);
        assert_eq!(whole.len(), 560);
        // The most elements of a piece, and how many pieces that takes.
        for (limit, pieces) in [
            (1, 560),
            (4, 35 * 4),
            (5, 35 * 4),
            (15, 35 * 2),
            (16, 35),
            (31, 35),
            (32, 5 * 4),
            (111, 5 * 2),
            (112, 5),
            (223, 5),
            (224, 3),
            (448, 2),
            (559, 2),
            (560, 1),
        ] {
            let (mut seen, mut launches) = (vec![], 0);
            layout.launches(limit, &mut |first, piece| {
                assert_eq!(first, seen.len(), "at most {limit}");
                assert!((1..=limit).contains(&piece.count()), "at most {limit}");
                seen.extend(places(piece));
                launches += 1;
                Ok(())
            })?;
            assert_eq!(launches, pieces, "at most {limit}");
            assert_eq!(seen, whole, "at most {limit}");
        }
        unmerged(&[4, 0], [&[1, 4]]).launches(8, &mut |_, _| panic!("nothing is launched"))
    }

    #[test]
    fn kernels_get_what_a_layout_is() {
        let packed = unmerged(&[6, 5, 7], [&[1, 6, 30], &[0, 1, 5]]).pack();
        assert_eq!((packed.rank, packed.count, packed.flat), (3, 210, 0b01));
        let sizes: Vec<u32> = packed.dims[..3].iter().map(|dim| dim.size).collect();
        assert_eq!(sizes, [6, 5, 7]);
        assert_eq!(packed.strides[0][..3], [1, 6, 30]);
        assert_eq!(packed.strides[1][..3], [0, 1, 5]);
    }
}
