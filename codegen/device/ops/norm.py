"""Normalisations along the last dimension."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codegen.device.ops.elementwise import made

if TYPE_CHECKING:
    from codegen.device.kernels import Kernels
    from codegen.device.tensor import Tensor


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


def _norm(kernels: Kernels, op: str, x: Tensor, parameters: tuple[Tensor | None, ...], eps: float) -> Tensor:
    return made(kernels, "norm", x.shape, x.dtype, op=op, x=x, parameters=parameters, eps=eps)
