//! Elements that lie together taken as one wider element, so that each access moves up to 16 bytes.
//!
//! Kernels that only move bits do not care what their elements are; what a lane moves at a time is decided here.
use super::launch::Pointer;
use super::table::Element;
use super::views::Merged;

/// A layout in elements of `width`.
pub(crate) struct Widened<const N: usize> {
    pub(crate) width: Element,
    /// Its offsets are all 0: the addresses have them.
    pub(crate) layout: Merged<N>,
    /// Of each view's first element.
    pub(crate) addresses: [Pointer; N],
}

/// The widest elements that describe the same bytes in the same order.
///
/// `layout` has elements of type `element`; `bases` are the addresses from which its offsets count. Several elements are
/// one where the innermost dimension is contiguous in every view, and where they, every other stride and every address
/// are a multiple of their number.
pub(crate) fn widened<const N: usize>(
    mut layout: Merged<N>,
    element: Element,
    bases: [Pointer; N],
) -> Widened<N> {
    let size = element.size();
    let addresses = std::array::from_fn(|k| bases[k].offset(layout.offsets[k] * size));
    layout.offsets = [0; N];
    let widths = [Element::B128, Element::B64, Element::B32, Element::B16];
    for width in widths.into_iter().filter(|width| width.size() >= size) {
        let several = width.size() / size;
        if lie_together(&layout, several, &addresses, width.size()) {
            return Widened {
                width,
                layout: taken(layout, several),
                addresses,
            };
        }
    }
    Widened {
        width: element.bits(),
        layout,
        addresses,
    }
}

fn lie_together<const N: usize>(
    layout: &Merged<N>,
    several: usize,
    addresses: &[Pointer; N],
    width: usize,
) -> bool {
    layout.sizes[0].is_multiple_of(several)
        && addresses
            .iter()
            .all(|address| address.is_multiple_of(width))
        && (0..N).all(|view| layout.in_packs(view, several))
}

/// The layout with `several` elements of its innermost dimension taken as one.
fn taken<const N: usize>(mut layout: Merged<N>, several: usize) -> Merged<N> {
    layout.sizes[0] /= several;
    for strides in &mut layout.strides {
        for stride in &mut strides[1..layout.rank] {
            *stride /= several;
        }
    }
    if layout.sizes[0] == 1 {
        layout.rank -= 1;
        layout.sizes.rotate_left(1);
        for strides in &mut layout.strides {
            strides.rotate_left(1);
        }
    }
    layout
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rocm_backend::plan::{Refusal, View};

    /// What a view in memory that begins at that address is taken as: bytes of an element, sizes and strides, innermost
    /// first, and the address of the first element.
    fn taken_as(
        element: Element,
        [shape, strides]: [&[usize]; 2],
        offset: usize,
        base: usize,
    ) -> Result<(usize, Vec<usize>, Vec<usize>, usize), Refusal> {
        let view = View {
            shape,
            strides,
            offset,
        };
        let start = Pointer::NULL.offset(base);
        let wide = widened(Merged::of([view])?, element, [start]);
        assert_eq!(wide.layout.offsets, [0]);
        let rank = wide.layout.rank;
        let (sizes, [strides]) = (wide.layout.sizes, wide.layout.strides);
        let bytes = wide.width.size();
        let (sizes, strides) = (sizes[..rank].to_vec(), strides[..rank].to_vec());
        Ok((bytes, sizes, strides, wide.addresses[0].0 as usize))
    }

    #[test]
    fn elements_that_lie_together_are_one() -> Result<(), Refusal> {
        fn floats(
            view: [&[usize]; 2],
            offset: usize,
            base: usize,
        ) -> Result<(usize, Vec<usize>, Vec<usize>, usize), Refusal> {
            taken_as(Element::F32, view, offset, base)
        }
        // A row: as wide as its length and its address are multiples of.
        assert_eq!(floats([&[24], &[1]], 0, 64)?, (16, vec![6], vec![1], 64));
        assert_eq!(floats([&[22], &[1]], 0, 64)?, (8, vec![11], vec![1], 64));
        assert_eq!(floats([&[23], &[1]], 0, 64)?, (4, vec![23], vec![1], 64));
        assert_eq!(floats([&[24], &[1]], 0, 72)?, (8, vec![12], vec![1], 72));
        assert_eq!(floats([&[24], &[1]], 0, 68)?, (4, vec![24], vec![1], 68));
        // Its first element counts, not where the memory begins.
        assert_eq!(floats([&[24], &[1]], 8, 64)?, (16, vec![6], vec![1], 96));
        assert_eq!(floats([&[24], &[1]], 2, 64)?, (8, vec![12], vec![1], 72));
        assert_eq!(floats([&[24], &[1]], 2, 72)?, (16, vec![6], vec![1], 80));
        // Nothing but rows of neighbours.
        assert_eq!(floats([&[24], &[4]], 0, 64)?, (4, vec![24], vec![4], 64));
        assert_eq!(floats([&[], &[]], 4, 64)?, (4, vec![], vec![], 80));
        // Several rows: their distances count, too.
        let rows = |step| floats([&[3, 8], &[step, 1]], 0, 0);
        assert_eq!(rows(12)?, (16, vec![2, 3], vec![1, 3], 0));
        assert_eq!(rows(14)?, (8, vec![4, 3], vec![1, 7], 0));
        assert_eq!(rows(13)?, (4, vec![8, 3], vec![1, 13], 0));
        // A row that becomes one element is no dimension any more.
        let row = [&[5, 3, 4][..], &[100, 8, 1]];
        assert_eq!(floats(row, 0, 0)?, (16, vec![3, 5], vec![2, 25], 0));
        assert_eq!(floats([&[4], &[1]], 0, 0)?, (16, vec![], vec![], 0));
        Ok(())
    }

    #[test]
    fn elements_of_any_size_become_wider() -> Result<(), Refusal> {
        for (element, expected) in [
            (Element::U8, (16, vec![3], vec![1], 0)),
            (Element::F16, (16, vec![6], vec![1], 0)),
            (Element::I64, (16, vec![24], vec![1], 0)),
            (Element::B128, (16, vec![48], vec![1], 0)),
        ] {
            let found = taken_as(element, [&[48], &[1]], 0, 0)?;
            assert_eq!(found, expected, "{element:?}");
        }
        let bytes = taken_as(Element::U8, [&[6], &[1]], 0, 0)?;
        assert_eq!(bytes, (2, vec![3], vec![1], 0));
        let bytes = taken_as(Element::U8, [&[7], &[1]], 3, 0)?;
        assert_eq!(bytes, (1, vec![7], vec![1], 3));
        Ok(())
    }

    #[test]
    fn the_narrower_of_two_views_decides() -> Result<(), Refusal> {
        let view = |strides, offset| View {
            shape: &[3, 8],
            strides,
            offset,
        };
        let bytes = |views| -> Result<_, Refusal> {
            let wide = widened(Merged::of(views)?, Element::F32, [Pointer::NULL; 2]);
            Ok(wide.width.size())
        };
        assert_eq!(bytes([view(&[8, 1], 0), view(&[12, 1], 4)])?, 16);
        assert_eq!(bytes([view(&[8, 1], 0), view(&[10, 1], 0)])?, 8);
        assert_eq!(bytes([view(&[10, 1], 0), view(&[8, 1], 0)])?, 8);
        assert_eq!(bytes([view(&[8, 1], 0), view(&[12, 1], 2)])?, 8);
        assert_eq!(bytes([view(&[8, 1], 0), view(&[1, 3], 0)])?, 4);
        assert_eq!(bytes([view(&[8, 1], 0), view(&[1, 0], 0)])?, 4);
        Ok(())
    }
}
