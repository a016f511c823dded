"""Softmax along the last dimension."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codegen.device.ops.elementwise import made

if TYPE_CHECKING:
    from codegen.device.kernels import Kernels
    from codegen.device.tensor import Tensor


def softmax(kernels: Kernels, x: Tensor) -> Tensor:
    """exp(x) / sum(exp(x)) along the last dimension, contiguous and of x's shape.

    Raises ValueError if `x` is not contiguous, as the CPU backend does.
    """
    return made(kernels, "softmax", x.shape, x.dtype, x=x)
