"""Elementwise operations: new contiguous tensors of the shape of their operands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codegen.device.tensor import Tensor

if TYPE_CHECKING:
    from codegen.device.kernels import Kernels
    from codegen.kernels.dtypes import DType


def made(kernels: Kernels, operation: str, shape: tuple[int, ...], result: DType, **operands: object) -> Tensor:
    """What an operation of the planner writes; `operands` are all but the result."""
    y = Tensor.empty(kernels.device, shape, result)
    kernels.run(operation, y=y, **operands)
    return y
