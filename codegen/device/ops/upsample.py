"""Images brought to another size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codegen.device.ops.copy import contiguous
from codegen.device.ops.elementwise import made

if TYPE_CHECKING:
    from codegen.device.kernels import Kernels
    from codegen.device.tensor import Tensor


def upsample_nearest1d(kernels: Kernels, x: Tensor, length: int) -> Tensor:
    """(b, c, l) to (b, c, length), each element that of x at floor(i * l / length)."""
    return made(kernels, "upsample_nearest", (*x.shape[:2], length), x.dtype, x=x)


def upsample_nearest2d(kernels: Kernels, x: Tensor, height: int, width: int) -> Tensor:
    """(b, c, h, w) to (b, c, height, width), each element that of x at floor(i * h / height), floor(j * w / width)."""
    return made(kernels, "upsample_nearest", (*x.shape[:2], height, width), x.dtype, x=x)


def upsample_bilinear2d(
    kernels: Kernels,
    x: Tensor,
    height: int,
    width: int,
    *,
    align_corners: bool = False,
    scale_factors: tuple[float | None, float | None] = (None, None),
) -> Tensor:
    """(b, c, h, w) to (b, c, height, width), interpolated.

    Either the corner pixels of x and the result coincide (`align_corners`), or their outer edges do. In the second
    case a scale factor, of rows and of columns, stands for the ratio of the sizes.
    """
    if x.shape[2:] == (height, width):
        return contiguous(kernels, x)  # interpolating would spread infinities
    factors = None if align_corners else scale_factors
    return made(kernels, "upsample_bilinear", (*x.shape[:2], height, width), x.dtype, x=x, factors=factors)
