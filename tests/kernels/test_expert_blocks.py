"""Rows multiplied with the quantized experts chosen for them, within the error of 8 bits for the rows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from codegen.device.ops.experts import quantized_pairs
from codegen.device.ops.quantized import Blocks
from codegen.device.planner import PlanRefused
from codegen.device.tensor import Tensor
from codegen.kernels.layout import View
from kernels.blocks import FORMATS, numbers, random_blocks, rounded
from kernels.compare import assert_within
from kernels.experts import NONE, floats, on_device, products, sorted_pairs, weights_of
from kernels.indexed import no_failure
from kernels.launched import launched

if TYPE_CHECKING:
    from codegen.device.kernels import Kernels

Array = np.ndarray[Any, Any]

FORMS = pytest.mark.parametrize("tiled", [False, True], ids=["rows", "tiles"])


def quantized(kernels: Kernels, name: str, rows: int, columns: int) -> tuple[Blocks, Array]:
    """Random blocks, and the numbers that they stand for."""
    data = random_blocks(FORMATS[name], rows, columns, rows)
    return Blocks(Tensor.from_numpy(kernels.device, data), name, (rows, columns)), numbers(FORMATS[name], data)


def assert_products_of_bytes(
    got: Tensor, x: Array, w: Array, experts: Array, shared: int, weights: Array | None = None
) -> None:
    """As `assert_products` for rows that are rounded to 8 bits before."""
    exact, terms = products(rounded(x), w, experts, shared, weights)
    assert_within(got.numpy(), exact, x.shape[-1] * 2.0**-22 * terms + 2.0**-23 * np.abs(exact) + 1e-30)


@FORMS
@pytest.mark.parametrize("weighted", [False, True], ids=["rows-shared", "weighted"])
@pytest.mark.parametrize("name", FORMATS)
def test_quantized_experts(kernels: Kernels, name: str, *, weighted: bool, tiled: bool) -> None:
    # one has more pairs than a tile, some of whose runs cross its end, and columns for more than a block's strips; the
    # last has more parts than a wave has lanes
    for rows, top, count, n, blocks in (
        (1, 1, 1, 1, 1),
        (7, 3, 5, 13, 1),
        (25, 3, 4, 37, 2),
        (3, 2, 4, 3, 9 * 256 // FORMATS[name].elements),
    ):
        k, pairs, shared = blocks * FORMATS[name].elements, rows * top, 1 if weighted else top
        of_blocks, w = quantized(kernels, name, count * n, k)
        x = floats("f32", (pairs if weighted else rows, k), rows)
        experts = np.random.default_rng(k).integers(0, count, pairs).astype(np.uint32)
        weights = weights_of(pairs) if weighted else None
        failed = no_failure(kernels)
        of = on_device(kernels, *sorted_pairs(experts), shared, weights, failed)
        got = quantized_pairs(kernels, Tensor.from_numpy(kernels.device, x), of_blocks, count, of, tiled=tiled)
        assert failed.numpy() == [0]
        assert_products_of_bytes(got, x, w.reshape(count, n, k), experts, shared, weights)


@FORMS
def test_quantized_experts_that_do_not_exist(kernels: Kernels, *, tiled: bool) -> None:
    blocks, w = quantized(kernels, "q4_0", 3 * 5, 64)
    x = floats("f32", (4, 64), 1)
    for wrong, flag in ((NONE, 0), (3, 1)):
        failed = no_failure(kernels)
        experts = np.array([wrong, 2, 1, 0], np.uint32)
        nans = np.full(4, np.nan, np.float32)
        nans[1:] = 0.5
        of = on_device(kernels, np.arange(4, dtype=np.uint32), experts, 1, nans, failed)
        got = quantized_pairs(kernels, Tensor.from_numpy(kernels.device, x), blocks, 3, of, tiled=tiled)
        assert failed.numpy() == [flag]
        assert not got.numpy()[0].any()
        kept = replace(got, view=View((3, 5), (5, 1), 5))
        assert_products_of_bytes(kept, x[1:], w.reshape(3, 5, 64), experts[1:], 1, nans[1:])
    for wrong, flag in ((NONE, 0), (4, 1)):
        failed = no_failure(kernels)
        order = np.array([1, wrong, wrong, 2], np.uint32)
        experts = np.array([1, 1, 2, 2], np.uint32)
        of = on_device(kernels, order, experts, 1, None, failed)
        got = quantized_pairs(kernels, Tensor.from_numpy(kernels.device, x), blocks, 3, of, tiled=tiled)
        assert failed.numpy() == [flag]
        kept = replace(got, view=View((2, 5), (5, 1), 5))
        assert_products_of_bytes(kept, x[[1, 2]], w.reshape(3, 5, 64), experts[[1, 2]], 1)


@FORMS
@pytest.mark.parametrize("element", ["bf16", "f16", "f32"])
def test_rows_of_any_view_and_float(kernels: Kernels, element: str, *, tiled: bool) -> None:
    blocks, w = quantized(kernels, "q8_0", 3 * 5, 64)
    experts = np.array([2, 0, 1, 1, 2, 2], np.uint32)
    of = on_device(kernels, *sorted_pairs(experts), 2)
    x = floats(element, (64, 3), 1)
    turned = Tensor.from_numpy(kernels.device, x).transpose(1, 0)
    got = quantized_pairs(kernels, turned, blocks, 3, of, tiled=tiled)
    assert_products_of_bytes(got, x.T.astype(np.float32), w.reshape(3, 5, 64), experts, 2)


def test_many_pairs_of_an_expert_take_tiles(kernels: Kernels) -> None:
    blocks, _ = quantized(kernels, "q4_0", 2 * 3, 32)
    for pairs, op in ((7, "multiply_pairs"), (8, "multiply_pair_tiles")):
        of = on_device(kernels, *sorted_pairs(np.zeros(pairs, np.uint32)), 1)
        with launched(kernels) as symbols:
            quantized_pairs(kernels, Tensor.from_numpy(kernels.device, np.ones((pairs, 32), np.float32)), blocks, 2, of)
        assert f"{op}_f32_q4_0" in symbols


@FORMS
def test_launches_are_cut(kernels: Kernels, *, tiled: bool) -> None:
    blocks, w = quantized(kernels, "q5_0", 4 * 37, 96)
    x, experts = floats("f32", (50, 96), 1), np.random.default_rng(3).integers(0, 4, 50).astype(np.uint32)
    of = on_device(kernels, *sorted_pairs(experts), 1)
    kernels.limits = {"elements": 8, "blocks": 1, "blocks_y": 1}
    try:
        got = quantized_pairs(kernels, Tensor.from_numpy(kernels.device, x), blocks, 4, of, tiled=tiled)
        assert_products_of_bytes(got, x, w.reshape(4, 37, 96), experts, 1)
    finally:
        kernels.limits = {}


def test_nothing_to_multiply(kernels: Kernels) -> None:
    blocks, _ = quantized(kernels, "q4_0", 4, 32)
    of = on_device(kernels, *sorted_pairs(np.zeros(0, np.uint32)), 3)
    x = Tensor.from_numpy(kernels.device, np.zeros((0, 32), np.float32))
    assert quantized_pairs(kernels, x, blocks, 2, of).shape == (0, 2)


def test_what_does_not_fit_is_refused(kernels: Kernels) -> None:
    of = on_device(kernels, *sorted_pairs(np.zeros(2, np.uint32)), 1)
    x = Tensor.from_numpy(kernels.device, np.zeros((2, 32), np.float32))
    blocks, _ = quantized(kernels, "q4_0", 6, 64)
    with pytest.raises(PlanRefused, match="rows of 32 elements cannot be multiplied with rows of 64"):
        quantized_pairs(kernels, x, blocks, 3, of)
    blocks, _ = quantized(kernels, "q4_0", 6, 32)
    with pytest.raises(PlanRefused, match="2 pairs of 2 rows, each of which has 2"):
        quantized_pairs(kernels, x, blocks, 3, replace(of, shared=2))
