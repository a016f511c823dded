"""What lies more than 4Gi elements away: targets of indices, chunks of one row, the end of a long random sequence."""

from __future__ import annotations

from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np
import pytest

from codegen.device.hip import Buffer
from codegen.device.ops.index_add import index_add
from codegen.device.ops.indexing import gather, index_select, scatter
from codegen.device.ops.random import rand_normal, rand_uniform
from codegen.device.ops.reduce import reduce
from codegen.device.ops.scatter_add import scatter_add
from codegen.device.ops.softmax import softmax
from codegen.device.ops.upsample import upsample_nearest2d
from codegen.device.tensor import Tensor
from codegen.kernels.dtypes import dtype
from codegen.kernels.layout import View
from kernels.cases import random_values
from kernels.compare import assert_near
from kernels.huge import BEYOND, MAX_LAUNCH, empty, read, write
from kernels.launched import launched

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from codegen.device.hip import Launch
    from codegen.device.kernels import Kernels

Array = np.ndarray[Any, Any]

WIDTH = 64
"""Columns of a row."""

ROWS = BEYOND // WIDTH + 5

FAR = np.array([0, 1, ROWS // 2, BEYOND // WIDTH - 1, BEYOND // WIDTH, ROWS - 1])
"""Rows at the ends, and where elements pass 31 and 32 bits."""


def matrix(kernels: Kernels) -> tuple[Tensor, Array]:
    """A tensor of more than 4Gi elements, and what its FAR rows have been set to."""
    tensor, values = empty(kernels, "u8", ROWS, WIDTH), random_values(dtype("u8"), (len(FAR), WIDTH))
    write(tensor, 0, FAR.tolist(), values)
    return tensor, values


def tensor_at(kernels: Kernels, address: bytes, element: str, *shape: int) -> Tensor:
    """Memory that an op has given to a kernel."""
    return Tensor(kernels.device, Buffer(int.from_bytes(address, "little"), 0), dtype(element), View.contiguous(shape))


@pytest.mark.parametrize("pick", [index_select, gather], ids=["index-select", "gather"])
def test_far_rows_are_read(sparse: Kernels, pick: Callable[..., Tensor]) -> None:
    x, values = matrix(sparse)
    order = np.random.default_rng(1).permutation(len(FAR))
    ids = FAR[order].astype(np.uint32)
    ids = ids if pick is index_select else np.repeat(ids[:, None], WIDTH, axis=1)
    assert (pick(sparse, x, Tensor.from_numpy(sparse.device, ids), 0).numpy() == values[order]).all()


ADDING: dict[str, tuple[Callable[..., None], int, str]] = {
    # How many rows are added, and the kernel that does it.
    "scatter": (scatter, 6, "scatter_b8"),
    "scatter-add-columns": (scatter_add, 6, "scatter_add_u8_columns"),
    "scatter-add-atomic": (scatter_add, 40, "scatter_add_u8"),
    "index-add": (index_add, 6, "index_add_u8"),
    "index-add-few": (partial(index_add, form="few"), 6, "index_add_u8_few"),
    "index-add-sorted": (index_add, 1030, "index_add_u8_sorted"),
}


@pytest.mark.parametrize("name", ADDING)
def test_far_rows_are_written(sparse: Kernels, name: str) -> None:
    put, count, symbol = ADDING[name]
    y, wanted = matrix(sparse)
    to = np.random.default_rng(2).permutation(np.resize(np.arange(len(FAR)), count))
    rows = random_values(dtype("u8"), (count, WIDTH), 1)
    ids = FAR[to].astype(np.uint32)
    ids = ids if name.startswith("index-add") else np.repeat(ids[:, None], WIDTH, axis=1)
    with launched(sparse) as symbols:
        put(sparse, y, Tensor.from_numpy(sparse.device, ids), Tensor.from_numpy(sparse.device, rows), 0)
    if put is scatter:
        wanted[to] = rows
    else:
        np.add.at(wanted, to, rows)
    assert (read(y, 0, FAR.tolist()) == wanted).all()
    assert symbol in symbols


def test_far_pixels_are_read(sparse: Kernels) -> None:
    """An image of two rows, the matrix's first and last."""
    x, values = matrix(sparse)
    ends = Tensor(sparse.device, x.buffer, x.dtype, View((1, 1, 2, WIDTH), (0, 0, (ROWS - 1) * WIDTH, 1)))
    y = upsample_nearest2d(sparse, ends, 4, 2 * WIDTH)
    assert (y.numpy()[0, 0] == values[[0, -1]].repeat(2, axis=0).repeat(2, axis=1)).all()


def test_far_rows_are_marked(sparse: Kernels) -> None:
    """Scatter's form for few long columns, with marks of its own: their tensor is as large as the result."""
    y, wanted = matrix(sparse)
    to = np.random.default_rng(2).permutation(np.resize(np.arange(len(FAR)), 40))
    rows = random_values(dtype("u8"), (len(to), WIDTH), 1)
    ids = Tensor.from_numpy(sparse.device, np.repeat(FAR[to].astype(np.uint32)[:, None], WIDTH, axis=1))

    def zeros(size: int) -> Buffer:
        """Marks of which only those that are used exist."""
        assert size == 4 * ROWS * WIDTH
        marks = empty(sparse, "u32", ROWS, WIDTH)
        write(marks, 0, FAR.tolist(), np.zeros((len(FAR), WIDTH), np.uint32))
        return marks.buffer

    with launched(sparse) as symbols, patch.object(sparse.device, "zeros", zeros):
        scatter(sparse, y, ids, Tensor.from_numpy(sparse.device, rows), 0)
    assert symbols == {"scatter_b8_marked"}
    for place, row in zip(to, rows, strict=True):
        wanted[place] = row
    assert (read(y, 0, FAR.tolist()) == wanted).all()


@pytest.mark.parametrize("make", [rand_uniform, rand_normal], ids=["uniform", "normal"])
def test_random_numbers_behind_4gi_others(sparse: Kernels, make: Callable[..., Tensor]) -> None:
    """The first block makes the first 4096 numbers, and goes on behind those that all blocks make at once."""
    f8, turn = dtype("f8e4m3"), 4096
    with sparse.device.only_blocks([0]):
        y = make(sparse, (BEYOND + turn,), f8, 0, 1, seed=7)
    for first in (0, BEYOND):
        alone = make(sparse, (turn,), f8, 0, 1, seed=7, first=first // 4)
        assert (read(y, 0, range(first, first + turn)) == alone.numpy()).all()


def test_one_row_of_more_than_4gi_elements(sparse: Kernels, monkeypatch: pytest.MonkeyPatch) -> None:
    """Softmax of one row, as if the card were so large that each block gets a short chunk; other chunks are -inf."""
    monkeypatch.setattr(sparse.device, "multiprocessors", 1 << 20)
    chunk = sparse.numbers("softmax")["least_chunk"]
    chunks = BEYOND // chunk + 2
    chosen = [0, 1, chunks // 2, chunks - 2, chunks - 1]
    elements = [c * chunk + i for c in chosen for i in range(chunk)]
    x = empty(sparse, "bf16", chunks * chunk)
    values = random_values(dtype("bf16"), (len(elements),), special=False)
    write(x, 0, elements, values)
    run = sparse.launch

    def launch(family: str, planned: Iterable[Launch]) -> None:
        (given,) = planned
        assert given.grid == (chunks, 1, 1)
        if given.symbol == "softmax_bf16_totals":
            of_chunks = np.tile(np.array([-np.inf, 0], np.float32), (chunks, 1))
            write(tensor_at(sparse, given.arguments[0], "f32", chunks, 2), 0, range(chunks), of_chunks)
            blocks = chosen
        else:
            blocks = [chunks - 1 - c for c in chosen]  # this launch begins with the last
        with sparse.device.only_blocks(blocks):
            run(family, [given])

    with patch.object(sparse, "launch", launch):
        y = softmax(sparse, x)
    wide = values.astype(np.float64)
    exponentials = np.exp(wide - wide.max())
    found = Tensor.from_numpy(sparse.device, read(y, 0, elements))
    assert_near(found, exponentials / exponentials.sum(), absolute=0, relative=2.0**-7)


def test_sum_of_more_than_4gi_elements(sparse: Kernels, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some blocks of every launch add up their parts, others leave zeros; the launches that follow run whole."""
    monkeypatch.setattr(sparse.device, "multiprocessors", 1 << 12)
    x = empty(sparse, "i32", BEYOND + 1000)
    chunk = 1 << 15
    starts = [launch * MAX_LAUNCH + block * chunk for launch in range(4) for block in (0, MAX_LAUNCH // chunk - 1)]
    elements = [start + i for start in starts for i in range(chunk)] + list(range(BEYOND, BEYOND + 1000))
    values = random_values(dtype("i32"), (len(elements),))
    write(x, 0, elements, values)
    run = sparse.launch

    numbers = count()

    def launch(family: str, planned: Iterable[Launch]) -> None:
        for given, number in zip(planned, numbers, strict=False):
            if given.symbol == "sum_i32_finish":
                run(family, [given])
                continue
            if number == 0:
                slots = 4 * given.grid[1] + 1
                write(tensor_at(sparse, given.arguments[1], "u32", slots), 0, range(slots), np.zeros(slots, np.uint32))
            assert given.grid == (1, MAX_LAUNCH // chunk if number < 4 else 1, 1)
            with sparse.device.only_blocks({0, given.grid[1] - 1}):
                run(family, [given])

    with patch.object(sparse, "launch", launch):
        y = reduce(sparse, "sum", x, [0])
    assert y.numpy() == values.sum(dtype=np.int32)
