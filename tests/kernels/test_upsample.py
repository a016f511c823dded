"""Upsampling kernels against numpy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from some import some

from codegen.device.ops.upsample import upsample_bilinear2d, upsample_nearest1d, upsample_nearest2d
from codegen.device.tensor import Tensor, numpy_type
from codegen.kernels.dtypes import DTYPES, Kind, dtype
from kernels.compare import assert_same_bits, assert_within
from kernels.images import image_views, rounded_to, unit, with_few_blocks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codegen.device.kernels import Kernels
    from codegen.kernels.dtypes import DType

Array = np.ndarray[Any, Any]
Image = tuple[int, int, int, int]

SHAPES: tuple[tuple[Image, tuple[int, int]], ...] = (
    ((2, 3, 4, 8), (8, 16)),
    ((1, 2, 3, 5), (9, 40)),
    ((1, 1, 1, 1), (3, 7)),
    ((2, 1, 8, 9), (1, 1)),
    ((1, 5, 7, 6), (7, 6)),
    ((1, 2, 20, 30), (37, 61)),
    ((3, 300, 1, 2), (2, 3)),
    ((0, 3, 4, 4), (8, 8)),
    ((1, 1, 3, 49), (49, 343)),
)
"""Images and target sizes: doubled, in packs of lanes, one pixel, to one pixel, equal, many blocks, many planes, none,
and ratios that f64 does not represent."""


def _configurations(element: DType) -> Iterator[tuple[Image, tuple[int, int]]]:
    yield from SHAPES
    random = np.random.default_rng(sum(map(ord, element.name)))
    for _ in range(6):
        sizes = random.integers(1, 14, 4)
        shape = (int(random.integers(1, 4)), int(random.integers(1, 6)), int(sizes[0]), int(sizes[1]))
        yield shape, (int(sizes[2]), int(sizes[3]) * 4)


def _nearest(size: int, target: int) -> Array:
    return np.minimum((np.arange(target) * (size / target)).astype(np.int64), size - 1)


@pytest.mark.parametrize("element", DTYPES, ids=str)
def test_upsample_nearest2d(kernels: Kernels, element: DType) -> None:
    for seed, (shape, (height, width)) in some(enumerate(_configurations(element))):
        view = image_views(shape)[seed % 4]
        x, array = view.make(kernels.device, element, seed)
        expected = array[:, :, _nearest(shape[2], height)][..., _nearest(shape[3], width)]
        assert_same_bits(upsample_nearest2d(kernels, x, height, width), expected)


@pytest.mark.parametrize("element", [dtype("u8"), dtype("f16"), dtype("f32"), dtype("i64")], ids=str)
def test_upsample_nearest1d(kernels: Kernels, element: DType) -> None:
    for seed, (size, length) in enumerate([(1, 5), (7, 7), (9, 3), (5, 600), (3, 64), (17, 31)]):
        view = image_views((2, 3, size))[seed % 4]
        x, array = view.make(kernels.device, element, seed)
        assert_same_bits(upsample_nearest1d(kernels, x, length), array[..., _nearest(size, length)])


def _neighbours(size: int, target: int, factor: float | None, *, corners: bool) -> tuple[Array, Array, Array]:
    """For each result the two source elements, and the second's weight."""
    scale = (size - 1) / max(target - 1, 1) if corners else 1 / factor if factor else size / target
    if corners and target == 1:
        scale = 0.0
    shift = 0.0 if corners else 0.5
    source = np.maximum(scale * (np.arange(target) + shift) - shift, 0.0)
    first = np.minimum(np.floor(source).astype(np.int64), size - 1)
    return first, np.minimum(first + 1, size - 1), np.clip(source - first, 0.0, 1.0)


def _bilinear(
    x: Array, sizes: tuple[int, int], factors: tuple[float | None, float | None], *, corners: bool
) -> tuple[Array, Array]:
    """In f64, as the CPU backend has it; and the largest magnitude of the four neighbours."""
    values = x.astype(np.float64)
    top, bottom, down = _neighbours(x.shape[2], sizes[0], factors[0], corners=corners)
    left, right, across = _neighbours(x.shape[3], sizes[1], factors[1], corners=corners)

    with np.errstate(all="ignore"):
        rows = [values[:, :, r][..., left] * (1 - across) + values[:, :, r][..., right] * across for r in (top, bottom)]
        result = rows[0] * (1 - down)[:, None] + rows[1] * down[:, None]
    four = [values[:, :, r][..., c] for r in (top, bottom) for c in (left, right)]
    return result, np.abs(four).max(axis=0)


@pytest.mark.parametrize("element", DTYPES, ids=str)
def test_upsample_bilinear2d(kernels: Kernels, element: DType) -> None:
    exact = element.kind is Kind.INTEGER or element.size == 8
    for seed, (shape, sizes) in some(enumerate(_configurations(element))):
        if shape[2:] == sizes:
            continue
        view = image_views(shape)[seed % 4]
        for corners in (False, True):
            x, array = view.make(kernels.device, element, seed, special=exact)
            result, largest = _bilinear(array, sizes, (None, None), corners=corners)
            y = upsample_bilinear2d(kernels, x, *sizes, align_corners=corners)
            if exact:
                assert_same_bits(y, _as_rust(result, element))
            else:
                assert_within(y.numpy(), result, 2 * unit(element) * largest)


def _as_rust(values: Array, element: DType) -> Array:
    """f64 as Rust's `as` brings it to an integer: saturating, NaN is 0."""
    if element.kind is Kind.FLOAT:
        return rounded_to(values, element)
    ends = np.iinfo(numpy_type(element))
    clipped = [min(max(int(v), ends.min), ends.max) for v in values.reshape(-1)]
    return np.array(clipped, dtype=ends.dtype).reshape(values.shape)


@pytest.mark.parametrize("factors", [(1.5, 2.0), (0.37, 3.1), (2.9, 0.61)])
def test_scale_factors_stand_for_the_ratio_of_sizes(kernels: Kernels, factors: tuple[float, float]) -> None:
    x, array = image_views((2, 3, 7, 9))[0].make(kernels.device, dtype("f64"), 3, special=False)
    sizes = (int(7 * factors[0]), int(9 * factors[1]))
    result, _ = _bilinear(array, sizes, factors, corners=False)
    y = upsample_bilinear2d(kernels, x, *sizes, scale_factors=factors)
    assert_same_bits(y, result)
    without, _ = _bilinear(array, sizes, (None, None), corners=False)
    assert not np.array_equal(result, without)


@pytest.mark.parametrize("element", [t for t in DTYPES if t.kind is Kind.FLOAT], ids=str)
def test_an_infinity_spreads_to_what_it_is_a_neighbour_of(kernels: Kernels, element: DType) -> None:
    """Weights of 0 make it NaN; images of the same size are copied."""
    values = np.ones((1, 1, 4, 4), dtype=np.float32)
    values[0, 0, 1, 2] = np.nan if element.name == "f8e4m3" else np.inf
    array = rounded_to(values, element)
    x = Tensor.from_numpy(kernels.device, array, element)
    result, _ = _bilinear(array, (8, 7), (None, None), corners=True)
    assert np.isnan(result).any()
    got = upsample_bilinear2d(kernels, x, 8, 7, align_corners=True).numpy().astype(np.float64)
    np.testing.assert_array_equal(np.isfinite(got), np.isfinite(result))
    np.testing.assert_array_equal(np.isnan(got), np.isnan(result))
    assert_same_bits(upsample_bilinear2d(kernels, x, 4, 4), array)


def test_threads_walk_over_planes(kernels: Kernels) -> None:
    x, array = image_views((3, 70, 2, 3))[2].make(kernels.device, dtype("i16"), special=False)
    y = Tensor.empty(kernels.device, (3, 70, 4, 6), dtype("i16"))
    plan = [launch for _, launch in kernels.plan("upsample_nearest", x=x, y=y)]
    assert plan[0].grid[1] > 1
    kernels.launch("upsample", with_few_blocks(plan))
    assert_same_bits(y, array.repeat(2, axis=2).repeat(2, axis=3))


def test_an_empty_image_is_refused(kernels: Kernels) -> None:
    x = Tensor.empty(kernels.device, (1, 1, 0, 3), dtype("f32"))
    with pytest.raises(ValueError, match="nothing to make"):
        upsample_nearest2d(kernels, x, 2, 2)
