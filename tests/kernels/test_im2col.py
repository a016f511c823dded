"""Unfolding and folding kernels against numpy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from some import some

from codegen.device.ops.im2col import col2im1d, im2col, im2col1d
from codegen.device.tensor import Tensor
from codegen.kernels.dtypes import dtype
from kernels.cases import random_values
from kernels.compare import assert_same_bits
from kernels.images import image_views, rounded_to, wide

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codegen.device.kernels import Kernels
    from codegen.kernels.dtypes import DType

Array = np.ndarray[Any, Any]
Image = tuple[int, int, int, int]

OF_EACH_WIDTH = [dtype(name) for name in ("u8", "bf16", "f32", "i64")]

SHAPES: tuple[tuple[Image, tuple[int, int], int, int, int], ...] = (
    ((2, 3, 8, 40), (3, 3), 1, 1, 1),
    ((1, 70, 5, 6), (3, 3), 1, 1, 1),
    ((1, 40, 3, 40), (3, 3), 1, 1, 1),
    ((1, 300, 2, 3), (1, 1), 1, 0, 1),
    ((2, 2, 9, 9), (1, 1), 2, 0, 1),
    ((1, 2, 3, 90), (1, 3), 1, 40, 40),
    ((1, 1, 2, 2), (5, 4), 1, 2, 1),
    ((1, 2, 290, 20), (290, 3), 1, 1, 1),
    ((1, 8, 1, 5002), (1, 5001), 1, 0, 1),
    ((1, 1, 1, 1), (1, 1), 1, 0, 1),
    ((0, 3, 4, 4), (2, 2), 1, 0, 1),
)
"""Images, kernels, strides, paddings and dilations: tiles of 32 pixels, several tiles of channels, several groups of
channels in a tile, without windows, gaps between pixels, gaps between taps, a kernel larger than the image, one taller
than its tiles, one of which a tile has few rows of odd length, the smallest, none."""


def _configurations(element: DType) -> Iterator[tuple[Image, tuple[int, int], int, int, int]]:
    yield from SHAPES
    random = np.random.default_rng(element.size)
    for _ in range(8):
        kernel = (int(random.integers(1, 5)), int(random.integers(1, 5)))
        stride, padding, dilation = (int(n) for n in random.integers((1, 0, 1), (4, 4, 4)))
        least = [max(dilation * (k - 1) + 1 - 2 * padding, 1) for k in kernel]
        sizes = (least[0] + int(random.integers(0, 8)), least[1] + int(random.integers(0, 40)))
        yield (int(random.integers(1, 4)), int(random.integers(1, 6)), *sizes), kernel, stride, padding, dilation


def _unfolded(x: Array, kernel: tuple[int, int], stride: int, padding: tuple[int, int], dilation: int) -> Array:
    padded = np.pad(x, ((0, 0), (0, 0), (padding[0],) * 2, (padding[1],) * 2))
    span = tuple(dilation * (k - 1) + 1 for k in kernel)
    windows = np.lib.stride_tricks.sliding_window_view(padded, span, axis=(2, 3))
    taken = windows[:, :, ::stride, ::stride, ::dilation, ::dilation].transpose(0, 2, 3, 1, 4, 5)
    return np.ascontiguousarray(taken).reshape(*taken.shape[:3], x.shape[1] * kernel[0] * kernel[1])


@pytest.mark.parametrize("element", OF_EACH_WIDTH, ids=str)
def test_im2col(kernels: Kernels, element: DType) -> None:
    for seed, (shape, kernel, stride, padding, dilation) in some(enumerate(_configurations(element))):
        view = image_views(shape)[seed % 4]
        x, array = view.make(kernels.device, element, seed)
        expected = _unfolded(array, kernel, stride, (padding, padding), dilation)
        y = im2col(kernels, x, kernel, stride=stride, padding=padding, dilation=dilation)
        assert_same_bits(y, expected)


@pytest.mark.parametrize("element", OF_EACH_WIDTH, ids=str)
def test_im2col1d(kernels: Kernels, element: DType) -> None:
    random = np.random.default_rng(element.size)
    for seed in range(8):
        kernel, stride, dilation = (int(n) for n in random.integers(1, 6, 3))
        padding = int(random.integers(0, 6))
        size = max(dilation * (kernel - 1) + 1 - 2 * padding, 1) + int(random.integers(0, 70))
        view = image_views((2, 1 + seed % 4, size))[seed % 4]
        x, array = view.make(kernels.device, element, seed)
        expected = _unfolded(array[:, :, None], (1, kernel), stride, (0, padding), dilation)[:, 0]
        y = im2col1d(kernels, x, kernel, stride=stride, padding=padding, dilation=dilation)
        assert_same_bits(y, expected)


@pytest.mark.parametrize(("element", "beyond"), [(dtype("i64"), 2952), (dtype("f32"), 3)], ids=str)
def test_kernels_longer_than_lds_are_unfolded_in_parts(kernels: Kernels, element: DType, beyond: int) -> None:
    numbers = kernels.numbers("im2col")
    kernel = numbers["tile_bytes"] // element.size + beyond
    x = Tensor.from_numpy(kernels.device, values := random_values(element, (1, 2, kernel - 3)), element)
    expected = _unfolded(values[:, :, None], (1, kernel), 1, (0, 3), 1)[:, 0]
    y = im2col1d(kernels, x, kernel, padding=3)
    assert_same_bits(y, expected)
    window = {"kernel": (1, kernel), "padding": (0, 3), "stride": 1, "dilation": 1}
    for _, launch in kernels.plan("im2col", x=x, y=y, **window):
        assert launch.grid[2] > 1  # parts
        assert launch.lds <= numbers["tile_bytes"]


@pytest.mark.parametrize(("limit", "launches"), [(1, 15), (2, 10), (4, 5), (9, 2)])
def test_launches_are_cut_into_images_and_tiles(
    kernels: Kernels, limit: int, launches: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    element = dtype("f32")
    values = random_values(element, (5, 2, 4, 6))
    x = Tensor.from_numpy(kernels.device, values, element)
    monkeypatch.setitem(kernels.limits, "blocks", limit)
    y = im2col(kernels, x, (2, 2))
    assert_same_bits(y, _unfolded(values, (2, 2), 1, (0, 0), 1))
    window = {"kernel": (2, 2), "padding": (0, 0), "stride": 1, "dilation": 1}
    assert len(kernels.plan("im2col", x=x, y=y, **window)) == launches


def test_launches_are_cut_into_rows_of_kernels(kernels: Kernels, monkeypatch: pytest.MonkeyPatch) -> None:
    element = dtype("f32")
    values = random_values(element, (2, 60, 5, 50))
    x = Tensor.from_numpy(kernels.device, values, element)
    monkeypatch.setitem(kernels.limits, "blocks", 7)
    monkeypatch.setitem(kernels.limits, "blocks_y", 1)
    y = im2col(kernels, x, (5, 5), padding=2)
    assert_same_bits(y, _unfolded(values, (5, 5), 1, (2, 2), 1))
    window = {"kernel": (5, 5), "padding": (2, 2), "stride": 1, "dilation": 1}
    planned = [launch for _, launch in kernels.plan("im2col", x=x, y=y, **window)]
    assert max(launch.grid[0] for launch in planned) > 1
    assert {launch.grid[1] for launch in planned} == {1}
    assert len(planned) > 2 * 2  # each row of tiles by itself


def _folded(x: Array, stride: int, element: DType) -> Array:
    batch, length, channels, kernel = x.shape
    values = wide(x, element)
    total = np.zeros((batch, channels, (length - 1) * stride + kernel), values.dtype)
    with np.errstate(all="ignore"):
        for pixel in range(length):
            total[..., pixel * stride : pixel * stride + kernel] += values[:, pixel]
        return rounded_to(total, element)


@pytest.mark.parametrize("name", ["bf16", "f16", "f32", "f64"])
def test_col2im1d(kernels: Kernels, name: str) -> None:
    element = dtype(name)
    random = np.random.default_rng(element.size)
    for seed in range(10):
        batch, channels, kernel, stride = (int(n) for n in random.integers(1, 6, 4))
        shape = (batch, int(random.integers(1, 90)), channels, kernel)
        values = random_values(element, shape, seed, special=seed % 2 == 0)
        y = col2im1d(kernels, Tensor.from_numpy(kernels.device, values, element), stride=stride)
        assert_same_bits(y, _folded(values, stride, element))


def test_a_kernel_larger_than_the_padded_image_is_refused(kernels: Kernels) -> None:
    x = Tensor.empty(kernels.device, (1, 1, 2, 2), dtype("f32"))
    with pytest.raises(ValueError, match="does not fit"):
        im2col(kernels, x, (5, 1), padding=1)
