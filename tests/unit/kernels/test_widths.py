"""Elements taken as wider ones are the same bytes in the same order, and as wide as can be."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codegen.kernels.layout import Layout, View, merged
from codegen.kernels.widths import widened


def _bytes_of(layout: Layout, view: int, size: int, start: int) -> list[int]:
    """Addresses of a view's bytes in the order in which its elements are counted."""
    found: list[int] = []
    for place in itertools.product(*(range(n) for n in reversed(layout.shape))):
        steps = zip(reversed(place), layout.strides[view], strict=True)
        element = start + (layout.offsets[view] + sum(i * stride for i, stride in steps)) * size
        found += range(element, element + size)
    return found


sizes = st.sampled_from([1, 2, 4, 8])
dimensions = st.lists(st.tuples(st.sampled_from([1, 2, 3, 4, 6, 8, 16]), st.sampled_from([1, 1, 2, 3, 4])), max_size=3)


@st.composite
def views(draw: st.DrawFn) -> tuple[View, View]:
    """Two views of one shape; each dimension's stride in the first leaves gaps of any size, or is 0 or 1."""
    drawn = draw(dimensions)
    shape = tuple(size for size, _ in drawn)
    strides, step = [], 1
    for size, gap in reversed(drawn):
        strides.append(draw(st.sampled_from([step, step, step * gap, 0])))
        step *= size * gap
    return View(shape, tuple(reversed(strides)), draw(st.integers(0, 9))), View.contiguous(shape)


@given(views(), sizes, st.sampled_from([0, 8, 16, 48]), st.sampled_from([0, 2, 16]))
def test_the_bytes_are_the_same(pair: tuple[View, View], size: int, x: int, y: int) -> None:
    layout = merged(pair)
    starts = (x * size, y * size)

    wide = widened(layout, size, starts)

    for view, start in enumerate(starts):
        assert _bytes_of(wide.layout, view, wide.width.size, wide.addresses[view]) == _bytes_of(
            layout, view, size, start
        )
    assert all(address % wide.width.size == 0 for address in wide.addresses)


@pytest.mark.parametrize(
    ("view", "size", "start", "width"),
    [
        (View.contiguous((64,)), 1, 0, "b128"),
        (View.contiguous((64,)), 1, 8, "b64"),
        (View.contiguous((67,)), 2, 0, "b16"),
        (View.contiguous((6,)), 4, 0, "b64"),
        (View((5, 8), (24, 1)), 2, 0, "b128"),
        (View((5, 8), (20, 1)), 2, 0, "b64"),
        (View((5, 8), (8, 1), 4), 2, 0, "b64"),
        (View((8, 5), (1, 8)), 2, 0, "b16"),
        (View((), ()), 4, 0, "b32"),
    ],
)
def test_as_wide_as_can_be(view: View, size: int, start: int, width: str) -> None:
    assert widened(merged([view]), size, (start,)).width.name == width


def test_a_dimension_that_one_element_takes_up_is_gone() -> None:
    wide = widened(merged([View((3, 5, 2), (2, 6, 1)), View.contiguous((3, 5, 2))]), 8, (0, 0))
    assert wide.layout == Layout((5, 3), ((3, 1), (1, 5)), (0, 0))
