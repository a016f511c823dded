"""One element type to another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codegen.device.ops.copy import contiguous
from codegen.device.ops.elementwise import made

if TYPE_CHECKING:
    from codegen.device.kernels import Kernels
    from codegen.device.tensor import Tensor
    from codegen.kernels.dtypes import DType


def cast(kernels: Kernels, x: Tensor, to: DType) -> Tensor:
    """A new contiguous tensor of x's shape with its elements as type `to`. Candle's `to_dtype`."""
    if x.dtype == to:
        return contiguous(kernels, x)
    return made(kernels, "cast", x.shape, to, x=x)
