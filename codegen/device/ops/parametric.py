"""Elementwise functions of one tensor and of numbers that the launch gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from codegen.device.ops.elementwise import made
from codegen.device.tensor import numpy_type
from codegen.kernels.dtypes import Kind, dtype

if TYPE_CHECKING:
    from typing import Any

    from codegen.device.kernels import Kernels
    from codegen.device.tensor import Tensor
    from codegen.kernels.dtypes import DType


def affine(kernels: Kernels, x: Tensor, mul: float, add: float) -> Tensor:
    """x * mul + add; `mul` and `add` are rounded to x's type first, the product before the sum."""
    return _parametric(kernels, "affine", x, mul, add)


def powf(kernels: Kernels, x: Tensor, exponent: float) -> Tensor:
    """x to the power of `exponent`, which is rounded to x's type first."""
    return _parametric(kernels, "powf", x, exponent)


def elu(kernels: Kernels, x: Tensor, alpha: float) -> Tensor:
    """x where it is not below zero, else alpha * (e^x - 1); `alpha` is rounded to x's type first."""
    return _parametric(kernels, "elu", x, alpha)


def _parametric(kernels: Kernels, op: str, x: Tensor, *numbers: float) -> Tensor:
    wide = numpy_type(dtype(x.dtype.wide))
    scalars = [held(number, x.dtype).astype(wide).tobytes() for number in numbers]
    return made(kernels, "parametric", x.shape, x.dtype, op=op, x=x, numbers=scalars)


def held(number: float, element: DType) -> np.ndarray[Any, Any]:
    """The number as Candle's `WithDType::from_f64` holds it: integers and f8e4m3 saturate, NaN is 0 as an integer."""
    kind = numpy_type(element)
    if element.kind is Kind.INTEGER:
        ends = np.iinfo(kind)
        whole = 0 if np.isnan(number) else int(np.clip(np.trunc(number), float(ends.min), float(ends.max)))
        return np.array(min(max(whole, int(ends.min)), int(ends.max)), dtype=kind)
    if element.name == "f8e4m3" and not np.isnan(number):
        number = float(np.clip(number, -448.0, 448.0))
    with np.errstate(over="ignore"):
        return np.array(number, dtype=np.float64).astype(kind)
