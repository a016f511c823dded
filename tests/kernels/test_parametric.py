"""Affine, powf and elu kernels against numpy."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from some import some

from codegen.device.ops.parametric import affine, elu, powf
from codegen.device.tensor import Tensor
from codegen.kernels.dtypes import DTYPES, Kind, dtype, expand
from kernels.cases import VIEWS
from kernels.compare import assert_ulps
from kernels.elementwise import ROWS, as_stored, inputs, widened

if TYPE_CHECKING:
    from codegen.device.kernels import Kernels
    from codegen.kernels.dtypes import DType
    from kernels.cases import ViewCase

Array = np.ndarray[Any, Any]

FLOATS = expand(("float",))


def held(number: float, element: DType) -> Any:
    """A number as Candle's `from_f64` holds it."""
    if element.kind is Kind.FLOAT:
        return as_stored(np.array([number], dtype=np.float64), element)[0]
    ends = np.iinfo(element.name.replace("u", "uint") if element.name[0] == "u" else element.name.replace("i", "int"))
    if math.isnan(number):
        return 0
    return min(max(math.trunc(min(max(number, -1e30), 1e30)), int(ends.min)), int(ends.max))


def scaled(element: DType, x: Array, mul: float, add: float) -> Array:
    """x * mul + add, rounded to the type after each step."""
    m, a = held(mul, element), held(add, element)
    with np.errstate(all="ignore"):
        if element.kind is Kind.FLOAT:
            wide = widened(np.array([m, a], dtype=x.dtype), element)
            product = as_stored(widened(x, element) * wide[0], element)
            return as_stored(widened(product, element) + wide[1], element)
        bits = [(int(v) * m + a) % (1 << 8 * element.size) for v in x.flat]
        return np.array(bits, dtype=np.uint64).astype(x.dtype).reshape(x.shape)


@pytest.mark.parametrize("element", DTYPES, ids=str)
def test_affine(kernels: Kernels, element: DType) -> None:
    values = inputs(element)
    x = Tensor.from_numpy(kernels.device, values, element)
    for mul, add in [(1.0, 0.0), (1.5, -0.25), (-0.1, 3.0), (7.9, 300.0), (-1e300, 1e300), (math.nan, 2.0), (2.0, 1e9)]:
        assert_ulps(affine(kernels, x, mul, add), scaled(element, values, mul, add), 0)


@pytest.mark.parametrize("view", [*VIEWS, *ROWS], ids=lambda v: v.name)
def test_views(kernels: Kernels, view: ViewCase) -> None:
    for element in some(DTYPES):
        x, array = view.make(kernels.device, element)
        assert_ulps(affine(kernels, x, 3.0, -1.0), scaled(element, array, 3.0, -1.0), 0)


@pytest.mark.parametrize("exponent", [0.0, 1.0, 2.0, 3.0, 4.0, -1.0, 0.5, 1.7, -2.5, math.inf, math.nan], ids=str)
def test_powf(kernels: Kernels, exponent: float) -> None:
    for element in some(FLOATS):
        values = inputs(element)
        x = Tensor.from_numpy(kernels.device, values, element)
        with np.errstate(all="ignore"):
            power = np.power(values.astype(np.longdouble), np.longdouble(held(exponent, element)))
        assert_ulps(powf(kernels, x, exponent), as_stored(power, element), 2)


@pytest.mark.parametrize("alpha", [1.0, 0.3, -2.0])
def test_elu(kernels: Kernels, alpha: float) -> None:
    for element in some(FLOATS):
        values = inputs(element)
        x, wide = Tensor.from_numpy(kernels.device, values, element), values.astype(np.longdouble)
        with np.errstate(all="ignore"):
            exact = np.where(wide >= 0, wide, np.longdouble(held(alpha, element)) * np.expm1(wide))
        assert_ulps(elu(kernels, x, alpha), as_stored(exact, element), 4)


def test_elu_keeps_what_cancels(kernels: Kernels) -> None:
    x = Tensor.from_numpy(kernels.device, np.array([-1e-3, -1e-6], dtype=np.float32))
    assert_ulps(elu(kernels, x, 1.0), np.expm1(np.array([-1e-3, -1e-6])), 2)


def test_a_product_is_rounded_before_the_sum(kernels: Kernels) -> None:
    x = np.float32(1 + 2**-12)
    tensor = Tensor.from_numpy(kernels.device, np.array([x], dtype=np.float32))
    assert affine(kernels, tensor, float(x), -float(x * x)).numpy().tolist() == [0.0]
    narrow = Tensor.from_numpy(kernels.device, np.array([1 + 2**-6]), dtype("bf16"))
    assert affine(kernels, narrow, 1 + 2**-6, -(1 + 2**-5)).numpy().astype(float).tolist() == [0.0]
