"""Pooling: one number for each window of an image."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from codegen.device.kernels import f64
from codegen.device.ops.planes import Canvas, plan_planes
from codegen.device.tensor import Tensor

if TYPE_CHECKING:
    from codegen.device.kernels import Kernels


def avg_pool2d(kernels: Kernels, x: Tensor, kernel: tuple[int, int], stride: tuple[int, int]) -> Tensor:
    """(b, c, h, w) to (b, c, (h - kernel[0]) // stride[0] + 1, (w - kernel[1]) // stride[1] + 1): windows' means."""
    return _pool(kernels, "avg_pool2d", x, kernel, stride, (f64(1 / (kernel[0] * kernel[1])),))


def max_pool2d(kernels: Kernels, x: Tensor, kernel: tuple[int, int], stride: tuple[int, int]) -> Tensor:
    """(b, c, h, w) to (b, c, (h - kernel[0]) // stride[0] + 1, (w - kernel[1]) // stride[1] + 1): windows' maxima."""
    return _pool(kernels, "max_pool2d", x, kernel, stride, ())


def _pool(
    kernels: Kernels, op: str, x: Tensor, kernel: tuple[int, int], stride: tuple[int, int], scalars: tuple[bytes, ...]
) -> Tensor:
    batch, channels, height, width = x.shape
    if height < kernel[0] or width < kernel[1]:
        raise ValueError(f"a window of {kernel} does not fit into an image of {height} by {width}")
    rows, columns = (height - kernel[0]) // stride[0] + 1, (width - kernel[1]) // stride[1] + 1
    y = Tensor.empty(x.device, (batch, channels, rows, columns), x.dtype)
    window = struct.pack("<4I", *kernel, *stride)
    canvas = Canvas(rows, columns, _lanes(x, columns, kernel[1], stride[1]))
    numbers = kernels.numbers("pool")
    kernels.launch("pool", plan_planes(f"{op}_{x.dtype}", numbers, x, y, canvas, (window, *scalars)))
    return y


def _lanes(x: Tensor, columns: int, kernel: int, stride: int) -> int:
    """Neighbouring windows that a thread reads as 16 aligned bytes of each row; 1 if they cannot be read so."""
    lanes = 8 // x.dtype.size
    in_pairs = kernel == stride == 2 and x.view.strides[3] == 1 and columns % lanes == 0
    aligned = x.address % 16 == 0 and all(step * x.dtype.size % 16 == 0 for step in x.view.strides[:3])
    return lanes if in_pairs and aligned else 1
