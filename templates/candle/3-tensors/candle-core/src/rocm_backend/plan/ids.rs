//! Indices as kernels take them: the host's side of `candle_rocm/ids.h`, and the spaces that they index.
//!
//! Kernels touch no memory for an index out of range: what it should have read is zero, what it should have written is
//! left out.
use super::family::Kernel;
use super::launch::{Argument, Launch, Pointer};
use super::launcher::{Launcher, Refusal};
use super::table::Element;
use super::views::{Contiguous, Merged, View};

/// Indices in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Indices {
    /// Where the first is.
    pub(crate) start: Pointer,
    pub(crate) element: Element,
    /// The number that stands for no element.
    pub(crate) none: i64,
    /// Where a u32 becomes 1 if an index is out of range; null if nobody asks.
    pub(crate) failed: Pointer,
}

impl Indices {
    /// Of the elements of a space, in which they lie with `strides`, into a dimension of `size`.
    pub(super) fn over(self, strides: [usize; 3], size: usize) -> Indexed {
        let ids = self;
        Indexed { ids, strides, size }
    }

    /// Into a dimension of `size`, as kernels take them.
    pub(crate) fn into_dimension(self, size: usize) -> KernelIds {
        self.over([0; 3], size).argument(0)
    }
}

/// Elements that have an index each, as Candle flattens them: (left, n, right), n along the dimension indexed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Space {
    pub(crate) left: usize,
    pub(crate) n: usize,
    pub(crate) right: usize,
}

impl Space {
    /// The space of a shape around one of its dimensions.
    pub(crate) fn of(shape: &[usize], dim: usize) -> Self {
        Self {
            left: shape[..dim].iter().product(),
            n: shape[dim],
            right: shape[dim + 1..].iter().product(),
        }
    }

    /// Number of elements.
    pub(crate) fn count(&self) -> usize {
        self.left * self.n * self.right
    }

    /// Of row-major order.
    pub(super) fn strides(&self) -> [usize; 3] {
        [self.n * self.right, self.right, 1]
    }

    /// The space in memory with strides of several tensors, with as few dimensions as describe them all.
    pub(super) fn merged<const N: usize>(
        &self,
        strides: [[usize; 3]; N],
    ) -> Result<Merged<N>, Refusal> {
        let shape = [self.left, self.n, self.right];
        Merged::of(std::array::from_fn(|k| View {
            shape: &shape,
            strides: &strides[k],
            offset: 0,
        }))
    }
}

/// Where index 0 of each element of a space lies in a contiguous tensor (left, size, right), as strides.
pub(super) fn targets(size: usize, right: usize) -> [usize; 3] {
    [size * right, 0, 1]
}

/// Indices of a space's elements, into a dimension of `size`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Indexed {
    pub(super) ids: Indices,
    /// Over the space.
    pub(super) strides: [usize; 3],
    pub(super) size: usize,
}

impl Indexed {
    /// From an element of the space on.
    pub(super) fn argument(&self, offset: usize) -> KernelIds {
        let ids = self.ids;
        KernelIds {
            data: ids.start.offset(offset * ids.element.size()),
            failed: ids.failed,
            size: self.size as u64,
            none: ids.none,
            kind: ids.element as u32,
        }
    }
}

/// `candle::Ids`.
#[repr(C)]
pub(crate) struct KernelIds {
    data: Pointer,
    failed: Pointer,
    size: u64,
    none: i64,
    /// `candle::IdType`, which has the numbers of `Element`.
    kind: u32,
}

// SAFETY: the same fields in the same order, with C's layout on both sides.
unsafe impl Argument for KernelIds {}

/// Elements of x over a space, and the contiguous tensor y (left, size, right) that they are written or added to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Update {
    pub(super) y: Pointer,
    pub(super) x: Pointer,
    /// Of both.
    pub(super) element: Element,
    pub(super) ids: Indexed,
    pub(super) space: Space,
}

impl Update {
    /// Of elements with an index each: the indices are contiguous, too, and have x's shape.
    pub(super) fn scattered(
        y: Contiguous<'_>,
        ids: Indices,
        x: Contiguous<'_>,
        dim: usize,
    ) -> Self {
        let space = Space::of(x.shape, dim);
        Self {
            y: y.start,
            x: x.start,
            element: x.element,
            ids: ids.over(space.strides(), y.shape[dim]),
            space,
        }
    }

    /// Bytes of an element.
    pub(super) fn size(&self) -> usize {
        self.element.size()
    }

    /// Number of elements of y.
    pub(super) fn targets(&self) -> usize {
        self.space.left * self.ids.size * self.space.right
    }

    /// Launches a kernel (y, x, ids, stride, n, x step, ids step, views of columns), of which a thread walks along n.
    pub(super) fn walk_columns<L: Launcher>(
        &self,
        launcher: &L,
        kernel: Kernel,
        block: usize,
    ) -> Result<(), L::Error> {
        let Self { space, ids, .. } = self;
        let (limit, size) = (launcher.limits().elements, self.size());
        let columns = Space { n: 1, ..*space };
        let views = [targets(ids.size, space.right), space.strides(), ids.strides];
        let views = columns.merged(views)?;
        let [x_step, ids_step] = [space.strides()[1], ids.strides[1]];
        let stride = space.right as i64;
        for first in (0..space.n).step_by(limit) {
            let n = limit.min(space.n - first) as u32;
            views.launches(limit, &mut |_, piece| {
                let [to, from, indices] = piece.offsets;
                let y = self.y.offset(to * size);
                let x = self.x.offset((from + first * x_step) * size);
                let ids = ids.argument(indices + first * ids_step);
                let (x_step, ids_step) = (x_step as i64, ids_step as i64);
                let layout = piece.pack();
                let blocks = piece.count().div_ceil(block);
                let launch = Launch::new(launcher, kernel).strided(blocks, block);
                let launch = launch.arg(&y).arg(&x).arg(&ids).arg(&stride).arg(&n);
                // SAFETY: the arguments of kernels that walk along columns; x and the indices have an element for each
                // of the space, y for each index below `size`, and kernels leave out other indices.
                unsafe { launch.arg(&x_step).arg(&ids_step).arg(&layout).enqueue() }
            })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spaces_lie_around_a_dimension() {
        let Space { left, n, right } = Space::of(&[2, 3, 5, 7], 1);
        assert_eq!((left, n, right), (2, 3, 35));
        let Space { left, n, right } = Space::of(&[2, 3, 5, 7], 3);
        assert_eq!((left, n, right), (30, 7, 1));
        let space = Space::of(&[2, 3, 5, 7], 2);
        assert_eq!((space.count(), space.strides()), (210, [35, 7, 1]));
        assert_eq!(targets(9, 7), [63, 0, 1]);
    }

    #[test]
    fn kernels_get_indices_from_an_element_on() {
        for (element, bytes, kind) in [
            (Element::U8, 3, 0),
            (Element::U32, 12, 1),
            (Element::I16, 6, 2),
            (Element::I32, 12, 3),
            (Element::I64, 24, 4),
        ] {
            let [start, failed] = [64, 4096].map(|at| Pointer::NULL.offset(at));
            let none = -7;
            let ids = Indices {
                start,
                element,
                none,
                failed,
            };
            let given = ids.over([0, 1, 0], 5).argument(3);
            assert_eq!((given.data, given.failed), (start.offset(bytes), failed));
            assert_eq!((given.size, given.none, given.kind), (5, -7, kind));
        }
    }

    #[test]
    fn every_element_of_x_has_an_index() {
        let [start, to] = [64, 4096].map(|at| Pointer::NULL.offset(at));
        let element = Element::F16;
        let tensor = |start, shape| Contiguous {
            start,
            element,
            shape,
        };
        let ids = Indices {
            start: Pointer::NULL,
            element: Element::U8,
            none: 255,
            failed: Pointer::NULL,
        };
        let update = Update::scattered(tensor(to, &[2, 9, 5]), ids, tensor(start, &[2, 3, 5]), 1);
        assert_eq!((update.y, update.x, update.size()), (to, start, 2));
        assert_eq!(update.targets(), 2 * 9 * 5);
        assert_eq!((update.ids.size, update.ids.strides), (9, [15, 5, 1]));
    }
}
