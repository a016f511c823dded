"""Pairs of rows and experts, and what their products are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from codegen.device.ops.experts import Pairs
from codegen.device.tensor import Tensor, numpy_type
from codegen.kernels.dtypes import dtype

if TYPE_CHECKING:
    from codegen.device.kernels import Kernels

Array = np.ndarray[Any, Any]

NONE = np.iinfo(np.uint32).max
"""An index that stands for no element."""


def sorted_pairs(experts: Array) -> tuple[Array, Array]:
    """The pairs' numbers in the order of their experts, and these experts."""
    order = np.argsort(experts, kind="stable").astype(np.uint32)
    return order, experts[order]


def on_device(
    kernels: Kernels,
    order: Array,
    experts: Array,
    shared: int,
    weights: Array | None = None,
    failed: Tensor | None = None,
) -> Pairs:
    """A list of pairs."""
    on = [Tensor.from_numpy(kernels.device, each) for each in (order, experts)]
    given = None if weights is None else Tensor.from_numpy(kernels.device, weights)
    return Pairs(on[0], on[1], given, shared, failed)


def weights_of(count: int) -> Array:
    """One for each pair, none of them 1."""
    made: Array = np.random.default_rng(count).uniform(0.1, 0.9, count).astype(np.float32)
    return made


def floats(element: str, shape: tuple[int, ...], seed: int) -> Array:
    """Random numbers of a type."""
    made: Array = np.random.default_rng(seed).normal(size=shape).astype(numpy_type(dtype(element)))
    return made


def products(x: Array, w: Array, experts: Array, shared: int, weights: Array | None) -> tuple[Array, Array]:
    """The result of each pair and the sum of its terms' magnitudes, in f64; experts are by the pairs' numbers."""
    rows, matrices = x.astype(np.float64)[np.arange(len(experts)) // shared], w.astype(np.float64)[experts]
    scale = np.ones(len(experts)) if weights is None else weights.astype(np.float64)
    exact = np.einsum("pk,pnk->pn", rows, matrices) * scale[:, None]
    terms = np.einsum("pk,pnk->pn", np.abs(rows), np.abs(matrices)) * scale[:, None]
    return exact, terms
