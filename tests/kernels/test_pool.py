"""Pooling kernels against numpy."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import numpy as np
import pytest
from some import some

from codegen.device.hip import Buffer
from codegen.device.ops.pool import avg_pool2d, max_pool2d
from codegen.device.planner import plan
from codegen.device.tensor import Tensor
from codegen.kernels.dtypes import DTYPES, dtype
from codegen.kernels.layout import View
from kernels.cases import random_values
from kernels.images import image_views, rounded_to, wide, with_few_blocks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codegen.device.kernels import Kernels
    from codegen.kernels.dtypes import DType

Array = np.ndarray[Any, Any]
Pair = tuple[int, int]

SHAPES: tuple[tuple[tuple[int, int, int, int], Pair, Pair], ...] = (
    ((2, 3, 8, 32), (2, 2), (2, 2)),
    ((1, 2, 7, 16), (3, 2), (1, 2)),
    ((2, 1, 9, 48), (1, 2), (3, 2)),
    ((1, 1, 1, 1), (1, 1), (1, 1)),
    ((1, 2, 5, 7), (5, 7), (1, 1)),
    ((1, 1, 40, 41), (3, 3), (2, 2)),
    ((0, 3, 4, 4), (2, 2), (2, 2)),
)
"""Images, windows and strides: such as `pool_pairs` takes, the smallest, whole images, many blocks, none."""


def _configurations(element: DType) -> Iterator[tuple[tuple[int, int, int, int], Pair, Pair]]:
    yield from SHAPES
    random = np.random.default_rng(sum(map(ord, element.name)))
    for _ in range(6):
        kernel = (int(random.integers(1, 5)), int(random.integers(1, 5)))
        sizes = (kernel[0] + int(random.integers(0, 9)), kernel[1] + int(random.integers(0, 40)))
        stride = (int(random.integers(1, 4)), int(random.integers(1, 4)))
        yield (int(random.integers(1, 4)), int(random.integers(1, 6)), *sizes), kernel, stride


def _windows(x: Array, kernel: Pair, stride: Pair) -> Array:
    """(b, c, rows, columns, *kernel): each window's elements."""
    return np.lib.stride_tricks.sliding_window_view(x, kernel, axis=(2, 3))[:, :, :: stride[0], :: stride[1]]


def _means(x: Array, kernel: Pair, stride: Pair, element: DType) -> Array:
    windows = _windows(wide(x, element), kernel, stride)
    total = np.zeros(windows.shape[:4], windows.dtype)
    with np.errstate(all="ignore"):
        for m, n in np.ndindex(kernel):
            total = total + windows[..., m, n]
        inverse = wide(rounded_to(np.array(1 / (kernel[0] * kernel[1])), element), element)
        return rounded_to(total * inverse, element)


def _largest(x: Array, kernel: Pair, stride: Pair) -> Array:
    windows = _windows(x, kernel, stride)
    kept = windows[..., 0, 0]
    with np.errstate(invalid="ignore"):
        for m, n in np.ndindex(kernel):
            kept = np.where(kept < windows[..., m, n], windows[..., m, n], kept)
    return kept


def _assert_same(result: Tensor, expected: Array, what: str) -> None:
    got = result.numpy().astype(np.longdouble)
    wanted = expected.astype(np.longdouble)
    np.testing.assert_array_equal(got, wanted, err_msg=what)


@pytest.mark.parametrize("element", DTYPES, ids=str)
def test_avg_pool2d(kernels: Kernels, element: DType) -> None:
    for seed, (shape, kernel, stride) in some(enumerate(_configurations(element))):
        view = image_views(shape)[seed % 4 if seed >= len(SHAPES) else 0]
        x, array = view.make(kernels.device, element, seed, special=seed % 2 == 0)
        expected = _means(array, kernel, stride, element)
        _assert_same(avg_pool2d(kernels, x, kernel, stride), expected, f"{shape} {view.name} {kernel} {stride}")


@pytest.mark.parametrize("element", DTYPES, ids=str)
def test_max_pool2d(kernels: Kernels, element: DType) -> None:
    for seed, (shape, kernel, stride) in some(enumerate(_configurations(element))):
        view = image_views(shape)[seed % 4 if seed >= len(SHAPES) else 0]
        x, array = view.make(kernels.device, element, seed)
        expected = _largest(array, kernel, stride)
        _assert_same(max_pool2d(kernels, x, kernel, stride), expected, f"{shape} {view.name} {kernel} {stride}")


@pytest.mark.parametrize("element", [t for t in DTYPES if t.size < 8], ids=str)
def test_windows_in_pairs_begin_at_16_bytes(kernels: Kernels, element: DType) -> None:
    """Views whose rows begin elsewhere give the same."""
    values = random_values(element, (2, 3, 6, 37), special=False)
    whole = Tensor.from_numpy(kernels.device, values, element)
    for first in (0, 1):
        x = whole.narrow(3, first, 32)
        cut = values[..., first : first + 32]
        _assert_same(max_pool2d(kernels, x, (2, 2), (2, 2)), _largest(cut, (2, 2), (2, 2)), f"from {first}")


def test_max_pool2d_keeps_nan_only_in_the_first_place(kernels: Kernels) -> None:
    values = np.array([[[[np.nan, 1.0, 2.0, np.nan], [3.0, 4.0, 5.0, -np.inf]]]], dtype=np.float32)
    x = Tensor.from_numpy(kernels.device, values)
    _assert_same(max_pool2d(kernels, x, (2, 2), (2, 2)), np.array([[[[np.nan, 5.0]]]]), "k 2")
    _assert_same(max_pool2d(kernels, x, (2, 2), (1, 1)), np.array([[[[np.nan, 5.0, 5.0]]]]), "k 2, stride 1")


def test_a_window_larger_than_the_image_is_refused(kernels: Kernels) -> None:
    x = Tensor.empty(kernels.device, (1, 1, 2, 2), dtype("f32"))
    with pytest.raises(ValueError, match="does not fit"):
        avg_pool2d(kernels, x, (3, 1), (1, 1))


@pytest.mark.parametrize("shape", [(3, 2, 100, 70), (1, 1, 70_000, 70_000), (70_000, 40_000, 2, 3)])
def test_every_pixel_has_one_thread_above_4gi_elements(shape: tuple[int, int, int, int]) -> None:
    """Launches of a kernel that keeps the size: what they read and write is the same, and follows on."""
    x = Tensor(Mock(), Buffer(1 << 40, 0), dtype("u8"), View.contiguous(shape))
    expected = 0
    card = {"architecture": "gfx1100", "wave_size": 32, "multiprocessors": 48}
    for _, launch in plan("pool", card, op="max_pool2d", window=(1, 1), stride=(1, 1), x=x, y=x):
        planes, height, width = struct.unpack_from("<3I", launch.arguments[2], 12)
        first_row, rows = struct.unpack_from("<2I", launch.arguments[3], 24)
        assert launch.arguments[0] == launch.arguments[1]
        written = int.from_bytes(launch.arguments[0], "little") - (1 << 40) + first_row * width
        assert written == expected
        assert (height, width) == shape[2:]
        assert max(planes, rows * width, launch.grid[0] * launch.block[0]) < 1 << 31
        assert launch.grid[0] * launch.block[0] >= rows * width
        assert planes == 1 or rows == height
        expected += planes * rows * width
    assert expected == x.view.count


@pytest.mark.parametrize("limit", [1, 5, 12])
def test_launches_are_cut_into_images_and_rows(kernels: Kernels, limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for tensors that one launch cannot cover."""
    values = random_values(dtype("f32"), (5, 3, 9, 11), special=False)
    x = Tensor.from_numpy(kernels.device, values)
    monkeypatch.setitem(kernels.limits, "elements", limit)
    y = max_pool2d(kernels, x, (2, 2), (2, 2))
    _assert_same(y, _largest(values, (2, 2), (2, 2)), f"at most {limit} planes and places")
    planned = kernels.plan("pool", op="avg_pool2d", x=x, window=(2, 2), stride=(2, 2), y=y)
    assert len(planned) == {1: 5 * 4, 5: 5 * 4, 12: 2 * 2}[limit]
    kernels.launch("pool", with_few_blocks(launch for _, launch in planned))
    _assert_same(y, _means(values, (2, 2), (2, 2), dtype("f32")), f"at most {limit} planes and places")
