"""Matrix products by an own kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codegen.device.tensor import Tensor

if TYPE_CHECKING:
    from codegen.device.kernels import Kernels


def matmul(kernels: Kernels, left: Tensor, right: Tensor) -> Tensor:
    """(..., m, k) times (..., k, n) to (..., m, n), contiguous; the dimensions in front are the same in both.

    Raises ValueError for shapes that do not fit together.
    """
    *batch, rows, depth = left.shape
    columns = right.shape[-1]
    if right.shape != (*batch, depth, columns):
        raise ValueError(f"{left.shape} and {right.shape} have no product")
    y = Tensor.empty(left.device, (*batch, rows, columns), left.dtype)
    kernels.run("matmul", left=left, right=right, y=y)
    return y
