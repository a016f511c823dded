"""Sums, extremes and their indices over dimensions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codegen.device.ops.elementwise import made
from codegen.kernels.dtypes import dtype

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codegen.device.kernels import Kernels
    from codegen.device.tensor import Tensor


def reduce(kernels: Kernels, op: str, x: Tensor, dims: Sequence[int]) -> Tensor:
    """`sum`, `min`, `max`, `argmin` or `argmax` over dimensions, which keep a size of 1; indices are u32.

    Raises ValueError for a tensor without elements, and for all but sums over several dimensions.
    """
    shape = tuple(1 if d in dims else size for d, size in enumerate(x.shape))
    result = dtype("u32") if op.startswith("arg") else x.dtype
    return made(kernels, "reduce", shape, result, op=op, x=x, dims=list(dims))
