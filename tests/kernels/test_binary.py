"""Arithmetic kernels against numpy, bit for bit."""

from __future__ import annotations

import itertools
import operator
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from some import some

from codegen.device.ops.binary import binary
from codegen.device.ops.unary import unary
from codegen.device.tensor import Tensor
from codegen.kernels.dtypes import DTYPES, Kind, dtype
from kernels.cases import VIEWS
from kernels.compare import assert_ulps
from kernels.elementwise import ROWS, as_stored, layouts, operands, widened

if TYPE_CHECKING:
    from collections.abc import Callable

    from codegen.device.kernels import Kernels
    from codegen.kernels.dtypes import DType
    from kernels.cases import ViewCase

Array = np.ndarray[Any, Any]


def quotient(a: int, b: int) -> int:
    """Towards zero; 0 by zero."""
    return 0 if b == 0 else (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1)


def minimum(a: Array, b: Array) -> Array:
    """Candle's: NaN in `a` stays, NaN in `b` is ignored."""
    return np.where(a > b, b, a)


def maximum(a: Array, b: Array) -> Array:
    """Candle's: NaN in `a` stays, NaN in `b` is ignored."""
    return np.where(a < b, b, a)


ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "minimum": minimum,
    "maximum": maximum,
}


def expected(op: str, element: DType, a: Array, b: Array) -> Array:
    """What Candle computes of two arrays of one shape."""
    with np.errstate(all="ignore"):
        if element.kind is Kind.FLOAT:
            return as_stored(ARITHMETIC[op](widened(a, element), widened(b, element)), element)
        if op != "div":
            return np.asarray(ARITHMETIC[op](a, b))
        bits = [quotient(int(p), int(q)) % (1 << 8 * element.size) for p, q in zip(a.flat, b.flat, strict=True)]
        return np.array(bits, dtype=np.uint64).astype(a.dtype).reshape(a.shape)


@pytest.mark.parametrize("op", ARITHMETIC)
@pytest.mark.parametrize("element", DTYPES, ids=str)
def test_every_kernel(kernels: Kernels, element: DType, op: str) -> None:
    a, b = operands(element)
    x, y = (Tensor.from_numpy(kernels.device, array, element) for array in (a, b))
    assert_ulps(binary(kernels, op, x, y), expected(op, element, a, b), 0)


@pytest.mark.parametrize("element", [dtype(name) for name in ("bf16", "f16", "f32", "f64")], ids=str)
def test_gated_units_are_products_with_silu(kernels: Kernels, element: DType) -> None:
    """Bit for bit, and not of the operands the other way round."""
    a, b = operands(element)
    x, y = (Tensor.from_numpy(kernels.device, array, element) for array in (a, b))
    gated = binary(kernels, "silu_mul", x, y)
    assert_ulps(gated, expected("mul", element, unary(kernels, "silu", x).numpy(), b), 0)
    assert not np.array_equal(gated.numpy(), binary(kernels, "silu_mul", y, x).numpy(), equal_nan=element.size > 2)


@pytest.mark.parametrize("view", [*VIEWS, *ROWS], ids=lambda v: v.name)
def test_views(kernels: Kernels, view: ViewCase) -> None:
    for element in some(DTYPES):
        (x, a), (y, b) = (view.make(kernels.device, element, seed) for seed in (1, 2))
        assert_ulps(binary(kernels, "sub", x, y), expected("sub", element, a, b), 0)


@pytest.mark.parametrize("shape", [(9, 64), (7, 37), (33, 16), (50, 3), (3, 1)], ids=lambda s: f"{s[0]}x{s[1]}")
@pytest.mark.parametrize("element", [dtype(name) for name in ("u8", "f16", "f32", "i64")], ids=str)
def test_broadcasting(kernels: Kernels, element: DType, shape: tuple[int, int]) -> None:
    one, other = (layouts(kernels.device, element, shape, seed) for seed in (1, 2))
    for (x, a), (y, b) in some(itertools.product(one, other)):
        assert_ulps(binary(kernels, "sub", x, y), expected("sub", element, a, b), 0)
