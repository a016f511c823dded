"""Choosing between two tensors, for conditions and values of every width."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from some import some

from codegen.device.ops.where import where
from codegen.device.tensor import Tensor, numpy_type
from codegen.kernels.dtypes import DTYPES, dtype, expand
from kernels.cases import VIEWS, random_values
from kernels.compare import assert_moved
from kernels.launched import launched

if TYPE_CHECKING:
    from codegen.device.kernels import Kernels
    from codegen.kernels.dtypes import DType
    from kernels.cases import Array, ViewCase

CONDITIONS = tuple(dtype(name) for name in ("u8", "u32", "i16", "i32", "i64"))


def _condition(element: DType, shape: tuple[int, ...]) -> Array:
    """Zeros, ones, and numbers of which one bit is set, at any place."""
    random = np.random.default_rng(7)
    bits = np.left_shift(np.uint64(1), random.integers(0, 8 * element.size, shape, dtype=np.uint64))
    values = np.where(random.random(shape) < 0.5, np.uint64(0), bits)
    return values.astype(f"u{element.size}").view(numpy_type(element))


@pytest.mark.parametrize("element", DTYPES, ids=str)
def test_views(kernels: Kernels, element: DType) -> None:
    for view in some(VIEWS):
        _check(kernels, view, dtype("u8"), element)


@pytest.mark.parametrize("condition", CONDITIONS, ids=str)
def test_conditions(kernels: Kernels, condition: DType) -> None:
    with launched(kernels) as symbols:
        for element in (dtype(name) for name in ("u8", "f16", "f32", "f64")):
            for view in VIEWS[4:12]:
                _check(kernels, view, condition, element)
    width = f"b{8 * condition.size}"
    assert symbols == {f"where_{width}_{value}" for value in expand(("bits",))}


def test_scalars_and_masks(kernels: Kernels) -> None:
    """Attention's mask: one for all heads, a scalar where it is set, else the scores."""
    mask = _condition(dtype("u8"), (1, 6, 40))
    scores, lowest = random_values(dtype("f32"), (3, 6, 40)), np.array([-np.inf], np.float32)
    result = where(
        kernels,
        Tensor.from_numpy(kernels.device, mask).broadcast(3, 6, 40),
        Tensor.from_numpy(kernels.device, lowest).broadcast(3, 6, 40),
        Tensor.from_numpy(kernels.device, scores),
    )
    assert_moved(result, np.where(mask != 0, lowest, scores))


def _check(kernels: Kernels, view: ViewCase, condition: DType, element: DType) -> None:
    """The condition and one value by the view, the other value contiguous."""
    mask = _condition(condition, view.base)
    c = view.view(Tensor.from_numpy(kernels.device, mask, condition))
    on_true, true_values = view.make(kernels.device, element, seed=1)
    false_values = random_values(element, true_values.shape, seed=2)
    on_false = Tensor.from_numpy(kernels.device, false_values, element)
    chosen = view.array(mask) != 0
    assert_moved(where(kernels, c, on_true, on_false), np.where(chosen, true_values, false_values))
    assert_moved(where(kernels, c, on_false, on_true), np.where(chosen, false_values, true_values))
