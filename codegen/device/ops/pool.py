"""Pooling: one number for each window of an image."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codegen.device.tensor import Tensor

if TYPE_CHECKING:
    from codegen.device.kernels import Kernels


def avg_pool2d(kernels: Kernels, x: Tensor, kernel: tuple[int, int], stride: tuple[int, int]) -> Tensor:
    """(b, c, h, w) to (b, c, (h - kernel[0]) // stride[0] + 1, (w - kernel[1]) // stride[1] + 1): windows' means."""
    return _pool(kernels, "avg_pool2d", x, kernel, stride)


def max_pool2d(kernels: Kernels, x: Tensor, kernel: tuple[int, int], stride: tuple[int, int]) -> Tensor:
    """(b, c, h, w) to (b, c, (h - kernel[0]) // stride[0] + 1, (w - kernel[1]) // stride[1] + 1): windows' maxima."""
    return _pool(kernels, "max_pool2d", x, kernel, stride)


def _pool(kernels: Kernels, op: str, x: Tensor, window: tuple[int, int], stride: tuple[int, int]) -> Tensor:
    batch, channels, height, width = x.shape
    if height < window[0] or width < window[1]:
        raise ValueError(f"a window of {window} does not fit into an image of {height} by {width}")
    rows, columns = (height - window[0]) // stride[0] + 1, (width - window[1]) // stride[1] + 1
    y = Tensor.empty(x.device, (batch, channels, rows, columns), x.dtype)
    kernels.run("pool", op=op, x=x, window=window, stride=stride, y=y)
    return y
