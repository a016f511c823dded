"""Arithmetic of two tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codegen.device.ops.elementwise import made

if TYPE_CHECKING:
    from codegen.device.kernels import Kernels
    from codegen.device.tensor import Tensor


def binary(kernels: Kernels, op: str, a: Tensor, b: Tensor) -> Tensor:
    """`op` of the elements of two tensors of one shape and type, broadcast before; the result has that type."""
    return made(kernels, "binary", a.shape, a.dtype, op=op, lhs=a, rhs=b)
