"""Elementwise functions of one tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codegen.device.ops.elementwise import made

if TYPE_CHECKING:
    from codegen.device.kernels import Kernels
    from codegen.device.tensor import Tensor


def unary(kernels: Kernels, op: str, x: Tensor) -> Tensor:
    """`op` of every element; the result is contiguous and of the same type."""
    return made(kernels, "unary", x.shape, x.dtype, op=op, x=x)
