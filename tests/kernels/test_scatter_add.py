"""scatter_add against sums that numpy takes one element after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from codegen.device.ops.ids import Indices, Space, column_launches
from codegen.device.ops.scatter_add import (
    FAMILY,
    MIN_STRIP,
    atomic_launches,
    columns_of_strip,
    lds_launch,
    scatter_add,
    width_in_lds,
)
from codegen.device.tensor import Tensor
from codegen.kernels.dtypes import DTYPES, GROUPS, dtype
from kernels.cases import random_values
from kernels.compare import assert_ulps
from kernels.indexed import in_words, no_failure, random_ids, small_integers, summed

if TYPE_CHECKING:
    from codegen.device.kernels import Kernels
    from codegen.kernels.dtypes import DType

SHAPES = (
    ((5,), 0, 9),
    ((5, 3), 0, 4),
    ((1, 1), 0, 1),
    ((4, 67), 1, 300),
    ((7, 33), 0, 40),
    ((3, 70, 5), 1, 61),
    ((3, 5), 1, 0),
    ((0, 5), 1, 2),
)
"""Shape of y, dimension, number of elements of x along it."""

FORMS = ("atomic", "columns", "lds")


def scatter_add_as(kernels: Kernels, form: str, y: Tensor, x: Tensor, ids: Indices, space: Space) -> None:
    """scatter_add in one of its forms."""
    if space.count == 0:
        return
    numbers, symbol = kernels.numbers(FAMILY), f"scatter_add_{y.dtype}"
    block = numbers["block"]
    if form == "lds":
        width = width_in_lds(numbers, Space(space.left, 1 << 20, space.right), ids.size, y.dtype)
        assert width is not None
        kernels.launch(FAMILY, [lds_launch(f"{symbol}_lds", block, y, x, ids, space, width)])
    elif form == "columns":
        kernels.launch(FAMILY, column_launches(f"{symbol}_columns", block, y, x, ids, space))
    else:
        kernels.launch(FAMILY, atomic_launches(symbol, numbers, y, x, ids, space))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("element", DTYPES, ids=str)
def test_scatter_add(kernels: Kernels, element: DType, form: str) -> None:
    values = small_integers if form == "atomic" else random_values
    for seed, (shape, dim, count) in enumerate(SHAPES):
        y = values(element, shape, seed)
        x = values(element, (*shape[:dim], count, *shape[dim + 1 :]), seed + 100)
        ids_type = GROUPS["integer"][seed % 5]
        ids = random_ids(ids_type, shape[dim], x.shape, seed)
        space, target = Space.of(x.shape, dim), in_words(kernels, y)
        indices = Indices(Tensor.from_numpy(kernels.device, ids), space.contiguous, shape[dim], None)
        scatter_add_as(kernels, form, target, Tensor.from_numpy(kernels.device, x), indices, space)
        assert_ulps(target, summed(y, ids, x, dim, rounds_each=form == "columns"), 0)


@pytest.mark.parametrize("element", ["f32", "f16"])
def test_all_additions_to_one_element_keep_their_order(kernels: Kernels, element: str) -> None:
    kind = dtype(element)
    y = random_values(kind, (3, 1), 1, special=False)
    x = random_values(kind, (3, 600), 2, special=False)
    ids = np.zeros(x.shape, np.uint8)
    space, target = Space.of(x.shape, 1), in_words(kernels, y)
    indices = Indices(Tensor.from_numpy(kernels.device, ids), space.contiguous, 1, None)
    scatter_add_as(kernels, "lds", target, Tensor.from_numpy(kernels.device, x), indices, space)
    assert_ulps(target, summed(y, ids, x, 1), 0)


@pytest.mark.parametrize(
    ("shape", "dim", "count"),
    [((5, 90), 1, 100), ((4, 3000), 1, 50), ((3, 20000), 1, 40), ((40, 64), 0, 9)],
    ids=["lds", "too-few-elements-for-lds", "too-many-targets-for-lds", "columns"],
)
def test_the_form_chosen_by_size(kernels: Kernels, shape: tuple[int, ...], dim: int, count: int) -> None:
    element = dtype("f32")
    y, x = small_integers(element, shape, 1), small_integers(element, (*shape[:dim], count, *shape[dim + 1 :]), 2)
    ids = random_ids("i64", shape[dim], x.shape, 4)
    target, places, source = (Tensor.from_numpy(kernels.device, a) for a in (y, ids, x))
    scatter_add(kernels, target, places, source, dim)
    assert_ulps(target, summed(y, ids, x, dim), 0)


@pytest.mark.parametrize("columns", [100, 64, 20])
def test_strips_of_columns(kernels: Kernels, columns: int) -> None:
    element = dtype("f32")
    y, x = small_integers(element, (3, 40, columns), 1), small_integers(element, (3, 7, columns), 2)
    ids = random_ids("u32", 40, x.shape, 3)
    space, target = Space.of(x.shape, 1), in_words(kernels, y)
    indices = Indices(Tensor.from_numpy(kernels.device, ids), space.contiguous, 40, None)
    numbers = kernels.numbers(FAMILY) | {"cached": 40 * 32 * element.size}
    launches = list(
        atomic_launches("scatter_add_f32", numbers, target, Tensor.from_numpy(kernels.device, x), indices, space)
    )
    kernels.launch(FAMILY, launches)
    assert_ulps(target, summed(y, ids, x, 1), 0)
    assert len(launches) == 1 + (columns > 32 and columns % 32 > 0)


def test_a_strip_is_as_wide_as_the_cache_allows() -> None:
    numbers, element = {"cached": 1 << 20}, dtype("f32")
    for right, size, width in ((100, 2621, 100), (100, 2622, 64), (4096, 1000, 256), (4096, 1 << 30, MIN_STRIP)):
        assert columns_of_strip(numbers, Space(1, 9, right), size, element) == width


@pytest.mark.parametrize("form", FORMS)
def test_index_out_of_range_adds_nothing_and_is_reported(kernels: Kernels, form: str) -> None:
    element = dtype("f32")
    y, x = small_integers(element, (6, 40), 1), small_integers(element, (50, 40), 2)
    ids = random_ids("i32", 6, x.shape, 3)
    wrong = np.zeros(x.shape, bool)
    wrong[[7, 8, 30], [3, 3, 39]] = True
    space, failed = Space.of(x.shape, 0), no_failure(kernels)
    for value in (6, -1):
        target, places, source = (Tensor.from_numpy(kernels.device, a) for a in (y, np.where(wrong, value, ids), x))
        scatter_add_as(kernels, form, target, source, Indices(places, space.contiguous, 6, failed), space)
        assert_ulps(target, summed(y, np.where(wrong, np.iinfo(ids.dtype).max, ids), x, 0), 0)
        assert failed.numpy() == [1]


def test_columns_wait_for_lds_only_if_it_pays() -> None:
    numbers = {"lds": 32768}
    for (left, n, right, size, element), width in {
        (8, 4096, 1, 4096, "f32"): 1,
        (8, 4096, 1, 4097, "f32"): None,
        (8, 4096, 64, 64, "f32"): 32,
        (8, 4096, 64, 200, "f64"): 8,
        (8, 4096, 64, 2000, "f32"): None,
        (8, 40, 1, 4000, "u8"): None,
        (8, 1 << 24, 1, 10, "u8"): None,
    }.items():
        assert width_in_lds(numbers, Space(left, n, right), size, dtype(element)) == width


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.usefixtures("one_block")
def test_scatter_add_on_a_grid_smaller_than_the_space(kernels: Kernels, form: str) -> None:
    element = dtype("i32")
    y, x = random_values(element, (5, 13, 67), 1), random_values(element, (5, 40, 67), 2)
    ids = random_ids("i64", 13, x.shape, 3)
    target, source, places = (Tensor.from_numpy(kernels.device, a) for a in (y, x, ids))
    space = Space.of(x.shape, 1)
    scatter_add_as(kernels, form, target, source, Indices(places, space.contiguous, 13, None), space)
    assert_ulps(target, summed(y, ids, x, 1), 0)
