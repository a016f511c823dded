"""Rows multiplied with the experts chosen for them, against numpy in f64."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from codegen.device.ops.experts import experts_matmul
from codegen.device.planner import PlanRefused
from codegen.device.tensor import Tensor
from codegen.kernels.layout import View
from kernels.compare import assert_within, epsilon, smallest
from kernels.experts import NONE, floats, on_device, products, sorted_pairs, weights_of
from kernels.indexed import no_failure
from kernels.launched import launched

if TYPE_CHECKING:
    from codegen.device.kernels import Kernels

Array = np.ndarray[Any, Any]

FORMS = pytest.mark.parametrize("tiled", [False, True], ids=["rows", "tiles"])
TYPES = pytest.mark.parametrize("element", ["bf16", "f16", "f32"])


def assert_products(got: Tensor, x: Array, w: Array, experts: Array, shared: int, weights: Array | None = None) -> None:
    """Within an error of f32 for each term, and of the result's type."""
    exact, terms = products(x, w, experts, shared, weights)
    found = got.numpy()
    error = (x.shape[-1] + 2) * 2.0**-24 * terms + epsilon(found.dtype) * np.abs(exact) + smallest(found.dtype)
    assert_within(found, exact, error)


@FORMS
@TYPES
@pytest.mark.parametrize("weighted", [False, True], ids=["rows-shared", "weighted"])
def test_each_pair_meets_its_expert(kernels: Kernels, element: str, *, weighted: bool, tiled: bool) -> None:
    # (rows, pairs of each, experts, n, k): single elements, primes, packs, more than a tile, more experts than pairs,
    # more of a row than a wave takes at a time
    for rows, top, count, n, k in (
        (1, 1, 1, 1, 1),
        (3, 2, 4, 5, 7),
        (70, 3, 5, 67, 24),
        (2, 2, 37, 130, 19),
        (5, 1, 3, 9, 1088),
        (131, 1, 2, 3, 16),
    ):
        pairs, shared = rows * top, 1 if weighted else top
        x = floats(element, (pairs if weighted else rows, k), rows)
        w = floats(element, (count, n, k), n)
        experts = np.random.default_rng(k).integers(0, count, pairs).astype(np.uint32)
        weights = weights_of(pairs) if weighted else None
        failed = no_failure(kernels)
        of = on_device(kernels, *sorted_pairs(experts), shared, weights, failed)
        on = [Tensor.from_numpy(kernels.device, each) for each in (x, w)]
        got = experts_matmul(kernels, on[0], on[1], of, tiled=tiled)
        assert failed.numpy() == [0]
        assert_products(got, x, w, experts, shared, weights)


@FORMS
def test_the_list_may_have_any_order(kernels: Kernels, *, tiled: bool) -> None:
    x, w = floats("f32", (50, 20), 1), floats("f32", (3, 11, 20), 2)
    experts = np.random.default_rng(3).integers(0, 3, 100).astype(np.uint32)
    order = np.random.default_rng(4).permutation(100).astype(np.uint32)
    on = [Tensor.from_numpy(kernels.device, each) for each in (x, w)]
    for kind in (np.uint8, np.uint32, np.int64):
        of = on_device(kernels, order.astype(kind), experts[order].astype(kind), 2)
        assert_products(experts_matmul(kernels, on[0], on[1], of, tiled=tiled), x, w, experts, 2)


@FORMS
def test_rows_of_any_alignment(kernels: Kernels, *, tiled: bool) -> None:
    x, w = floats("f16", (6 * 16 + 1,), 1), floats("f16", (3 * 5 * 16 + 1,), 2)
    experts = np.array([2, 0, 1, 1, 2, 2], np.uint32)
    of = on_device(kernels, *sorted_pairs(experts), 1)
    for at in ((0, 0), (1, 0), (0, 1)):
        views = (View((6, 16), (16, 1), at[0]), View((3, 5, 16), (80, 16, 1), at[1]))
        on = [
            replace(Tensor.from_numpy(kernels.device, each), view=view)
            for each, view in zip((x, w), views, strict=True)
        ]
        values = x[at[0] :][: 6 * 16].reshape(6, 16), w[at[1] :][: 3 * 5 * 16].reshape(3, 5, 16)
        assert_products(experts_matmul(kernels, on[0], on[1], of, tiled=tiled), *values, experts, 1)


@FORMS
@pytest.mark.parametrize("weights", [None, np.full(4, np.nan, np.float32)], ids=["plain", "weighted"])
def test_experts_that_do_not_exist_give_zeros(kernels: Kernels, weights: Array | None, *, tiled: bool) -> None:
    x, w = floats("f32", (4, 20), 1), floats("f32", (3, 11, 20), 2)
    on = [Tensor.from_numpy(kernels.device, each) for each in (x, w)]
    for wrong, flag in ((NONE, 0), (3, 1), (NONE - 1, 1)):
        failed = no_failure(kernels)
        experts = np.array([wrong, 2, wrong, 0], np.uint32)
        of = on_device(kernels, np.arange(4, dtype=np.uint32), experts, 1, weights, failed)
        got = experts_matmul(kernels, on[0], on[1], of, tiled=tiled)
        assert failed.numpy() == [flag]
        assert not got.numpy()[[0, 2]].any()
        if weights is None:
            kept = replace(got, view=View((2, 11), (22, 1), 11))
            assert_products(kept, x[[1, 3]], w, experts[[1, 3]], 1)


@FORMS
def test_pairs_that_do_not_exist_are_left_out(kernels: Kernels, *, tiled: bool) -> None:
    x, w = floats("f32", (4, 20), 1), floats("f32", (3, 11, 20), 2)
    on = [Tensor.from_numpy(kernels.device, each) for each in (x, w)]
    experts = np.array([1, 1, 2, 2], np.uint32)
    for wrong, flag in ((NONE, 0), (4, 1), (NONE - 1, 1)):
        failed = no_failure(kernels)
        order = np.array([1, wrong, wrong, 2], np.uint32)
        got = experts_matmul(kernels, on[0], on[1], on_device(kernels, order, experts, 1, None, failed), tiled=tiled)
        assert failed.numpy() == [flag]
        kept = replace(got, view=View((2, 11), (11, 1), 11))
        assert_products(kept, x[[1, 2]], w, experts[[1, 2]], 1)


@FORMS
@pytest.mark.parametrize("strange", [np.nan, np.inf])
def test_what_is_not_finite_reaches_its_own_pairs(kernels: Kernels, strange: float, *, tiled: bool) -> None:
    x, w = floats("f32", (5, 20), 1), floats("f32", (3, 11, 20), 2)
    w[1, 10, 19] = x[4, 3] = strange
    experts = np.array([1, 0, 1, 2, 0], np.uint32)
    on = [Tensor.from_numpy(kernels.device, each) for each in (x, w)]
    got = experts_matmul(kernels, on[0], on[1], on_device(kernels, *sorted_pairs(experts), 1), tiled=tiled).numpy()
    finite = np.ones((5, 11), bool)
    finite[[0, 2], 10] = finite[4] = False
    assert (np.isfinite(got) == finite).all()


def test_many_pairs_of_an_expert_take_tiles(kernels: Kernels) -> None:
    x, w = floats("f32", (16, 8), 1), floats("f32", (2, 3, 8), 2)
    on = [Tensor.from_numpy(kernels.device, each) for each in (x, w)]
    for rows, symbol in ((15, "expert_rows_f32"), (16, "expert_tiles_f32")):
        experts = (np.arange(rows) % 2).astype(np.uint32)
        of = on_device(kernels, *sorted_pairs(experts), 1)
        some = replace(on[0], view=View((rows, 8), (8, 1)))
        with launched(kernels) as symbols:
            got = experts_matmul(kernels, some, on[1], of)
        assert symbols == {symbol}
        assert_products(got, x[:rows], w, experts, 1)


@FORMS
def test_launches_are_cut(kernels: Kernels, *, tiled: bool) -> None:
    x, w = floats("bf16", (150, 40), 1), floats("bf16", (4, 140, 40), 2)
    experts = np.random.default_rng(3).integers(0, 4, 150).astype(np.uint32)
    on = [Tensor.from_numpy(kernels.device, each) for each in (x, w)]
    kernels.limits = {"elements": 8, "blocks": 1, "blocks_y": 1}
    try:
        got = experts_matmul(kernels, on[0], on[1], on_device(kernels, *sorted_pairs(experts), 1), tiled=tiled)
        assert_products(got, x, w, experts, 1)
    finally:
        kernels.limits = {}


@FORMS
def test_nothing_to_multiply(kernels: Kernels, *, tiled: bool) -> None:
    of = on_device(kernels, *sorted_pairs(np.zeros(0, np.uint32)), 3)
    w = Tensor.from_numpy(kernels.device, floats("f32", (2, 3, 8), 1))
    x = Tensor.from_numpy(kernels.device, np.zeros((0, 8), np.float32))
    assert experts_matmul(kernels, x, w, of, tiled=tiled).shape == (0, 3)
    of = on_device(kernels, *sorted_pairs(np.zeros(2, np.uint32)), 1, weights_of(2))
    x, w = (Tensor.from_numpy(kernels.device, np.zeros(shape, np.float32)) for shape in ((2, 0), (1, 3, 0)))
    assert not experts_matmul(kernels, x, w, of, tiled=tiled).numpy().any()


def test_what_does_not_fit_is_refused(kernels: Kernels) -> None:
    x, w = (Tensor.from_numpy(kernels.device, np.zeros(shape, np.float32)) for shape in ((2, 8), (3, 5, 9)))
    of = on_device(kernels, *sorted_pairs(np.zeros(2, np.uint32)), 1)
    with pytest.raises(PlanRefused, match="rows of 8 elements cannot be multiplied with experts of 9"):
        experts_matmul(kernels, x, w, of)
    w = replace(w, view=View((3, 5, 8), (40, 8, 1)))
    with pytest.raises(PlanRefused, match="2 pairs of 2 rows, each of which has 2"):
        experts_matmul(kernels, x, w, replace(of, shared=2))
