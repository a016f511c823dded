"""Comparison of two tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codegen.device.ops.elementwise import made
from codegen.kernels.dtypes import dtype

if TYPE_CHECKING:
    from codegen.device.kernels import Kernels
    from codegen.device.tensor import Tensor


def compare(kernels: Kernels, op: str, a: Tensor, b: Tensor) -> Tensor:
    """1 where `op` holds, else 0, as u8, for the elements of two tensors of one shape and type, broadcast before."""
    return made(kernels, "compare", a.shape, dtype("u8"), op=op, lhs=a, rhs=b)
