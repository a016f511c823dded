"""Unary kernels against numpy, at extended precision where results are not exact."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest
from some import some

from codegen.device.ops.unary import unary
from codegen.device.tensor import Tensor, numpy_type
from codegen.kernels.dtypes import DTYPES, Kind, dtype, expand
from codegen.kernels.loader import load_families
from kernels.cases import VIEWS
from kernels.compare import assert_ulps, assert_within, epsilon
from kernels.elementwise import ROWS, as_stored, inputs, widened

if TYPE_CHECKING:
    from collections.abc import Callable

    from codegen.device.kernels import Kernels
    from codegen.kernels.dtypes import DType
    from kernels.cases import ViewCase

    Function = Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]

Array = np.ndarray[Any, Any]

FAMILY = next(loaded.family for loaded in load_families() if loaded.name == "unary")


def _each(function: Callable[[float], float]) -> Function:
    return np.vectorize(function, otypes=[np.float64])


def _zero(x: Array) -> Array:
    return 0 * x


def _unchanged(x: Array) -> Array:
    return x


def _tanh_gelu(x: Array) -> Array:
    u = np.sqrt(2 / np.longdouble(np.pi)) * x * (1 + np.longdouble("0.044715") * x * x)
    result: Array = x / (1 + np.exp(-2 * u))
    return result


EXACT: dict[str, Function] = {
    "neg": np.negative,
    "recip": np.reciprocal,
    "sqr": np.square,
    "sqrt": np.sqrt,
    "relu": lambda x: np.where(x > 0, x, 0),
    "abs": np.abs,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": lambda x: np.copysign(np.floor(np.abs(x.astype(np.longdouble)) + 0.5), x),
    "sign": lambda x: np.where(x > 0, 1, 0) - np.where(x < 0, 1, 0),
}
"""Of values in the wide type; a result is this, rounded to the element type."""

NEAR: dict[str, Function] = {
    "exp": np.exp,
    "log": np.log,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "erf": _each(math.erf),
}
"""Of values at extended precision; a result is a few units away."""

VANISHING: dict[str, tuple[Function, Function]] = {
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), np.zeros_like),
    "silu": (lambda x: x / (1 + np.exp(-x)), np.zeros_like),
    "gelu": (_tanh_gelu, lambda x: np.abs(x) ** 3 + 4 * np.abs(x)),
    "gelu_erf": (lambda x: x * _each(lambda v: 0.5 * math.erfc(-v / math.sqrt(2)))(x), lambda x: 2 * x * x),
}
"""Functions that vanish far below zero, and how many units more than elsewhere their results may be off there."""

INTEGERS: dict[str, Function] = {
    "relu": lambda x: np.where(x > 0, x, 0),
    "abs": np.abs,
    "sign": np.sign,
    **dict.fromkeys(("floor", "ceil", "round"), _unchanged),
    **dict.fromkeys(("silu", "gelu", "gelu_erf", "erf"), _zero),
}


def ulps(op: str) -> int:
    """What the spec promises."""
    entry = next(entry for entry in FAMILY.ops if entry.name == op)
    return (entry.contract or FAMILY.contract).ulps


def check(op: str, element: DType, result: Tensor, array: Array) -> None:
    """Fails if a result is further from the truth than the spec promises."""
    with np.errstate(all="ignore"):
        if element.kind is not Kind.FLOAT:
            assert_ulps(result, INTEGERS[op](array), 0)
        elif op == "relu" and element.name == "f8e4m3":
            assert_ulps(result, np.where(array < 0, array.dtype.type(0), array), 0)
        elif op in EXACT:
            assert_ulps(result, as_stored(EXACT[op](widened(array, element)), element), ulps(op))
        elif op in NEAR:
            assert_ulps(result, as_stored(NEAR[op](array.astype(np.longdouble)), element), ulps(op))
        else:
            function, growth = VANISHING[op]
            x = array.astype(np.longdouble)
            exact = function(x)
            assert_within(result.numpy(), exact, _bound(op, element, x, exact, growth(np.minimum(x, 0))))


def _bound(op: str, element: DType, x: Array, exact: Array, growth: Array) -> Array:
    """Of |result - exact|: the promised units, half a unit for rounding, and what is lost where e^-x overflows."""
    wide, kind = numpy_type(dtype(element.wide)), numpy_type(element)
    limits = ml_dtypes.finfo(kind)  # type: ignore[no-untyped-call] # ml_dtypes has no types for it
    relative = (ulps(op) + growth) * epsilon(wide) + (epsilon(kind) / 2 if kind != wide else 0)
    lost = np.where(np.isinf(x), 0, 1 + np.abs(x)) * float(np.finfo(wide).tiny)  # nothing is lost at the limits
    bound: Array = np.abs(exact) * relative + lost + float(limits.smallest_subnormal)
    return bound


@pytest.mark.parametrize("op", [op.name for op in FAMILY.ops])
def test_every_kernel(kernels: Kernels, op: str) -> None:
    types = expand(next(entry for entry in FAMILY.ops if entry.name == op).types["dtype"])
    for element in some(types):
        values = inputs(element)
        x = Tensor.from_numpy(kernels.device, values, element)
        check(op, element, unary(kernels, op, x), values)
        rows = values[: len(values) // 13 * 13].reshape(-1, 13)
        turned = Tensor.from_numpy(kernels.device, rows, element).transpose(1, 0)
        check(op, element, unary(kernels, op, turned), rows.T)


@pytest.mark.parametrize("view", [*VIEWS, *ROWS], ids=lambda v: v.name)
def test_views(kernels: Kernels, view: ViewCase) -> None:
    for element in some(DTYPES):
        x, array = view.make(kernels.device, element)
        check("relu", element, unary(kernels, "relu", x), array)


def test_signs_of_zero(kernels: Kernels) -> None:
    zeros = np.array([0.0, -0.0], dtype=np.float32)
    x = Tensor.from_numpy(kernels.device, zeros)
    for op in ("neg", "sqrt", "floor", "ceil", "round", "tanh", "sin", "erf", "gelu", "silu"):
        assert np.signbit(unary(kernels, op, x).numpy()).tolist() == ([True, False] if op == "neg" else [False, True])
