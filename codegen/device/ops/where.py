"""Elements of one tensor or another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codegen.device.ops.elementwise import made

if TYPE_CHECKING:
    from codegen.device.kernels import Kernels
    from codegen.device.tensor import Tensor


def where(kernels: Kernels, condition: Tensor, on_true: Tensor, on_false: Tensor) -> Tensor:
    """`on_true` where the condition is not 0, else `on_false`: a new contiguous tensor of their type.

    All three are of one shape; the condition is of an integer type. Candle's `where_cond`.
    """
    operands = {"condition": condition, "on_true": on_true, "on_false": on_false}
    return made(kernels, "select", on_true.shape, on_true.dtype, **operands)
