"""Copies of views: contiguous, by rows, element by element or through tiles in LDS, as their strides ask for."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from codegen.device.tensor import Tensor
from codegen.kernels.layout import View

if TYPE_CHECKING:
    from codegen.device.kernels import Kernels


def contiguous(kernels: Kernels, x: Tensor) -> Tensor:
    """A contiguous copy of a view, in row-major order."""
    y = Tensor.empty(kernels.device, x.shape, x.dtype)
    copy_into(kernels, x, y, 0)
    return y


def copy_into(kernels: Kernels, x: Tensor, y: Tensor, offset: int) -> None:
    """Writes a view's elements in row-major order to y's buffer, from its element `offset` on.

    The two are of one type and do not overlap. The counterpart of Candle's `copy_strided_src`.
    """
    y = replace(y, view=replace(View.contiguous(x.shape), offset=offset))
    kernels.run("contiguous", x=x, y=y)


def copy2d(kernels: Kernels, x: Tensor, y: Tensor) -> None:
    """Copies the rows of view x to those of view y, both of shape (rows, columns) and one type, without overlap.

    Elements of a row are neighbours; rows lie at any distance. The counterpart of Candle's `copy2d`.
    """
    kernels.run("copy2d", x=x, y=y)
