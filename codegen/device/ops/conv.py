"""Convolutions by kernels that gather what they multiply; the 1-D forms are images and kernels of one row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codegen.device.tensor import Tensor

if TYPE_CHECKING:
    from codegen.device.kernels import Kernels


def conv2d(
    kernels: Kernels,
    x: Tensor,
    w: Tensor,
    *,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
    form: str | None = None,
    parts: int | None = None,
) -> Tensor:
    """(b, c_in, h, w) with a kernel (c_out, c_in, k_h, k_w) to (b, c_out, h_out, w_out).

    Where the kernel has fewer input channels, there are so many groups that each has its own; c_out is of all of them.
    `form` asks for conv2d, or for a kernel with tiles by its name without the type (conv2d_tiled_16), which takes each
    sum in so many `parts`; the sizes decide what is not given.
    """
    sizes = (size + 2 * padding - dilation * (k - 1) for size, k in zip(x.shape[2:], w.shape[2:], strict=True))
    results = [_results(span, stride) for span in sizes]
    y = Tensor.empty(x.device, (x.shape[0], w.shape[0], *results), x.dtype)
    if y.view.count:
        options = {"stride": stride, "padding": (padding, padding), "dilation": dilation, "form": form, "parts": parts}
        kernels.run("conv", x=x, w=w, y=y, **options)
    return y


def conv1d(
    kernels: Kernels,
    x: Tensor,
    w: Tensor,
    *,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
    form: str | None = None,
    parts: int | None = None,
) -> Tensor:
    """(b, c_in, l) with a kernel (c_out, c_in, k) to (b, c_out, l_out); `form` and `parts` as for conv2d."""
    length = _results(x.shape[2] + 2 * padding - dilation * (w.shape[2] - 1), stride)
    y = Tensor.empty(x.device, (x.shape[0], w.shape[0], length), x.dtype)
    if y.view.count:
        options = {"stride": stride, "padding": (0, padding), "dilation": dilation, "form": form, "parts": parts}
        kernels.run("conv", x=x, w=w, y=y, **options)
    return y


def _results(span: int, stride: int) -> int:
    if span < 1:
        raise ValueError("a kernel does not fit into an image")
    return (span - 1) // stride + 1


def conv_transpose2d(
    kernels: Kernels,
    x: Tensor,
    w: Tensor,
    *,
    stride: int = 1,
    padding: int = 0,
    output_padding: int = 0,
    dilation: int = 1,
    form: str | None = None,
    parts: int | None = None,
) -> Tensor:
    """(b, c_in, h, w) with a kernel (c_in, c_out, k_h, k_w) to (b, c_out, h_out, w_out).

    h_out is (h - 1) * stride + dilation * (k_h - 1) + output_padding + 1 - 2 * padding, and so is w_out. `form` and
    `parts` as for conv2d; a kernel with tiles computes the result in `stride` times `stride` launches.
    """
    results = [
        transposed_size(size, k, stride, padding, output_padding, dilation)
        for size, k in zip(x.shape[2:], w.shape[2:], strict=True)
    ]
    y = Tensor.empty(x.device, (x.shape[0], w.shape[1], *results), x.dtype)
    if y.view.count:
        paddings = {"padding": (padding, padding), "output_padding": (output_padding, output_padding)}
        choice = {"form": form, "parts": parts}
        kernels.run("conv_transpose", x=x, w=w, y=y, stride=stride, dilation=dilation, **paddings, **choice)
    return y


def conv_transpose1d(
    kernels: Kernels,
    x: Tensor,
    w: Tensor,
    *,
    stride: int = 1,
    padding: int = 0,
    output_padding: int = 0,
    dilation: int = 1,
    form: str | None = None,
    parts: int | None = None,
) -> Tensor:
    """(b, c_in, l) with a kernel (c_in, c_out, k) to (b, c_out, l_out), l_out and choices as for conv_transpose2d."""
    length = transposed_size(x.shape[2], w.shape[2], stride, padding, output_padding, dilation)
    y = Tensor.empty(x.device, (x.shape[0], w.shape[1], length), x.dtype)
    if y.view.count:
        paddings = {"padding": (0, padding), "output_padding": (0, output_padding)}
        choice = {"form": form, "parts": parts}
        kernels.run("conv_transpose", x=x, w=w, y=y, stride=stride, dilation=dilation, **paddings, **choice)
    return y


def transposed_size(size: int, kernel: int, stride: int, padding: int, output_padding: int, dilation: int) -> int:
    """Of a transposed convolution's result: `out_w` in candle-core/src/conv.rs. Raises ValueError if it is negative."""
    result = (size - 1) * stride + dilation * (kernel - 1) + output_padding + 1 - 2 * padding
    if result < 0:
        raise ValueError(f"a padding of {padding} leaves nothing of the result")
    return result
