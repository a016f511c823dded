"""Normalisations along the last dimension."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codegen.device.ops.elementwise import made
from codegen.device.tensor import Tensor

if TYPE_CHECKING:
    from codegen.device.kernels import Kernels


def rms_norm(kernels: Kernels, x: Tensor, alpha: Tensor | None, eps: float) -> Tensor:
    """x / sqrt(mean(x^2) + eps) * alpha along the last dimension; `alpha` is (last,), of x's type, None for ones.

    Raises ValueError for tensors that are not contiguous.
    """
    return _norm(kernels, "rms_norm", x, (alpha,), eps)


def layer_norm(kernels: Kernels, x: Tensor, alpha: Tensor | None, beta: Tensor | None, eps: float) -> Tensor:
    """(x - mean(x)) / sqrt(var(x) + eps) * alpha + beta along the last dimension; var is the biased variance.

    `alpha` and `beta` are (last,), of x's type, None for ones and zeros. Raises ValueError for tensors that are not
    contiguous.
    """
    return _norm(kernels, "layer_norm", x, (alpha, beta), eps)


def add_rms_norm(kernels: Kernels, x: Tensor, other: Tensor, alpha: Tensor | None, eps: float) -> tuple[Tensor, Tensor]:
    """x + other, and `rms_norm` of it: bit for bit as two operations.

    Raises ValueError as `rms_norm`, and for rows that are no multiple of 16 bytes, do not lie at such a boundary, or do
    not fit into a block's registers.
    """
    total = Tensor.empty(kernels.device, x.shape, x.dtype)
    normed = made(kernels, "add_rms_norm", x.shape, x.dtype, x=x, other=other, alpha=alpha, eps=eps, sum=total)
    return total, normed


def _norm(kernels: Kernels, op: str, x: Tensor, parameters: tuple[Tensor | None, ...], eps: float) -> Tensor:
    return made(kernels, "norm", x.shape, x.dtype, op=op, x=x, parameters=parameters, eps=eps)
