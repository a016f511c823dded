"""Convolutions without a matrix product."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from math import gcd
from typing import TYPE_CHECKING

from codegen.device.hip import Launch
from codegen.device.kernels import pointer
from codegen.device.ops.planes import MAX_GRID_Y, divisor, image_view
from codegen.device.tensor import Tensor
from codegen.kernels.layout import MAX_COUNT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codegen.device.kernels import Kernels

TILED = frozenset({"bf16", "f16", "f32", "f64"})
"""Types that have the tiled form."""


@dataclass(frozen=True, slots=True)
class Window:
    """The windows that a convolution looks through; rows before columns where there are two numbers."""

    kernel: tuple[int, int]
    padding: tuple[int, int]
    stride: int
    dilation: int

    def results(self, sizes: tuple[int, int]) -> tuple[int, int]:
        """Height and width of the result for an image of these sizes. Raises ValueError if no window fits."""
        spans = [size + 2 * pad - self.dilation * (k - 1) for size, pad, k in self._dimensions(sizes)]
        if min(spans) < 1:
            raise ValueError(f"a kernel of {self.kernel} does not fit into an image of {sizes}")
        rows, columns = ((span - 1) // self.stride + 1 for span in spans)
        return rows, columns

    def _dimensions(self, sizes: tuple[int, int]) -> zip[tuple[int, int, int]]:
        return zip(sizes, self.padding, self.kernel, strict=True)


@dataclass(frozen=True, slots=True)
class Convolution:
    """One convolution or transposed convolution; the 1-D forms are images and kernels of one row."""

    x: Tensor
    w: Tensor
    y: Tensor
    window: Window
    results: tuple[int, int]
    """Height and width."""

    def pack(self, images: int) -> bytes:
        """The bytes of `candle::Convolution` for some of the images."""
        x, w = image_view(self.x.view), image_view(self.w.view)
        channels = (self.y.shape[1], x.shape[1])
        pixels = images * self.results[0] * self.results[1]
        return b"".join(
            (
                divisor(self.results[1]),
                divisor(self.results[0]),
                struct.pack("<5I", pixels, *channels, *x.shape[2:]),
                divisor(self.window.kernel[0]),
                divisor(self.window.kernel[1]),
                divisor(self.window.stride),
                struct.pack("<3I4x", self.window.dilation, *self.window.padding),
                struct.pack("<8q", *x.strides, *w.strides),
            )
        )


def conv2d(
    kernels: Kernels,
    x: Tensor,
    w: Tensor,
    *,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
    tiled: bool | None = None,
) -> Tensor:
    """(b, c_in, h, w) with a kernel (c_out, c_in, k_h, k_w) to (b, c_out, h_out, w_out).

    `tiled` asks for one of the two forms; if it is not given, the number of output channels decides.
    """
    window = Window((w.shape[2], w.shape[3]), (padding, padding), stride, dilation)
    return _convolve(kernels, x, w, window, tiled=tiled)


def conv1d(
    kernels: Kernels,
    x: Tensor,
    w: Tensor,
    *,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
    tiled: bool | None = None,
) -> Tensor:
    """(b, c_in, l) with a kernel (c_out, c_in, k) to (b, c_out, l_out); `tiled` as for conv2d."""
    return _convolve(kernels, x, w, Window((1, w.shape[2]), (0, padding), stride, dilation), tiled=tiled)


def conv_transpose2d(
    kernels: Kernels,
    x: Tensor,
    w: Tensor,
    *,
    stride: int = 1,
    padding: int = 0,
    output_padding: int = 0,
    dilation: int = 1,
) -> Tensor:
    """(b, c_in, h, w) with a kernel (c_in, c_out, k_h, k_w) to (b, c_out, h_out, w_out).

    h_out is (h - 1) * stride + dilation * (k_h - 1) + output_padding + 1 - 2 * padding, and so is w_out.
    """
    window = Window((w.shape[2], w.shape[3]), (padding, padding), stride, dilation)
    results = tuple(
        transposed_size(size, k, stride, padding, output_padding, dilation)
        for size, k in zip(x.shape[2:], window.kernel, strict=True)
    )
    return _convolve_transposed(kernels, x, w, window, (results[0], results[1]))


def conv_transpose1d(
    kernels: Kernels,
    x: Tensor,
    w: Tensor,
    *,
    stride: int = 1,
    padding: int = 0,
    output_padding: int = 0,
    dilation: int = 1,
) -> Tensor:
    """(b, c_in, l) with a kernel (c_in, c_out, k) to (b, c_out, l_out), l_out as for conv_transpose2d."""
    window = Window((1, w.shape[2]), (0, padding), stride, dilation)
    length = transposed_size(x.shape[2], w.shape[2], stride, padding, output_padding, dilation)
    return _convolve_transposed(kernels, x, w, window, (1, length))


def transposed_size(size: int, kernel: int, stride: int, padding: int, output_padding: int, dilation: int) -> int:
    """Of a transposed convolution's result: `out_w` in candle-core/src/conv.rs. Raises ValueError if it is negative."""
    result = (size - 1) * stride + dilation * (kernel - 1) + output_padding + 1 - 2 * padding
    if result < 0:
        raise ValueError(f"a padding of {padding} leaves nothing of the result")
    return result


def _convolve(kernels: Kernels, x: Tensor, w: Tensor, window: Window, *, tiled: bool | None) -> Tensor:
    sizes = image_view(x.view).shape[2:]
    results = window.results((sizes[0], sizes[1]))
    conv = Convolution(x, w, _result(x, w.shape[0], results), window, results)
    numbers = kernels.numbers("conv")
    if tiled is None:
        most = numbers["tile_channels"] * MAX_GRID_Y
        tiled = x.dtype.name in TILED and numbers["tiled_from_channels"] <= w.shape[0] <= most
    if tiled:
        grid = (numbers["tile_pixels"], numbers["tile_channels"])
        kernels.launch("conv", plan(f"conv2d_tiled_{x.dtype}", numbers, conv, grid, ()))
    else:
        grid = (numbers["block"], numbers["channels"])
        kernels.launch("conv", plan(f"conv2d_{x.dtype}", numbers, conv, grid, ()))
    return conv.y


def _convolve_transposed(kernels: Kernels, x: Tensor, w: Tensor, window: Window, results: tuple[int, int]) -> Tensor:
    conv = Convolution(x, w, _result(x, w.shape[1], results), window, results)
    numbers = kernels.numbers("conv")
    common = gcd(window.stride, window.dilation)
    steps = struct.pack("<3I", window.stride // common, window.dilation // common, window.dilation % window.stride)
    grid = (numbers["block"], numbers["channels"])
    kernels.launch("conv", plan(f"conv_transpose2d_{x.dtype}", numbers, conv, grid, (steps,)))
    return conv.y


def _result(x: Tensor, channels: int, results: tuple[int, int]) -> Tensor:
    return Tensor.empty(x.device, (x.shape[0], channels, *results[-(len(x.shape) - 2) :]), x.dtype)


def plan(
    symbol: str,
    numbers: dict[str, int],
    conv: Convolution,
    tile: tuple[int, int],
    scalars: tuple[bytes, ...],
    limit: int = MAX_COUNT,
) -> Iterator[Launch]:
    """Launches with at most `limit` pixels each, of whole images; `tile` is a block's pixels and channels.

    Raises ValueError for images whose result has 2^31 pixels or more.
    """
    if conv.y.view.count == 0:
        return
    pixels = conv.results[0] * conv.results[1]
    if pixels > MAX_COUNT:
        raise ValueError(f"a convolution's result has at most {MAX_COUNT} pixels, not {pixels}")
    batch, channels = conv.y.shape[:2]
    image = image_view(conv.x.view).strides[0] * conv.x.dtype.size
    at_once = max(limit // pixels, 1)
    for first in range(0, batch, at_once):
        images = min(at_once, batch - first)
        grid = (-(-images * pixels // tile[0]), min(-(-channels // tile[1]), MAX_GRID_Y), 1)
        addresses = (
            conv.y.address + first * channels * pixels * conv.y.dtype.size,
            conv.x.address + first * image,
            conv.w.address,
        )
        yield Launch(symbol, grid, (numbers["block"], 1, 1), (*map(pointer, addresses), conv.pack(images), *scalars))
