"""argsort against numpy's stable sort."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from codegen.device.ops.argsort import argsort
from codegen.device.tensor import Tensor, numpy_type
from codegen.kernels.dtypes import DTYPES, Kind, dtype
from kernels.cases import random_values
from kernels.compare import assert_ulps

if TYPE_CHECKING:
    from codegen.device.hip import Buffer
    from codegen.device.kernels import Kernels
    from codegen.kernels.dtypes import DType

Array = np.ndarray[Any, Any]

BY_WIDTH = ("f8e4m3", "bf16", "i32", "f64")
"""An element type of each width."""


def tile_of(kernels: Kernels) -> int:
    """Elements that a block sorts in LDS."""
    numbers = kernels.numbers("argsort")
    return numbers["block"] * numbers["per_thread"]


def sorted_places(x: Array, *, descending: bool) -> Array:
    """Stable places of each row: by the rank of each value among all, NaN the highest, zeros equal."""
    values = x.astype(np.float64) if x.dtype.kind in "fV" else x
    ranks = np.unique(values, return_inverse=True, equal_nan=True)[1].reshape(x.shape).astype(np.int64)
    return np.argsort(-ranks if descending else ranks, axis=-1, kind="stable").astype(np.uint32)


def many_ties(element: DType, shape: tuple[int, ...], seed: int) -> Array:
    """Numbers of which many are equal, with NaN, infinities and zeros of both signs for floats."""
    random = np.random.default_rng(seed)
    values = random.integers(0, 40, shape)
    if element.kind is not Kind.FLOAT:
        return values.astype(numpy_type(element))
    numbers = (values - 20).astype(np.float32) / 4
    numbers = np.where(values == 20, np.where(random.random(shape) < 0.5, 0.0, -0.0), numbers)
    numbers = np.where(values == 1, np.nan, numbers)
    if element.name != "f8e4m3":
        numbers = np.where(values == 2, np.inf, np.where(values == 3, -np.inf, numbers))
    return numbers.astype(numpy_type(element))


def check(kernels: Kernels, x: Array, *, descending: bool) -> None:
    """argsort of a device tensor against the reference."""
    got = argsort(kernels, Tensor.from_numpy(kernels.device, x), descending=descending)
    assert_ulps(got, sorted_places(x, descending=descending), 0)


@pytest.mark.parametrize("direction", ["ascending", "descending"])
@pytest.mark.parametrize("element", DTYPES, ids=str)
def test_every_type(kernels: Kernels, element: DType, direction: str) -> None:
    check(kernels, random_values(element, (5, 131), 1), descending=direction == "descending")
    check(kernels, many_ties(element, (2, 300), 2), descending=direction == "descending")


@pytest.mark.parametrize("element", BY_WIDTH)
def test_rows_that_fit_a_tile(kernels: Kernels, element: str) -> None:
    shapes = (
        (1, 1),
        (3, 2),
        (700, 7),
        (1030, 8),
        (5, 9),
        (70, 63),
        (65, 64),
        (33, 65),
        (3, 1000),
        (2, 2048),
        (2, 2049),
    )
    for seed, shape in enumerate(shapes):
        check(kernels, many_ties(dtype(element), shape, seed), descending=bool(seed % 2))


@pytest.mark.parametrize("element", BY_WIDTH)
def test_rows_around_a_tile(kernels: Kernels, element: str) -> None:
    tile = tile_of(kernels)
    for seed, shape in enumerate(((1, tile - 1), (2, tile), (2, tile + 1), (1, 2 * tile), (3, 2 * tile + 1))):
        check(kernels, random_values(dtype(element), shape, seed), descending=bool(seed % 2))


@pytest.mark.parametrize("element", BY_WIDTH)
def test_long_rows(kernels: Kernels, element: str) -> None:
    tile = tile_of(kernels)
    check(kernels, many_ties(dtype(element), (1, 5 * tile + 77), 3), descending=False)
    check(kernels, random_values(dtype(element), (2, 3 * tile), 4), descending=True)


def test_merging_sorted_and_reversed_runs(kernels: Kernels) -> None:
    n = 2 * tile_of(kernels) + 5
    for x in (np.arange(n), np.arange(n)[::-1].copy(), np.zeros(n, np.int64)):
        check(kernels, x.astype(np.int32), descending=False)


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 4)])
def test_nothing_to_sort(kernels: Kernels, shape: tuple[int, ...]) -> None:
    assert argsort(kernels, Tensor.from_numpy(kernels.device, np.zeros(shape, np.float32))).numpy().shape == shape


def test_views_are_refused(kernels: Kernels) -> None:
    x = Tensor.from_numpy(kernels.device, np.zeros((4, 6), np.float32))
    with pytest.raises(ValueError, match="contiguous"):
        argsort(kernels, x.transpose(1, 0))


@pytest.mark.usefixtures("one_block")
def test_a_grid_smaller_than_the_rows(kernels: Kernels) -> None:
    tile = tile_of(kernels)
    check(kernels, random_values(dtype("i32"), (3, tile - 3), 1), descending=False)
    check(kernels, random_values(dtype("i32"), (2, tile + 3), 2), descending=True)


def test_workspaces_are_given_back(kernels: Kernels, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of rows that are merged twice there are three, and if the third cannot be had, the error says so."""
    x = Tensor.from_numpy(kernels.device, np.zeros((1, 2 * tile_of(kernels) + 1), np.int32))
    allocate, free = kernels.device.allocate, kernels.device.free
    made: list[Buffer] = []
    freed: list[Buffer] = []

    def counted(size: int) -> Buffer:
        if len(made) == most:
            raise MemoryError(f"{most} are enough")
        made.append(allocate(size))
        return made[-1]

    def given_back(buffer: Buffer) -> None:
        freed.append(buffer)
        free(buffer)

    monkeypatch.setattr(kernels.device, "allocate", counted)
    monkeypatch.setattr(kernels.device, "free", given_back)
    for most in (4, 3):
        made.clear()
        freed.clear()
        if most == 4:
            y = argsort(kernels, x)
            assert made[0] == y.buffer
            assert [buffer.size // x.view.count for buffer in made] == [4, 4, 4, 4]
        else:
            with pytest.raises(MemoryError, match="3 are enough"):
                argsort(kernels, x)
        assert freed == made[1:]
