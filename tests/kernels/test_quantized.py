"""Quantized blocks read as numbers bit for bit, and multiplied within the error of 8 bits for the other side."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import numpy as np
import pytest

from codegen.device.hip import Buffer
from codegen.device.ops.quantized import Blocks, dequantize, dequantize_rows, quantized_experts, quantized_matmul
from codegen.device.planner import PlanRefused, plan
from codegen.device.tensor import Tensor, numpy_type
from codegen.kernels.dtypes import dtype
from codegen.kernels.layout import View
from kernels.blocks import FORMATS, numbers, random_blocks, rounded
from kernels.compare import assert_same_bits, assert_ulps
from kernels.indexed import no_failure

if TYPE_CHECKING:
    from codegen.device.hip import Launch
    from codegen.device.kernels import Kernels

Array = np.ndarray[Any, Any]

FLOATS = {"f32": np.float32, "f16": np.float16}


def on_device(kernels: Kernels, name: str, rows: int, columns: int, seed: int) -> tuple[Blocks, Array]:
    """Random blocks, and the numbers that they stand for."""
    data = random_blocks(FORMATS[name], rows, columns, seed)
    tensor = Tensor.from_numpy(kernels.device, data)
    return Blocks(tensor, name, (rows, columns)), numbers(FORMATS[name], data)


@pytest.mark.parametrize("name", FORMATS)
def test_numbers_have_the_bits_of_the_table(kernels: Kernels, name: str) -> None:
    elements = FORMATS[name].elements
    for seed, (rows, columns) in enumerate([(1, elements), (3, elements), (7, 5 * elements), (300, 2 * elements)]):
        blocks, wanted = on_device(kernels, name, rows, columns, seed)
        for result, kind in FLOATS.items():
            with np.errstate(over="ignore"):
                assert_same_bits(dequantize(kernels, blocks, dtype(result)), wanted.astype(kind))


@pytest.mark.parametrize("name", FORMATS)
def test_rows_are_picked(kernels: Kernels, name: str) -> None:
    columns = 3 * FORMATS[name].elements
    blocks, wanted = on_device(kernels, name, 11, columns, 5)
    for ids in ([4], [10, 0, 3, 3, 7], [2**32 - 1, 5]):
        indices = np.array(ids, np.uint32)
        failed = no_failure(kernels)
        picked = dequantize_rows(kernels, blocks, Tensor.from_numpy(kernels.device, indices), failed)
        expected = [wanted[i] if i < 11 else np.zeros(columns, np.float32) for i in ids]
        assert_ulps(picked, np.array(expected), 0)
        assert failed.numpy() == [0]
    failed = no_failure(kernels)
    outside = Tensor.from_numpy(kernels.device, np.array([1, 11], np.uint32))
    picked = dequantize_rows(kernels, blocks, outside, failed)
    assert_ulps(picked, np.array([wanted[1], np.zeros(columns, np.float32)]), 0)
    assert failed.numpy() == [1]
    every_other = Tensor.from_numpy(kernels.device, np.array([1, 99, 2, 99, 8, 99], np.uint32))
    picked = dequantize_rows(kernels, blocks, replace(every_other, view=View((3,), (2,))))
    assert_ulps(picked, wanted[[1, 2, 8]], 0)


def assert_product(got: Tensor, x: Array, w: Array) -> None:
    """Within an error of f32 for each term, and of the result's type."""
    exact, w64 = rounded(x), w.astype(np.float64)
    wanted = exact @ w64.T
    terms = np.abs(exact) @ np.abs(w64).T
    of_result = {"f32": 2.0**-23, "f16": 2.0**-10, "bf16": 2.0**-7}[got.dtype.name]
    error = x.shape[-1] * 2.0**-24 * 4 * terms + of_result * np.abs(wanted)
    found = got.numpy().astype(np.float64)
    assert found.shape == wanted.shape
    assert (np.abs(found - wanted) <= error + 1e-30).all(), np.abs(found - wanted).max()


@pytest.mark.parametrize("rows", [1, 2, 3, 5, 8, 9, 21, 64, 65, 300])
@pytest.mark.parametrize("name", FORMATS)
def test_products(kernels: Kernels, name: str, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    elements = FORMATS[name].elements
    if rows > 64:
        monkeypatch.setitem(kernels.limits, "multiprocessors", 1)  # large tiles keep it busy
    rng = np.random.default_rng(rows)
    # of the last, waves share rows, and each has lanes with two parts: only for so few that tiles do not multiply them
    shared = [(3, 69 * 256)] if rows < 64 else []
    for n, columns in [(1, elements), (5, 3 * elements), (67, elements), (3, 9 * 256), *shared]:
        blocks, w = on_device(kernels, name, n, columns, n)
        x = rng.normal(size=(rows, columns)).astype(np.float32)
        assert_product(quantized_matmul(kernels, Tensor.from_numpy(kernels.device, x), blocks), x, w)


@pytest.mark.parametrize("element", ["bf16", "f16", "f32"])
@pytest.mark.parametrize("name", ["q4_0", "q6k"])
def test_products_of_views_in_any_float(kernels: Kernels, name: str, element: str) -> None:
    columns = 2 * FORMATS[name].elements
    blocks, w = on_device(kernels, name, 19, columns, 3)
    x = np.random.default_rng(1).normal(size=(2, 3, columns)).astype(numpy_type(dtype(element)))
    whole = Tensor.from_numpy(kernels.device, x)
    wide = x.astype(np.float32)
    assert_product(quantized_matmul(kernels, whole, blocks), wide, w)
    turned = Tensor.from_numpy(kernels.device, x.transpose(2, 1, 0).copy()).transpose(2, 1, 0)
    assert_product(quantized_matmul(kernels, turned, blocks), wide, w)
    later = replace(whole, view=View((3, columns), (columns, 1), 3 * columns))
    assert_product(quantized_matmul(kernels, later, blocks), wide[1], w)
    repeated = replace(whole, view=View((4, columns), (0, 1), columns))
    assert_product(quantized_matmul(kernels, repeated, blocks), np.broadcast_to(wide[0, 1], (4, columns)), w)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("name", FORMATS)
def test_experts(kernels: Kernels, name: str, *, shared: bool) -> None:
    columns, experts, n = 9 * 256, 5, 13  # more parts than a wave has lanes
    blocks, w = on_device(kernels, name, experts * n, columns, 3)
    w = w.reshape(experts, n, columns)
    ids = np.array([[0, 4], [3, 3], [2**32 - 1, 1]], np.uint32)
    x = np.random.default_rng(1).normal(size=(3, 1 if shared else 2, columns)).astype(np.float32)
    failed = no_failure(kernels)
    on = [Tensor.from_numpy(kernels.device, each) for each in (x, ids)]
    got = quantized_experts(kernels, on[0], blocks, experts, on[1], failed)
    assert failed.numpy() == [0]
    found = got.numpy()
    assert found.shape == (3, 2, n)
    for b, i in np.ndindex(3, 2):
        if ids[b, i] >= experts:
            assert not found[b, i].any()
            continue
        row = Tensor.from_numpy(kernels.device, found[b, i][None])
        assert_product(row, x[b, 0 if shared else i][None], w[ids[b, i]])
    outside = Tensor.from_numpy(kernels.device, np.full((3, 2), experts, np.uint32))
    assert not quantized_experts(kernels, on[0], blocks, experts, outside, failed).numpy().any()
    assert failed.numpy() == [1]


@pytest.mark.parametrize(("n", "parts"), [(3, 72), (3, 600), (70, 9)])
def test_a_row_has_the_same_bits_among_others(kernels: Kernels, n: int, parts: int) -> None:
    blocks, _ = on_device(kernels, "q4_0", n, 32 * parts, 3)
    x = np.random.default_rng(1).normal(size=(16, 32 * parts)).astype(np.float32)
    alone = [quantized_matmul(kernels, Tensor.from_numpy(kernels.device, row[None]), blocks).numpy()[0] for row in x]
    for rows in (2, 3, 4, 7, 8, 9, 16):
        together = quantized_matmul(kernels, Tensor.from_numpy(kernels.device, x[:rows]), blocks)
        assert_ulps(together, np.array(alone[:rows]), 0)


def planned(n: int, parts: int, multiprocessors: int, rows: int) -> Launch:
    """What multiplies rows with a matrix of q4_0 on a made-up card."""
    x = Tensor(Mock(), Buffer(1 << 40, 0), dtype("f32"), View.contiguous((rows, 32 * parts)))
    data = replace(x, dtype=dtype("u8"), view=View.contiguous((n * parts * 18,)))
    blocks = Blocks(data, "q4_0", (n, 32 * parts))
    card = {"architecture": "gfx1100", "wave_size": 32, "multiprocessors": multiprocessors}
    y = replace(x, view=View.contiguous((rows, n)))
    return plan("quantized_matmul", card, x=x, w=blocks.planned, y=y)[-1][1]


def test_waves_share_rows_where_there_are_few() -> None:
    def waves(n: int, parts: int, rows: int = 1) -> float:
        """For each row of the matrix, or for each two where there are several others."""
        return planned(n, parts, 96, rows).grid[0] * 8 / n * (1 if rows == 1 else 2)

    assert waves(65536, 448) == 1
    for rows in (1, 2, 4, 8):
        assert waves(1536, 448, rows) == 1, "16 waves a multiprocessor are enough"
        assert waves(1535, 448, rows) == 1536 / 1535 * 2, "and fewer are not"
        assert waves(512, 128, rows) == 4, "each lane has a part"
        assert waves(64, 512, rows) == 8, "a block has no more"
        assert waves(64, 63, rows) == 1, "each lane has a part"


def test_large_tiles_are_taken_where_there_are_enough() -> None:
    for rows, n, tile in ((64, 1 << 17, "few"), (65, 4096, "many"), (65, 3968, "few"), (512, 1024, "many")):
        assert planned(n, 128, 96, rows).symbol == f"multiply_tile_{tile}_f32_q4_0", (rows, n)


def test_launches_are_cut(kernels: Kernels) -> None:
    blocks, w = on_device(kernels, "q5_0", 40, 96, 3)
    x = np.random.default_rng(1).normal(size=(5, 96)).astype(np.float32)
    kernels.limits = {"elements": 8, "blocks": 1}
    try:
        turned = Tensor.from_numpy(kernels.device, x.T.copy()).transpose(1, 0)
        assert_product(quantized_matmul(kernels, turned, blocks), x, w)
        assert_ulps(dequantize(kernels, blocks, dtype("f32")), w, 0)
        ids = Tensor.from_numpy(kernels.device, np.arange(40, dtype=np.uint32)[::-1])
        assert_ulps(dequantize_rows(kernels, blocks, ids), w[::-1], 0)
        experts = np.array([[3], [0], [3], [1], [2]], np.uint32)
        on = [Tensor.from_numpy(kernels.device, each) for each in (x[:, None], experts)]
        got = quantized_experts(kernels, on[0], blocks, 4, on[1]).numpy()
        for row, expert in enumerate(experts[:, 0]):
            found = Tensor.from_numpy(kernels.device, got[row])
            assert_product(found, x[row : row + 1], w.reshape(4, 10, 96)[expert])
    finally:
        kernels.limits = {}


@pytest.mark.parametrize("strange", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_reaches_its_own_row(kernels: Kernels, strange: float) -> None:
    blocks, _ = on_device(kernels, "q4k", 9, 512, 3)
    x = np.random.default_rng(1).normal(size=(3, 512)).astype(np.float32)
    x[1, 300] = strange
    got = quantized_matmul(kernels, Tensor.from_numpy(kernels.device, x), blocks).numpy()
    assert not np.isfinite(got[1]).any()
    assert np.isfinite(got[[0, 2]]).all()


def test_zeros_are_exact(kernels: Kernels) -> None:
    blocks, _ = on_device(kernels, "q4_1", 9, 64, 3)
    zeros = Tensor.from_numpy(kernels.device, np.zeros((2, 64), np.float32))
    assert not quantized_matmul(kernels, zeros, blocks).numpy().any()


def test_nothing_to_multiply(kernels: Kernels) -> None:
    blocks, _ = on_device(kernels, "q4_0", 4, 32, 3)
    x = Tensor.from_numpy(kernels.device, np.zeros((0, 32), np.float32))
    assert quantized_matmul(kernels, x, blocks).shape == (0, 4)


def test_what_does_not_fit_is_refused(kernels: Kernels) -> None:
    blocks, _ = on_device(kernels, "q4k", 4, 256, 3)
    x = Tensor.from_numpy(kernels.device, np.zeros((2, 128), np.float32))
    with pytest.raises(PlanRefused, match="rows of 128 elements cannot be multiplied with rows of 256"):
        quantized_matmul(kernels, x, blocks)
    with pytest.raises(PlanRefused, match="rows of 128 elements are no whole blocks of q4k"):
        dequantize(kernels, replace(blocks, shape=(8, 128)), dtype("f32"))
