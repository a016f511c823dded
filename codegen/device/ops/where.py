"""Elements of one tensor or another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codegen.device.ops.elementwise import elementwise
from codegen.kernels.dtypes import moved_as

if TYPE_CHECKING:
    from codegen.device.kernels import Kernels
    from codegen.device.tensor import Tensor


def where(kernels: Kernels, condition: Tensor, on_true: Tensor, on_false: Tensor) -> Tensor:
    """`on_true` where the condition is not 0, else `on_false`: a new contiguous tensor of their type.

    All three are of one shape; the condition is of an integer type. Candle's `where_cond`.
    """
    symbol = f"where_{moved_as(condition.dtype)}_{moved_as(on_true.dtype)}"
    return elementwise(kernels, "where", symbol, [condition, on_true, on_false], on_true.dtype)
