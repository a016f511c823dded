"""Merged layouts, divisors and launches keep every element's offset."""

from __future__ import annotations

import itertools
import struct
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from some import some

from codegen.kernels.layout import MAX_COUNT, MAX_LAUNCH, MAX_RANK, Divisor, Layout, View, launches, merged

if TYPE_CHECKING:
    from collections.abc import Sequence

DIVIDENDS = st.integers(0, MAX_COUNT)
EXTREMES = sorted({n for p in range(32) for n in ((1 << p) - 1, 1 << p, (1 << p) + 1) if 0 < n <= MAX_COUNT})


def offsets(view: View) -> list[int]:
    """Of every element, in row-major order."""
    steps = [[i * stride for i in range(size)] for size, stride in zip(view.shape, view.strides, strict=True)]
    return [view.offset + sum(parts) for parts in itertools.product(*steps)]


def offset_at(layout: Layout, k: int, index: int) -> int:
    """Where view k of a layout has its element `index`, by Python's own division."""
    offset = layout.offsets[k]
    for size, stride in zip(layout.shape, layout.strides[k], strict=True):
        index, coordinate = divmod(index, size)
        offset += coordinate * stride
    return offset


def layout_offsets(layout: Layout, k: int) -> list[int]:
    """Of every element of view k, in row-major order."""
    return [offset_at(layout, k, index) for index in range(layout.count)]


@st.composite
def views_of_one_shape(draw: st.DrawFn, smallest: int = 0) -> list[View]:
    """One to three views that tensors can have: contiguous, permuted, narrowed, broadcast, or of any strides."""
    shape = tuple(draw(st.lists(st.integers(smallest, 4), max_size=5)))
    made = []
    for _ in range(draw(st.integers(1, 3))):
        order = draw(st.permutations(range(len(shape))))
        padded = [shape[d] + draw(st.integers(0, 1)) for d in order]
        dense = View.contiguous(padded).strides
        strides = [0] * len(shape)
        for place, d in enumerate(order):
            strides[d] = draw(st.sampled_from([dense[place], dense[place], 0, 7]))
        made.append(View(shape, tuple(strides), draw(st.integers(0, 9))))
    if draw(st.booleans()):
        made.append(View.contiguous(shape))
    return made


@given(views_of_one_shape())
def test_merging_keeps_every_offset(views: Sequence[View]) -> None:
    layout = merged(views)
    assert [layout_offsets(layout, k) for k in range(len(views))] == [offsets(view) for view in views]


@given(views_of_one_shape(smallest=1))
def test_nothing_is_left_to_merge(views: Sequence[View]) -> None:
    layout = merged(views)
    assert 1 not in layout.shape
    for d in range(len(layout.shape) - 1):
        assert any(strides[d + 1] != strides[d] * layout.shape[d] for strides in layout.strides)


@given(views_of_one_shape(smallest=1))
def test_flat_views_are_those_whose_offsets_count(views: Sequence[View]) -> None:
    counted = [offsets(view) == list(range(view.offset, view.offset + view.count)) for view in views]
    assert merged(views).flat == sum(flat << k for k, flat in enumerate(counted))


def test_a_contiguous_tensor_has_one_dimension() -> None:
    assert merged([View.contiguous((2, 3, 1, 5))]) == Layout((30,), ((1,),), (0,))


def test_dimensions_that_differ_in_one_view_stay() -> None:
    row = View((4, 5, 6), (0, 0, 1))
    assert merged([View.contiguous((4, 5, 6)), row]) == Layout((6, 20), ((1, 6), (1, 0)), (0, 0))


@given(st.integers(1, MAX_COUNT), DIVIDENDS)
@example(1, MAX_COUNT)
@example(MAX_COUNT, MAX_COUNT)
@example(MAX_COUNT, MAX_COUNT - 1)
def test_divisors_are_exact(size: int, number: int) -> None:
    divisor = Divisor.of(size)
    assert divisor.magic < 1 << 32
    for dividend in {number, number - number % size, max(0, number - number % size - 1)}:
        assert divisor.divide(dividend) == dividend // size


def test_divisors_are_exact_at_extremes() -> None:
    for size, number in some(itertools.product(EXTREMES, (0, *EXTREMES))):
        assert Divisor.of(size).divide(number) == number // size


@pytest.mark.parametrize("size", [0, -1, MAX_COUNT + 1])
def test_divisors_of_no_dimension_are_refused(size: int) -> None:
    with pytest.raises(ValueError, match=rf"1 to {MAX_COUNT} elements, not {size}"):
        Divisor.of(size)


@given(views_of_one_shape(smallest=1), st.integers(1, 20))
def test_launches_cover_every_element_once(views: Sequence[View], limit: int) -> None:
    layout = merged(views)
    pieces = list(launches(layout, limit))
    assert all(0 < piece.count <= limit for _, piece in pieces)
    assert [first for first, _ in pieces] == list(
        itertools.accumulate((piece.count for _, piece in pieces[:-1]), initial=0)
    )
    for k, view in enumerate(views):
        assert [offset for _, piece in pieces for offset in layout_offsets(piece, k)] == offsets(view)


def test_a_launch_of_all_elements_is_the_layout() -> None:
    layout = merged([View.contiguous((MAX_LAUNCH,))])
    assert list(launches(layout)) == [(0, layout)]


def test_cuts_keep_vectors_aligned() -> None:
    firsts = [first for first, _ in launches(merged([View.contiguous((5 * MAX_LAUNCH + 3,))]))]
    assert firsts == [n * MAX_LAUNCH for n in range(6)]


HUGE = (
    View.contiguous((3, 1 << 31, 5)),
    View((1 << 16, 1 << 17), (1, 1 << 16)),
    View((7, 1 << 33), (1 << 33, 1)),
    View((7, 1 << 33), (0, 3), offset=1 << 40),
    View((3, 5, 1 << 20, 1 << 11), (1 << 34, 1 << 40, 1 << 12, 2), offset=12345),
    View((1 << 34,), (0,)),
)


@pytest.mark.parametrize("view", HUGE, ids=lambda v: "x".join(map(str, v.shape)))
def test_launches_of_more_than_4gi_elements(view: View) -> None:
    assert view.count > 1 << 32
    whole, seen = merged([view]), 0
    for first, piece in launches(whole):
        assert first == seen
        assert 0 < piece.count <= MAX_LAUNCH
        assert all(size <= MAX_COUNT for size in piece.shape)
        for index in {0, 1, piece.count // 3, piece.count - 1}:
            assert offset_at(piece, 0, index) == offset_at(whole, 0, first + index)
        seen += piece.count
    assert seen == view.count


def test_packed_bytes() -> None:
    layout = merged([View((2, 3), (1, 7)), View((2, 3), (3, 1))])
    data = layout.pack()
    assert struct.unpack_from("<III", data) == (2, 6, 0b10)
    first, second = (struct.unpack_from("<III", data, 12 + 12 * d) for d in range(2))
    assert (first[0], second[0]) == (3, 2)
    assert struct.unpack_from("<2q", data, 112) == (7, 1)
    assert struct.unpack_from("<2q", data, 112 + 8 * MAX_RANK) == (1, 3)
    assert len(data) == 112 + 2 * 8 * MAX_RANK


def test_empty_layouts_have_no_dimensions() -> None:
    assert struct.unpack_from("<II", merged([View.contiguous((3, 0))]).pack()) == (0, 0)


def test_more_dimensions_than_kernels_take() -> None:
    view = View((2,) * 9, tuple(3**d for d in range(9)))
    with pytest.raises(ValueError, match="9 dimensions are left after merging; kernels take 8"):
        merged([view]).pack()
