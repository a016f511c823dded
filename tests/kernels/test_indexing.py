"""index_select, gather and scatter against numpy, element by element in the CPU backend's order."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from some import some

from codegen.device.hip import Buffer
from codegen.device.ops.ids import indices
from codegen.device.ops.indexing import gather, index_select, scatter
from codegen.device.tensor import Tensor
from codegen.kernels.dtypes import GROUPS, dtype
from codegen.kernels.layout import View
from kernels.cases import random_values
from kernels.compare import assert_ulps
from kernels.indexed import no_failure, random_ids
from kernels.launched import launched

if TYPE_CHECKING:
    from codegen.device.kernels import Kernels

Array = np.ndarray[Any, Any]

BY_WIDTH = ("u8", "bf16", "f32", "f64")
"""An element type of each width."""


def picked(x: Array, ids: Array, dim: int) -> Array:
    """gather: zero where there is no element."""
    valid = ids != np.iinfo(ids.dtype).max
    safe = np.where(valid, ids, 0).astype(np.int64)
    return np.where(valid, np.take_along_axis(x, safe, dim), np.zeros((), x.dtype))


def placed(y: Array, ids: Array, x: Array, dim: int) -> Array:
    """scatter: what the writes leave, one after the other along `dim`."""
    y = y.copy()
    for i in range(x.shape[dim]):
        for at in itertools.product(*(range(size) for axis, size in enumerate(x.shape) if axis != dim)):
            source = (*at[:dim], i, *at[dim:])
            if ids[source] != np.iinfo(ids.dtype).max:
                y[(*at[:dim], int(ids[source]), *at[dim:])] = x[source]
    return y


ROWS = (
    ((5,), 0, 9),
    ((5, 1), 0, 3),
    ((7, 64), 0, 11),
    ((7, 48), 0, 300),
    ((3, 7, 33), 1, 5),
    ((3, 7, 16), 1, 5),
    ((4, 67), 1, 21),
    ((9, 40), 1, 6),
    ((3, 5), 1, 0),
    ((0, 5), 1, 2),
    ((2, 300, 8), 1, 700),
)
"""Shape of x, dimension, number of indices."""


@pytest.mark.parametrize("ids_type", GROUPS["integer"])
@pytest.mark.parametrize("element", BY_WIDTH)
def test_index_select(kernels: Kernels, element: str, ids_type: str) -> None:
    for seed, (shape, dim, count) in enumerate(ROWS):
        x = random_values(dtype(element), shape, seed)
        ids = random_ids(ids_type, shape[dim], (count,), seed)
        failed = no_failure(kernels)
        got = index_select(
            kernels, Tensor.from_numpy(kernels.device, x), Tensor.from_numpy(kernels.device, ids), dim, failed
        )
        along = ids.reshape([-1 if axis == dim else 1 for axis in range(len(shape))])
        wanted_shape = (*shape[:dim], count, *shape[dim + 1 :])
        assert_ulps(got, picked(x, np.broadcast_to(along, wanted_shape), dim), 0)
        assert failed.numpy() == [0]


def test_index_select_takes_strided_ids_and_offset_rows(kernels: Kernels) -> None:
    x = random_values(dtype("f16"), (9, 31), 1)
    ids = random_ids("i64", 8, (6, 4), 2)
    rows = Tensor.from_numpy(kernels.device, x).narrow(0, 1, 8)
    column = Tensor.from_numpy(kernels.device, ids).narrow(1, 1, 1).transpose(1, 0)
    got = index_select(kernels, rows, one_dimension(column), 0)
    assert_ulps(got, picked(x[1:], np.broadcast_to(ids[:, 1:2], (6, 31)), 0), 0)


def one_dimension(tensor: Tensor) -> Tensor:
    """A tensor of shape (1, n) as (n,)."""
    view = type(tensor.view)(tensor.view.shape[1:], tensor.view.strides[1:], tensor.view.offset)
    return Tensor(tensor.device, tensor.buffer, tensor.dtype, view)


ELEMENTS = (
    ((5,), 0, 9),
    ((5, 3), 0, 4),
    ((7, 64), 0, 11),
    ((4, 67), 1, 21),
    ((13, 40), 1, 128),
    ((3, 7, 33), 1, 5),
    ((3, 5), 1, 0),
    ((2, 300, 3), 1, 700),
)
"""Shape of x, dimension, number of indices along it."""


@pytest.mark.parametrize("ids_type", GROUPS["integer"])
@pytest.mark.parametrize("element", BY_WIDTH)
def test_gather(kernels: Kernels, element: str, ids_type: str) -> None:
    for seed, (shape, dim, count) in enumerate(ELEMENTS):
        x = random_values(dtype(element), shape, seed)
        ids = random_ids(ids_type, shape[dim], (*shape[:dim], count, *shape[dim + 1 :]), seed)
        failed = no_failure(kernels)
        got = gather(kernels, Tensor.from_numpy(kernels.device, x), Tensor.from_numpy(kernels.device, ids), dim, failed)
        assert_ulps(got, picked(x, ids, dim), 0)
        assert failed.numpy() == [0]


@pytest.mark.parametrize("form", ["columns", "marked"])
@pytest.mark.parametrize("element", BY_WIDTH)
def test_scatter_keeps_the_last_write(kernels: Kernels, element: str, form: str) -> None:
    cases = itertools.product(ELEMENTS, ("u8", "i64"))
    for seed, ((shape, dim, count), ids_type) in some(enumerate(cases)):
        y = random_values(dtype(element), shape, seed)
        x = random_values(dtype(element), (*shape[:dim], count, *shape[dim + 1 :]), seed + 1)
        ids = random_ids(ids_type, shape[dim], x.shape, seed)
        target, places, source = (Tensor.from_numpy(kernels.device, a) for a in (y, ids, x))
        scatter(kernels, target, places, source, dim, form=form)
        assert_ulps(target, placed(y, ids, x, dim), 0)


def test_scatter_chooses_by_size(kernels: Kernels) -> None:
    for shape, dim, count, symbol in (
        ((3, 700), 1, 900, "scatter_b32_marked"),
        ((40, 90), 0, 8, "scatter_b32"),
        ((2, 40, 1 << 14), 1, 33, "scatter_b32"),
    ):
        y = random_values(dtype("f32"), shape, 1)
        x = random_values(dtype("f32"), (*shape[:dim], count, *shape[dim + 1 :]), 2)
        ids = random_ids("u32", shape[dim], x.shape, 3)
        target, *operands = (Tensor.from_numpy(kernels.device, a) for a in (y, ids, x))
        with launched(kernels) as symbols:
            scatter(kernels, target, operands[0], operands[1], dim)
        assert symbols == {symbol}
        assert_ulps(target, placed(y, ids, x, dim), 0)


@pytest.mark.parametrize(("ids_type", "wrong"), [("u8", 9), ("u32", 9), ("i16", -1), ("i32", 10), ("i64", -(2**63))])
def test_index_out_of_range_is_reported_and_accesses_nothing(kernels: Kernels, ids_type: str, wrong: int) -> None:
    x = random_values(dtype("f32"), (9, 5), 1)
    ids = random_ids(ids_type, 9, (4, 5), 2, none=False)
    ids[2, 3] = wrong
    expected = np.take_along_axis(x, np.where(ids == wrong, 0, ids).astype(np.int64), 0)
    expected[2, 3] = 0
    failed = no_failure(kernels)
    tensor, indices = Tensor.from_numpy(kernels.device, x), Tensor.from_numpy(kernels.device, ids)
    assert_ulps(gather(kernels, tensor, indices, 0, failed), expected, 0)
    assert failed.numpy() == [1]
    gather(kernels, tensor, indices, 0).numpy()

    failed = no_failure(kernels)
    column = Tensor.from_numpy(kernels.device, np.ascontiguousarray(ids[:, 3]))
    assert_ulps(index_select(kernels, tensor, column, 0, failed).narrow(0, 2, 1), np.zeros((1, 5), x.dtype), 0)
    assert failed.numpy() == [1]

    failed = no_failure(kernels)
    scatter(kernels, tensor, indices, Tensor.from_numpy(kernels.device, x[:4]), 0, failed)
    ids[2, 3] = np.iinfo(ids.dtype).max
    assert_ulps(tensor, placed(x, ids, x[:4], 0), 0)
    assert failed.numpy() == [1]


def test_views_are_refused(kernels: Kernels) -> None:
    x = Tensor.from_numpy(kernels.device, np.zeros((4, 6), np.float32))
    ids = Tensor.from_numpy(kernels.device, np.zeros((6, 4), np.uint32))
    turned = x.transpose(1, 0)
    for refused in (
        lambda: gather(kernels, turned, ids, 0),
        lambda: gather(kernels, x, ids.transpose(1, 0), 0),
        lambda: index_select(kernels, turned, one_dimension(ids.narrow(0, 0, 1)), 0),
        lambda: scatter(kernels, turned, ids, turned, 0),
        lambda: scatter(kernels, x, ids.transpose(1, 0), x, 0),
    ):
        with pytest.raises(ValueError, match="contiguous"):
            refused()


@pytest.mark.usefixtures("one_block")
def test_a_grid_smaller_than_the_space(kernels: Kernels) -> None:
    x = random_values(dtype("f32"), (3, 700), 1)
    ids = random_ids("i32", 700, (3, 1030), 2)
    tensor, places = Tensor.from_numpy(kernels.device, x), Tensor.from_numpy(kernels.device, ids)
    assert_ulps(gather(kernels, tensor, places, 1), picked(x, ids, 1), 0)
    rows = random_ids("u32", 3, (9,), 3)
    got = index_select(kernels, tensor, Tensor.from_numpy(kernels.device, rows), 0)
    assert_ulps(got, picked(x, np.broadcast_to(rows[:, None], (9, 700)), 0), 0)
    source = random_values(dtype("f32"), ids.shape, 4)
    for form in ("columns", "marked"):
        target = Tensor.from_numpy(kernels.device, x)
        scatter(kernels, target, places, Tensor.from_numpy(kernels.device, source), 1, form=form)
        assert_ulps(target, placed(x, ids, source, 1), 0)


def test_launches_go_on_where_those_before_ended(kernels: Kernels, monkeypatch: pytest.MonkeyPatch) -> None:
    """With so few elements to a launch that columns are cut along and across."""
    monkeypatch.setitem(kernels.limits, "elements", 64)
    x = random_values(dtype("bf16"), (3, 150, 7), 1)
    ids = random_ids("i32", 150, (3, 130, 7), 2)
    tensor, places = Tensor.from_numpy(kernels.device, x), Tensor.from_numpy(kernels.device, ids)
    assert_ulps(gather(kernels, tensor, places, 1), picked(x, ids, 1), 0)
    column = Tensor.from_numpy(kernels.device, np.ascontiguousarray(ids[0, :, 0]))
    along = np.broadcast_to(ids[:1, :, :1], ids.shape)
    assert_ulps(index_select(kernels, tensor, column, 1), picked(x, along, 1), 0)
    source = random_values(dtype("bf16"), ids.shape, 4)
    with launched(kernels) as symbols:
        scatter(kernels, tensor, places, Tensor.from_numpy(kernels.device, source), 1)
    assert symbols == {"scatter_b16"}
    assert_ulps(tensor, placed(x, ids, source, 1), 0)


def test_a_space_beyond_32_bits_is_launched_in_parts(kernels: Kernels) -> None:
    (left, n, right), size, base = (3, 1 << 20, 5000), 7, 1 << 44
    buffer = Buffer(base, 0)  # never read: only addresses are looked at
    x = Tensor(kernels.device, buffer, dtype("f32"), View.contiguous((left, size, right)))
    y = Tensor(kernels.device, buffer, dtype("f32"), View.contiguous((left, n, right)))
    ids = Tensor(kernels.device, buffer, dtype("i64"), y.view)
    first = 0
    for family, launch in kernels.plan("gather", x=x, dim=1, ids=indices(ids, None), y=y):
        assert (family, launch.symbol) == ("indexing", "gather_b32")
        to, source, numbers, _, layout = launch.arguments
        count = int.from_bytes(layout[4:8], "little")
        row = first // (n * right)
        assert int.from_bytes(to, "little") == base + first * 4
        assert int.from_bytes(numbers[:8], "little") == base + first * 8
        assert int.from_bytes(source, "little") == base + row * size * right * 4
        assert 0 < count < 1 << 31
        first += count
    assert first == y.view.count > 1 << 33
