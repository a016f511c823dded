"""scatter_add against sums that numpy takes one element after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from codegen.device.ops.ids import indices
from codegen.device.ops.scatter_add import scatter_add
from codegen.device.tensor import Tensor
from codegen.kernels.dtypes import DTYPES, GROUPS, dtype
from kernels.cases import random_values
from kernels.compare import assert_ulps
from kernels.indexed import in_words, no_failure, random_ids, small_integers, summed
from kernels.launched import launched

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


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("element", DTYPES, ids=str)
def test_scatter_add(kernels: Kernels, element: DType, form: str) -> None:
    values = small_integers if form == "atomic" else random_values
    for seed, (shape, dim, count) in enumerate(SHAPES):
        y = values(element, shape, seed)
        x = values(element, (*shape[:dim], count, *shape[dim + 1 :]), seed + 100)
        ids_type = GROUPS["integer"][seed % 5]
        ids = random_ids(ids_type, shape[dim], x.shape, seed)
        target = in_words(kernels, y)
        places, source = (Tensor.from_numpy(kernels.device, a) for a in (ids, x))
        scatter_add(kernels, target, places, source, dim, form=form)
        assert_ulps(target, summed(y, ids, x, dim, rounds_each=form == "columns"), 0)


@pytest.mark.parametrize("element", ["f32", "bf16", "u8"])
def test_many_columns_whose_elements_are_neighbours(kernels: Kernels, element: str) -> None:
    """A block has several of them: four here, of which the last block's are not all there."""
    kind = dtype(element)
    y, x = random_values(kind, (4099, 5), 1), random_values(kind, (4099, 40), 2)
    ids = random_ids("u32", 5, x.shape, 3)
    target = in_words(kernels, y)
    places, source = (Tensor.from_numpy(kernels.device, a) for a in (ids, x))
    with launched(kernels) as symbols:
        scatter_add(kernels, target, places, source, 1)
    assert symbols == {f"scatter_add_{element}_lds"}
    assert_ulps(target, summed(y, ids, x, 1), 0)


@pytest.mark.parametrize("element", ["f32", "f16"])
def test_all_additions_to_one_element_keep_their_order(kernels: Kernels, element: str) -> None:
    kind = dtype(element)
    y = random_values(kind, (3, 1), 1, special=False)
    x = random_values(kind, (3, 600), 2, special=False)
    ids = np.zeros(x.shape, np.uint8)
    target = in_words(kernels, y)
    places, source = (Tensor.from_numpy(kernels.device, a) for a in (ids, x))
    scatter_add(kernels, target, places, source, 1, form="lds")
    assert_ulps(target, summed(y, ids, x, 1), 0)


@pytest.mark.parametrize(
    ("shape", "dim", "count", "ending"),
    [((5, 90), 1, 100, "_lds"), ((4, 3000), 1, 50, ""), ((3, 20000), 1, 40, ""), ((40, 64), 0, 9, "_columns")],
    ids=["lds", "too-few-elements-for-lds", "too-many-targets-for-lds", "columns"],
)
def test_the_form_chosen_by_size(kernels: Kernels, shape: tuple[int, ...], dim: int, count: int, ending: str) -> None:
    element = dtype("f32")
    y, x = small_integers(element, shape, 1), small_integers(element, (*shape[:dim], count, *shape[dim + 1 :]), 2)
    ids = random_ids("i64", shape[dim], x.shape, 4)
    target, places, source = (Tensor.from_numpy(kernels.device, a) for a in (y, ids, x))
    with launched(kernels) as symbols:
        scatter_add(kernels, target, places, source, dim)
    assert symbols == {f"scatter_add_f32{ending}"}
    assert_ulps(target, summed(y, ids, x, dim), 0)


@pytest.mark.parametrize("columns", [100, 64, 20])
def test_strips_of_columns(kernels: Kernels, columns: int) -> None:
    """So many targets that the cache has no more than 32 columns of them."""
    element, targets = dtype("f32"), 1 << 15
    assert kernels.numbers("scatter_add")["cached"] == targets * 32 * element.size
    y, x = small_integers(element, (2, targets, columns), 1), small_integers(element, (2, 7, columns), 2)
    ids = random_ids("u32", targets, x.shape, 3)
    target, places, source = (Tensor.from_numpy(kernels.device, a) for a in (y, ids, x))
    operands = {"y": target, "dim": 1, "ids": indices(places, None), "x": source, "form": "atomic"}
    kernels.run("scatter_add", **operands)
    assert_ulps(target, summed(y, ids, x, 1), 0)
    assert len(kernels.plan("scatter_add", **operands)) == 1 + (columns > 32 and columns % 32 > 0)


@pytest.mark.parametrize("form", FORMS)
def test_index_out_of_range_adds_nothing_and_is_reported(kernels: Kernels, form: str) -> None:
    element = dtype("f32")
    y, x = small_integers(element, (6, 40), 1), small_integers(element, (50, 40), 2)
    ids = random_ids("i32", 6, x.shape, 3)
    wrong = np.zeros(x.shape, bool)
    wrong[[7, 8, 30], [3, 3, 39]] = True
    failed = no_failure(kernels)
    for value in (6, -1):
        target, places, source = (Tensor.from_numpy(kernels.device, a) for a in (y, np.where(wrong, value, ids), x))
        scatter_add(kernels, target, places, source, 0, failed, form=form)
        assert_ulps(target, summed(y, np.where(wrong, np.iinfo(ids.dtype).max, ids), x, 0), 0)
        assert failed.numpy() == [1]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.usefixtures("one_block")
def test_scatter_add_on_a_grid_smaller_than_the_space(kernels: Kernels, form: str) -> None:
    element = dtype("i32")
    y, x = random_values(element, (5, 13, 67), 1), random_values(element, (5, 40, 67), 2)
    ids = random_ids("i64", 13, x.shape, 3)
    target, source, places = (Tensor.from_numpy(kernels.device, a) for a in (y, x, ids))
    scatter_add(kernels, target, places, source, 1, form=form)
    assert_ulps(target, summed(y, ids, x, 1), 0)


@pytest.mark.parametrize("form", ["atomic", "columns"])
def test_launches_go_on_where_those_before_ended(kernels: Kernels, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With so few elements to a launch that columns are cut along and across."""
    monkeypatch.setitem(kernels.limits, "elements", 64)
    element = dtype("i32")
    y, x = random_values(element, (3, 13, 7), 1), random_values(element, (3, 130, 7), 2)
    ids = random_ids("i64", 13, x.shape, 3)
    target, places, source = (Tensor.from_numpy(kernels.device, a) for a in (y, ids, x))
    scatter_add(kernels, target, places, source, 1, form=form)
    assert_ulps(target, summed(y, ids, x, 1), 0)


def test_targets_that_do_not_fit_into_lds_are_refused(kernels: Kernels) -> None:
    y, x = (Tensor.from_numpy(kernels.device, np.zeros((size, 40), np.float32)) for size in (600, 50))
    ids = Tensor.from_numpy(kernels.device, np.zeros((50, 40), np.uint32))
    with pytest.raises(ValueError, match="600 targets do not fit into LDS"):
        scatter_add(kernels, y, ids, x, 0, form="lds")
    with pytest.raises(ValueError, match="no form `wide`"):
        scatter_add(kernels, y, ids, x, 0, form="wide")
