"""Quantized matrices of more than 4 GiB, and of more than 4Gi elements: their own addresses, without the memory."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np
import pytest

from codegen.device.ops.experts import quantized_pairs
from codegen.device.ops.quantized import Blocks, dequantize, dequantize_rows, quantized_experts, quantized_matmul
from codegen.device.tensor import Tensor
from codegen.kernels.dtypes import dtype
from kernels.blocks import FORMATS, random_blocks
from kernels.experts import on_device
from kernels.huge import BEYOND, MAX_GRID, Case, Dealing, Operand, empty, read, write

if TYPE_CHECKING:
    from collections.abc import Iterable

    from codegen.device.hip import Launch
    from codegen.device.kernels import Kernels

Array = np.ndarray[Any, Any]

FORMAT = "q8_0"
"""Whose blocks have more bytes than elements, so that offsets in bytes pass 32 bits first."""
BLOCK = FORMATS[FORMAT]
K = 256
"""Elements of a row."""
BYTES = K // BLOCK.elements * BLOCK.bytes
"""Of a row's blocks."""
ROWS = BEYOND // K + 3
"""Rows of a matrix with more than 4Gi elements."""


@dataclass(frozen=True, slots=True)
class Matrix(Operand):
    """Rows of blocks, as bytes."""

    def values(self, positions: int, seed: int) -> Array:
        rows = self.shape[0] if self.axis is None else positions
        return random_blocks(BLOCK, rows, K, seed)


HUGE = Matrix("u8", (ROWS, BYTES))


def blocks(w: Tensor) -> Blocks:
    return Blocks(w, FORMAT, (w.shape[0], K))


def multiplied(kernels: Kernels, x: Tensor, w: Tensor) -> Tensor:
    """Rounding the rows of x is no launch of the case."""
    run = kernels.launch

    def launch(family: str, planned: Iterable[Launch]) -> None:
        for given in planned:
            if family == "activations":
                kernels.module(family).launch(given)
            else:
                run(family, [given])

    with patch.object(kernels, "launch", launch):
        return quantized_matmul(kernels, x, blocks(w))


def product(symbol: str, rows: int, per_block: dict[int, int]) -> dict[int, Case]:
    """So many rows multiplied with all rows of a huge matrix, by the lanes of a wave."""
    return {
        lanes: Case(
            f"{symbol}_f32_{FORMAT}",
            (Operand("f32", (rows, K), None), HUGE),
            multiplied,
            (Dealing(per_block=columns),),
            axis=1,
        )
        for lanes, columns in per_block.items()
    }


PRODUCTS = {
    "multiply-1": product("multiply_1", 1, {32: 8, 64: 4}),
    "multiply-2": product("multiply_2", 2, {32: 16, 64: 8}),
    "multiply-4": product("multiply_4", 4, {32: 16, 64: 8}),
    "multiply-8": product("multiply_8", 8, {32: 16, 64: 8}),
    "multiply-tile": product("multiply_tile_few", 17, {32: 32, 64: 16}),
}

READ = {
    "dequantize": Case(
        f"dequantize_f16_{FORMAT}",
        (HUGE,),
        lambda k, w: dequantize(k, blocks(w), dtype("f16")),
        (Dealing(per_block=4),),
    ),
    "dequantize-rows": Case(
        f"dequantize_rows_f32_{FORMAT}",
        (Operand("u32", (ROWS,), below=8), Matrix("u8", (8, BYTES), None)),
        lambda k, ids, w: dequantize_rows(k, blocks(w), ids),
        (Dealing(per_block=4),),
    ),
}


@pytest.mark.parametrize("name", READ)
def test_numbers_of_more_than_4gi_elements(sparse: Kernels, name: str) -> None:
    READ[name].check(sparse)


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_with_more_than_4gi_elements(sparse: Kernels, name: str) -> None:
    PRODUCTS[name][sparse.device.wave_size].check(sparse)


def far_rows(kernels: Kernels, chosen: Array) -> tuple[Tensor, Tensor]:
    """A huge matrix of which the chosen rows are written, and a small one that has only them."""
    data = random_blocks(BLOCK, len(chosen), K, 1)
    huge = empty(kernels, "u8", *HUGE.shape)
    write(huge, 0, chosen.tolist(), data)
    return huge, Tensor.from_numpy(kernels.device, data)


def test_far_rows_are_picked(sparse: Kernels) -> None:
    """At the ends, and around 2 and 4 GiB."""
    chosen = np.array([0, BEYOND // 2 // BYTES, BEYOND // BYTES, BEYOND // BYTES + 1, ROWS - 1], np.uint32)
    huge, small = far_rows(sparse, chosen)
    own = np.arange(len(chosen), dtype=np.uint32)
    found, wanted = (
        dequantize_rows(sparse, blocks(w), Tensor.from_numpy(sparse.device, ids)).numpy()
        for w, ids in ((huge, chosen), (small, own))
    )
    assert wanted.any()
    np.testing.assert_array_equal(found, wanted)


N = 16
"""Rows of an expert."""
EXPERTS = ROWS // N
FAR_EXPERTS = np.array([0, EXPERTS // 2, EXPERTS - 1], np.uint32)


def far_experts(kernels: Kernels) -> tuple[Tensor, Tensor]:
    """As `far_rows`, for all rows of some experts."""
    rows = (FAR_EXPERTS[:, None].astype(np.int64) * N + np.arange(N)).reshape(-1)
    huge, small = far_rows(kernels, rows)
    return huge.narrow(0, 0, EXPERTS * N), small


def random_rows(kernels: Kernels, rows: int) -> Tensor:
    return Tensor.from_numpy(kernels.device, np.random.default_rng(rows).normal(size=(rows, K)).astype(np.float32))


def test_far_experts_are_chosen(sparse: Kernels) -> None:
    own = np.arange(len(FAR_EXPERTS), dtype=np.uint32)
    x = random_rows(sparse, len(own)).reshaped(len(own), 1, K)
    found, wanted = (
        quantized_experts(sparse, x, blocks(w), w.shape[0] // N, Tensor.from_numpy(sparse.device, ids[:, None])).numpy()
        for w, ids in zip(far_experts(sparse), (FAR_EXPERTS, own), strict=True)
    )
    assert wanted.any()
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("tiled", [False, True], ids=["rows", "tiles"])
def test_far_experts_of_pairs(sparse: Kernels, *, tiled: bool) -> None:
    own = np.arange(len(FAR_EXPERTS), dtype=np.uint32)
    x = random_rows(sparse, len(own))
    found, wanted = (
        quantized_pairs(sparse, x, blocks(w), w.shape[0] // N, on_device(sparse, own, experts, 1), tiled=tiled).numpy()
        for w, experts in zip(far_experts(sparse), (FAR_EXPERTS, own), strict=True)
    )
    assert wanted.any()
    np.testing.assert_array_equal(found, wanted)


def last_blocks(kernels: Kernels) -> Any:
    """Three rows are rounded, by a block each, and one tile is multiplied: the last, of launches without strides."""
    run = kernels.launch

    def launch(family: str, planned: Iterable[Launch]) -> None:
        for given in planned:
            count = math.prod(given.grid)
            blocks = range(count - (3 if family == "activations" else 1), count)
            if count < MAX_GRID:
                with kernels.device.only_blocks(list(blocks)):
                    run(family, [given])

    return patch.object(kernels, "launch", launch)


def test_the_last_of_more_than_4gi_results(sparse: Kernels) -> None:
    """Rows are rounded and multiplied behind 4Gi elements; the last tile has three of them."""
    w = random_blocks(BLOCK, 40, K, 2)
    w_on = Tensor.from_numpy(sparse.device, w)
    few = np.random.default_rng(3).normal(size=(3, K)).astype(np.float16)
    count = -(-ROWS // 128) * 128 + 3
    x = empty(sparse, "f16", count, K)
    last = [count - 3, count - 2, count - 1]
    write(x, 0, last, few)
    with last_blocks(sparse):
        found = read(quantized_matmul(sparse, x, blocks(w_on)), 0, last)
    wanted = quantized_matmul(sparse, Tensor.from_numpy(sparse.device, few), blocks(w_on)).numpy()
    np.testing.assert_allclose(found.astype(np.float32), wanted.astype(np.float32), rtol=2.0**-9, atol=1e-3)


def test_results_that_lie_more_than_4gi_elements_away(sparse: Kernels) -> None:
    """The last tile of as many rows as columns."""
    count = (1 << 16) + 3
    few = random_blocks(BLOCK, 3, K, 4)
    w = empty(sparse, "u8", count, BYTES)
    rows = np.random.default_rng(5).normal(size=(3, K)).astype(np.float16)
    x = empty(sparse, "f16", count, K)
    last = [count - 3, count - 2, count - 1]
    write(w, 0, last, few)
    write(x, 0, last, rows)
    with last_blocks(sparse):
        y = quantized_matmul(sparse, x, blocks(w))
    assert y.view.count > BEYOND
    found = read(y, 0, last)[:, -3:]
    small = quantized_matmul(
        sparse, Tensor.from_numpy(sparse.device, rows), blocks(Tensor.from_numpy(sparse.device, few))
    )
    np.testing.assert_allclose(found.astype(np.float32), small.numpy().astype(np.float32), rtol=2.0**-9, atol=1e-3)
