"""index_add against sums that numpy takes one row after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from codegen.device.ops.ids import indices
from codegen.device.ops.index_add import index_add
from codegen.device.planner import PlanRefused
from codegen.device.tensor import Tensor
from codegen.kernels.dtypes import DTYPES, GROUPS, dtype
from kernels.cases import random_values
from kernels.compare import assert_ulps
from kernels.indexed import no_failure, random_ids, small_integers, spread, summed
from kernels.launched import launched

if TYPE_CHECKING:
    from codegen.device.kernels import Kernels
    from codegen.kernels.dtypes import DType

ROWS = (
    ((5, 32), 0, 9),
    ((7, 2051), 0, 6),
    ((3, 9, 64), 1, 40),
    ((300, 33), 0, 130),
    ((4, 1, 96), 1, 3),
    ((3, 40), 0, 0),
)
"""Shape of y with rows of some length, dimension, number of rows of x."""


@pytest.mark.parametrize("form", ["few", "searched", "sorted"])
@pytest.mark.parametrize("element", DTYPES, ids=str)
def test_index_add(kernels: Kernels, element: DType, form: str) -> None:
    for seed, (shape, dim, count) in enumerate(ROWS):
        y = random_values(element, shape, seed)
        x = random_values(element, (*shape[:dim], count, *shape[dim + 1 :]), seed + 100)
        ids = random_ids(GROUPS["integer"][seed % 5], shape[dim], (count,), seed)
        target, places, source = (Tensor.from_numpy(kernels.device, a) for a in (y, ids, x))
        index_add(kernels, target, places, source, dim, form=form)
        assert_ulps(target, summed(y, spread(ids, x.shape, dim), x, dim), 0)


@pytest.mark.parametrize("form", ["few", "searched", "sorted"])
def test_many_rows_of_one_index_keep_their_order(kernels: Kernels, form: str) -> None:
    y = random_values(dtype("f32"), (1, 40), 1, special=False)
    x = random_values(dtype("f32"), (67, 40), 2, special=False)
    target, places, source = (Tensor.from_numpy(kernels.device, a) for a in (y, np.zeros(67, np.uint8), x))
    index_add(kernels, target, places, source, 0, form=form)
    assert_ulps(target, summed(y, np.zeros(x.shape, np.uint8), x, 0), 0)


@pytest.mark.parametrize(
    ("shape", "dim", "count", "symbols"),
    [
        ((40, 64), 0, 1100, {"argsort_b32", "index_add_f32_sorted"}),
        ((40, 64), 0, 70, {"index_add_f32"}),
        ((5, 150), 1, 100, {"scatter_add_f32_lds"}),
        ((4, 3000), 1, 70, {"scatter_add_f32"}),
        ((4100, 30), 1, 5, {"scatter_add_f32_columns"}),
        ((4, 3000), 1, 64, {"index_add_f32_few"}),
        ((5, 90), 1, 100, {"index_add_f32_few"}),
    ],
    ids=["sorted", "searched", "as-scatter-add-in-lds", "as-atomic-scatter-add", "as-walked", "few", "few-repeated"],
)
def test_the_form_chosen_by_size(
    kernels: Kernels, shape: tuple[int, ...], dim: int, count: int, symbols: set[str]
) -> None:
    element = dtype("f32")
    y, x = small_integers(element, shape, 1), small_integers(element, (*shape[:dim], count, *shape[dim + 1 :]), 2)
    ids = random_ids("u32", shape[dim], (count,), 3)
    target, places, source = (Tensor.from_numpy(kernels.device, a) for a in (y, ids, x))
    with launched(kernels) as found:
        index_add(kernels, target, places, source, dim)
    assert found == symbols
    assert_ulps(target, summed(y, spread(ids, x.shape, dim), x, dim), 0)


@pytest.mark.parametrize("form", ["few", "searched", "sorted"])
def test_index_out_of_range_adds_nothing_and_is_reported(kernels: Kernels, form: str) -> None:
    y, x = small_integers(dtype("f32"), (6, 40), 1), small_integers(dtype("f32"), (50, 40), 2)
    ids = random_ids("i32", 6, (50,), 3)
    ids[[7, 8, 30]] = [6, 6, -1]
    failed = no_failure(kernels)
    target, places, source = (Tensor.from_numpy(kernels.device, a) for a in (y, ids, x))
    index_add(kernels, target, places, source, 0, failed, form=form)
    ids[[7, 8, 30]] = np.iinfo(np.int32).max
    assert_ulps(target, summed(y, spread(ids, x.shape, 0), x, 0), 0)
    assert failed.numpy() == [1]


SHORT_ROWS = (
    ((3000, 7), 1, 5),
    ((291,), 0, 22),
    ((40, 300, 3), 1, 64),
    ((9, 50, 31), 1, 256),
    ((1200, 2, 2), 1, 100),
)
"""As `ROWS`, of fewer than 32 elements: more of them than a block has threads, rows that many indices name, and few."""


@pytest.mark.parametrize("element", DTYPES, ids=str)
def test_few_indices_of_short_rows(kernels: Kernels, element: DType) -> None:
    for seed, (shape, dim, count) in enumerate(SHORT_ROWS):
        y = random_values(element, shape, seed)
        x = random_values(element, (*shape[:dim], count, *shape[dim + 1 :]), seed + 100)
        ids = random_ids(GROUPS["integer"][seed % 5], shape[dim], (count,), seed)
        target, places, source = (Tensor.from_numpy(kernels.device, a) for a in (y, ids, x))
        index_add(kernels, target, places, source, dim, form="few")
        assert_ulps(target, summed(y, spread(ids, x.shape, dim), x, dim), 0)


def test_more_indices_than_threads_are_not_few(kernels: Kernels) -> None:
    y, x, ids = (Tensor.from_numpy(kernels.device, np.zeros(n, t)) for n, t in ((9, "f4"), (257, "f4"), (257, "u4")))
    with pytest.raises(PlanRefused, match="257 indices of 257 elements are not few"):
        index_add(kernels, y, ids, x, 0, form="few")


@pytest.mark.usefixtures("one_block")
def test_few_indices_on_a_grid_smaller_than_the_space(kernels: Kernels) -> None:
    element = dtype("f32")
    y, x = random_values(element, (70, 20, 3), 1), random_values(element, (70, 60, 3), 2)
    ids = random_ids("u32", 20, (60,), 3)
    target, places, source = (Tensor.from_numpy(kernels.device, a) for a in (y, ids, x))
    index_add(kernels, target, places, source, 1, form="few")
    assert_ulps(target, summed(y, spread(ids, x.shape, 1), x, 1), 0)


@pytest.mark.parametrize("count", [90, 1100], ids=["searched", "sorted"])
@pytest.mark.usefixtures("one_block")
def test_index_add_on_a_grid_smaller_than_the_space(kernels: Kernels, count: int) -> None:
    element = dtype("f32")
    y, x = random_values(element, (2, 60, 33), 1), random_values(element, (2, count, 33), 2)
    ids = random_ids("i64", 60, (count,), 3)
    target, places, source = (Tensor.from_numpy(kernels.device, a) for a in (y, ids, x))
    index_add(kernels, target, places, source, 1)
    assert_ulps(target, summed(y, spread(ids, x.shape, 1), x, 1), 0)


def test_index_add_of_parts_of_rows_that_blocks_stride_over(kernels: Kernels, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(kernels.limits, "blocks", 3)
    monkeypatch.setitem(kernels.limits, "blocks_y", 2)
    element = dtype("f32")
    y, x = random_values(element, (5, 5000), 1), random_values(element, (7, 5000), 2)
    ids = random_ids("u8", 5, (7,), 3)
    target, places, source = (Tensor.from_numpy(kernels.device, a) for a in (y, ids, x))
    [(_, launch)] = kernels.plan("index_add", y=target, dim=0, ids=indices(places, None), x=source, form=None)
    assert launch.grid == (3, 2, 1)
    index_add(kernels, target, places, source, 0)
    assert_ulps(target, summed(y, spread(ids, x.shape, 0), x, 0), 0)
