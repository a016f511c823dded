"""Reductions against numpy."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from some import some

from codegen.device.hip import Buffer
from codegen.device.ops.reduce import reduce
from codegen.device.tensor import Tensor, numpy_type
from codegen.kernels.dtypes import DTYPES, Kind, dtype
from codegen.kernels.layout import View
from kernels.cases import VIEWS, random_values
from kernels.compare import assert_ulps, assert_within, epsilon, smallest
from kernels.images import rounded_to, unit
from kernels.launched import launched

if TYPE_CHECKING:
    from codegen.device.hip import Launch
    from codegen.device.kernels import Kernels
    from codegen.kernels.dtypes import DType

Array = np.ndarray[Any, Any]

OPS = ("sum", "min", "max", "argmin", "argmax")
EXTREMES = OPS[1:]
FLOATS = [element for element in DTYPES if element.kind is Kind.FLOAT]

LENGTHS = (1, 2, 3, 31, 32, 33, 63, 64, 65, 255, 256, 257, 1000, 4099, 20011)
"""Around the sizes of packs, waves and blocks; the last is split over blocks."""

SHAPES = (
    *(((2, length), 1) for length in LENGTHS),
    *(((length, 3), 0) for length in LENGTHS if length < 1000),
    ((9000, 8), 0),
    ((100, 700), 0),
    ((3, 300, 4), 1),
    ((130, 5, 3), 1),
    ((600, 7), 1),
)
"""A shape and the dimension that is reduced."""


def _sum(values: Array, dims: tuple[int, ...], element: DType) -> tuple[Array, Array]:
    """The exact sum, rounded as the element type does, and what a result may differ from it by."""
    if element.kind is not Kind.FLOAT:
        wrapped = np.add.reduce(values, axis=dims, dtype=values.dtype, keepdims=True)
        return wrapped, np.zeros(wrapped.shape)
    exact = values.astype(np.longdouble)
    total = exact.sum(axis=dims, keepdims=True)
    length = int(np.prod([values.shape[d] for d in dims]))
    summed = epsilon(numpy_type(element if element.size == 8 else dtype("f32"))) / 2
    bound = length * summed * np.abs(exact).sum(axis=dims, keepdims=True) + unit(element) * np.abs(total)
    return rounded_to(total, element).astype(np.longdouble), bound + smallest(numpy_type(element)) / 2


def _extreme(op: str, values: Array, dim: int) -> Array:
    """What Candle's CPU backend gives: NaN counts only as the first element; the first of equals wins."""
    if np.issubdtype(values.dtype, np.integer):
        pick: Array = getattr(np, op)(values, axis=dim, keepdims=True)
        return pick.astype(np.uint32) if op.startswith("arg") else pick
    ordered = values.astype(np.float64)
    first_is_nan = np.isnan(np.take(ordered, [0], axis=dim))
    worst = np.inf if op.endswith("min") else -np.inf
    ordered = np.where(np.isnan(ordered), worst, ordered)
    ordered = np.where(first_is_nan, 0, ordered)
    index = (np.argmin if op.endswith("min") else np.argmax)(ordered, axis=dim, keepdims=True)
    return index.astype(np.uint32) if op.startswith("arg") else np.take_along_axis(values, index, axis=dim)


def _check(kernels: Kernels, op: str, x: Tensor, array: Array, dims: tuple[int, ...]) -> None:
    result = reduce(kernels, op, x, dims)
    if op == "sum":
        expected, bound = _sum(array, dims, x.dtype)
        assert_within(result.numpy(), expected.astype(np.longdouble), bound)
    else:
        assert_ulps(result, _extreme(op, array, dims[0]), 0)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("element", DTYPES, ids=str)
def test_shapes(kernels: Kernels, element: DType, op: str) -> None:
    with launched(kernels) as symbols:
        for seed, (shape, dim) in enumerate(SHAPES):
            array = random_values(element, shape, seed, special=op != "sum")
            _check(kernels, op, Tensor.from_numpy(kernels.device, array, element), array, (dim,))

    # Of a single element, the index is known.
    known = {"fill_b32", "fill_b64"} if op.startswith("arg") else set()
    assert symbols == {f"{op}_{element}_{form}" for form in ("rows", "columns", "finish")} | known


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("name", ["u8", "i16", "f16", "f32", "f64"])
def test_views(kernels: Kernels, name: str, op: str) -> None:
    for seed, view in some(enumerate(VIEWS)):
        x, array = view.make(kernels.device, dtype(name), seed, special=op != "sum")
        for dim in range(array.ndim if array.size else 0):
            _check(kernels, op, x, array, (dim,))


@pytest.mark.parametrize("name", ["u8", "i64", "bf16", "f32"])
def test_sum_over_any_set_of_dimensions(kernels: Kernels, name: str) -> None:
    array = random_values(dtype(name), (3, 5, 4, 8), special=False)
    base = Tensor.from_numpy(kernels.device, array, dtype(name))
    for order in ((0, 1, 2, 3), (0, 2, 1, 3), (3, 1, 0, 2)):
        for number in range(5):
            for dims in some(combinations(range(4), number)):
                _check(kernels, "sum", base.transpose(*order), array.transpose(order), dims)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("name", ["bf16", "f32", "i64"])
def test_results_that_memory_has_in_another_order(kernels: Kernels, name: str, op: str) -> None:
    """Of views of a megabyte and more, which are reduced in that order; the results are turned."""
    element = dtype(name)
    result = 4 if op.startswith("arg") else element.size
    count = 2**20 // element.size
    for shape, order, dim in (
        ((2, 300, count // 600 + 1), (0, 2, 1), 0),
        ((13, 40, count // 1040 + 1, 2), (2, 3, 0, 1), 3),
        ((6, 12, count // 72 + 1), (2, 1, 0), 2),
        ((count // 232 + 1, 58, 4), (2, 1, 0), 2),
    ):
        array = random_values(element, shape, special=op != "sum")
        x = Tensor.from_numpy(kernels.device, array, element).transpose(*order)
        with launched(kernels) as symbols:
            _check(kernels, op, x, array.transpose(order), (dim,))
        assert symbols & {f"{copied}_b{8 * result}" for copied in ("permute", "copy")}


@pytest.mark.parametrize("shape", [(20000, 2, 3), (3, 2, 20000), (70, 300, 2, 3), (90, 2, 40, 32)])
def test_sum_over_dimensions_apart(kernels: Kernels, shape: tuple[int, ...]) -> None:
    array = random_values(dtype("f32"), shape, special=False)
    _check(kernels, "sum", Tensor.from_numpy(kernels.device, array), array, (0, 2))


@pytest.mark.parametrize("op", EXTREMES)
def test_extremes_take_one_dimension_of_something(kernels: Kernels, op: str) -> None:
    x = Tensor.from_numpy(kernels.device, np.zeros((2, 3), np.float32))
    for tensor, dims, reason in (
        (x, (0, 1), "is of one dimension, not of 2"),
        (x, (), "is of one dimension, not of 0"),
        (x.narrow(0, 0, 0), (0,), "of a tensor without elements"),
    ):
        with pytest.raises(ValueError, match=f"{op} {reason}"):
            reduce(kernels, op, tensor, dims)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("element", FLOATS, ids=str)
def test_special_values(kernels: Kernels, element: DType, op: str) -> None:
    """Rows and columns of them, and long ones of which every chunk begins with NaN."""
    nan, large = np.nan, np.inf if element.name != "f8e4m3" else 448.0
    kind = numpy_type(element)
    short = [
        [nan, 1, 2, nan],
        [1, nan, 2, nan],
        [nan, nan, nan, nan],
        [-large, -large, -large, -large],
        [large, large, large, large],
        [-large, nan, -large, -large],
        [large, 1, nan, large],
        [0.0, -0.0, 0.0, -0.0],
        [2, 3, 3, 2],
    ]
    rows = np.array(short).astype(kind)
    long = random_values(element, (3, 16384), special=False)
    long[0, 0] = nan
    long[1, 64::64] = nan
    long[2] = -large
    long[2, 1:] = nan
    for array in (rows, long):
        x = Tensor.from_numpy(kernels.device, array, element)
        for tensor, values, dim in ((x, array, 1), (x.transpose(1, 0), array.T, 0)):
            result = reduce(kernels, op, tensor, (dim,))
            if op == "sum":
                with np.errstate(invalid="ignore"):
                    expected = values.astype(np.float64).sum(axis=dim, keepdims=True)
                tolerance = np.where(np.isfinite(expected), 1.0, 0.0) * unit(element) * 2048
                assert_within(result.numpy(), rounded_to(expected, element).astype(np.float64), tolerance)
            else:
                assert_ulps(result, _extreme(op, values, dim), 0)
        column = Tensor.from_numpy(kernels.device, np.ascontiguousarray(array.T), element)
        if op != "sum":
            assert_ulps(reduce(kernels, op, column, (0,)), _extreme(op, array.T, 0), 0)


@pytest.mark.parametrize("name", ["u8", "u32", "i16", "i32", "i64"])
def test_integers_wrap_and_extremes_of_the_range_are_found(kernels: Kernels, name: str) -> None:
    ends = np.iinfo(numpy_type(dtype(name)))
    for value in (ends.min, ends.max):
        array = np.full((3, 999), value, numpy_type(dtype(name)))
        array[1, 700] = ends.max
        array[2, 700] = ends.min
        for op in OPS:
            x = Tensor.from_numpy(kernels.device, array, dtype(name))
            _check(kernels, op, x, array, (1,))
            _check(kernels, op, x, array, (0,))


def test_sums_of_16_bit_floats_are_accumulated_in_f32(kernels: Kernels) -> None:
    """In 16 bits, 2048 + 1 is 2048 and ten thousand ones are 2048."""
    x = Tensor.from_numpy(kernels.device, np.ones((10000, 3), np.float16))
    assert (reduce(kernels, "sum", x, (0,)).numpy() == 10000).all()
    assert (reduce(kernels, "sum", x.transpose(1, 0), (1,)).numpy() == 10000).all()


def test_sums_are_the_same_every_time(kernels: Kernels) -> None:
    array = random_values(dtype("f32"), (40000,), special=False)
    x = Tensor.from_numpy(kernels.device, array)
    results = {reduce(kernels, "sum", x, (0,)).numpy().tobytes() for _ in range(3)}
    assert len(results) == 1


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("shape", [(37, 300), (300, 37), (70, 90), (3, 129, 20), (5, 4, 200)])
def test_launches_are_cut(kernels: Kernels, monkeypatch: pytest.MonkeyPatch, op: str, shape: tuple[int, ...]) -> None:
    """As for tensors beyond 2^30 elements, but at 64."""
    monkeypatch.setitem(kernels.limits, "elements", 64)
    array = random_values(dtype("f32"), shape, special=False)
    array.reshape(-1)[::97] = np.nan
    x = Tensor.from_numpy(kernels.device, array)
    for dim in some(range(len(shape))):
        assert len(kernels.plan("reduce", op=op, x=x, dims=[dim], y=x)) > 2
        _check(kernels, op, x, array, (dim,))


def _tasks(launches: list[Launch]) -> list[tuple[int, int, int, int, int, int, int]]:
    """Address, lines, first, count, chunk, slot and blocks in y of each launch but `finish`."""
    found = []
    for launch in launches:
        if launch.symbol.endswith("_finish"):
            continue
        task = launch.arguments[3]
        words = [int.from_bytes(task[i : i + 4], "little") for i in range(0, len(task), 4)]
        stride, first, count, chunk, _, slot, *_ = np.frombuffer(task[-40:], "<i8,<u8,<u4,<u4,<u4,<u4,<u4,<u4")[0]
        address = int.from_bytes(launch.arguments[2], "little")
        found.append((address, words[1], int(first), int(count), int(chunk), int(slot), launch.grid[1]))
        assert stride > 0
    return found


@pytest.mark.parametrize(("shape", "dim"), [((5 << 30,), 0), ((3, 3 << 30), 1), ((3 << 30, 2), 1), ((2, 5 << 30), 0)])
def test_indices_stay_below_2_to_31_beyond_4gi_elements(kernels: Kernels, shape: tuple[int, ...], dim: int) -> None:
    """Nothing is launched: every element has its place in exactly one launch, and no launch counts beyond 2^30."""
    count = int(np.prod(shape))
    base = 1 << 40
    x = Tensor(kernels.device, Buffer(base, count), dtype("u8"), View.contiguous(shape))
    y = Tensor(kernels.device, Buffer(base * 2, 0), dtype("u32"), View.contiguous((count // shape[dim],)))

    planned = kernels.plan("reduce", op="argmax", x=x, dims=[dim], y=y)
    tasks = _tasks([launch for _, launch in planned])

    stride = x.view.strides[dim]
    other = next((s for d, s in enumerate(x.view.strides) if d != dim), 1)
    assert sum(lines * number for _, lines, _, number, *_ in tasks) == count
    assert len({(address, first) for address, _, first, *_ in tasks}) == len(tasks)
    for address, lines, first, number, chunk, _, blocks in tasks:
        assert max(lines, number) <= 1 << 30
        assert blocks * chunk < 1 << 31
        assert (blocks - 1) * chunk < number <= blocks * chunk
        last = address + (lines - 1) * other + (number - 1) * stride
        assert base <= address
        assert last < base + count
        assert (address - base) % other == first * stride % other
