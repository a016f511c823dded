"""Images unfolded into the rows of a matrix, and such rows added up again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codegen.device.tensor import Tensor
from codegen.kernels.layout import View

if TYPE_CHECKING:
    from codegen.device.kernels import Kernels


def im2col(
    kernels: Kernels, x: Tensor, kernel: tuple[int, int], *, stride: int = 1, padding: int = 0, dilation: int = 1
) -> Tensor:
    """(b, c, h, w) to (b, h_out, w_out, c * kernel[0] * kernel[1]): the window of each pixel of a convolution."""
    rows, columns = (
        _results(size, taps, stride=stride, padding=padding, dilation=dilation)
        for size, taps in zip(x.shape[2:], kernel, strict=True)
    )
    y = Tensor.empty(x.device, (x.shape[0], rows, columns, x.shape[1] * kernel[0] * kernel[1]), x.dtype)
    if y.view.count:
        window = {"kernel": kernel, "padding": (padding, padding), "stride": stride, "dilation": dilation}
        kernels.run("im2col", x=x, y=y, **window)
    return y


def im2col1d(
    kernels: Kernels, x: Tensor, kernel: int, *, stride: int = 1, padding: int = 0, dilation: int = 1
) -> Tensor:
    """(b, c, l) to (b, l_out, c * kernel): the window of each element of a convolution."""
    columns = _results(x.shape[2], kernel, stride=stride, padding=padding, dilation=dilation)
    y = Tensor.empty(x.device, (x.shape[0], columns, x.shape[1] * kernel), x.dtype)
    if y.view.count:
        window = {"kernel": (1, kernel), "padding": (0, padding), "stride": stride, "dilation": dilation}
        kernels.run("im2col", x=x, y=y, **window)
    return y


def _results(size: int, taps: int, *, stride: int, padding: int, dilation: int) -> int:
    span = size + 2 * padding - dilation * (taps - 1)
    if span < 1:
        raise ValueError(f"a kernel of {taps} does not fit into {size} pixels")
    return (span - 1) // stride + 1


def col2im1d(kernels: Kernels, x: Tensor, *, stride: int = 1) -> Tensor:
    """(b, l, c, k) to (b, c, (l - 1) * stride + k): windows that begin `stride` apart, added up. `x` is contiguous."""
    if not x.view.is_contiguous:
        raise ValueError("col2im1d takes a contiguous tensor")
    batch, length, channels, kernel = x.shape
    y = Tensor.empty(x.device, (batch, channels, (length - 1) * stride + kernel), x.dtype)
    pixel = channels * kernel
    windows = View((batch, channels, length, kernel), (length * pixel, kernel, pixel, 1), x.view.offset)
    kernels.run("col2im1d", x=Tensor(x.device, x.buffer, x.dtype, windows), stride=stride, y=y)
    return y
