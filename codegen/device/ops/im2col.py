"""Images unfolded into the rows of a matrix, and such rows added up again."""

from __future__ import annotations

import itertools
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codegen.device.hip import Launch
from codegen.device.kernels import MAX_GRID, pointer, u32
from codegen.device.ops.planes import MAX_GRID_Y, Canvas, divisor, image_view, pack_planes, plan_planes
from codegen.device.ops.rows import power_of_two_from
from codegen.device.tensor import Tensor
from codegen.kernels.dtypes import moved_as
from codegen.kernels.layout import View

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codegen.device.kernels import Kernels

LDS_BANKS_BYTES = 128
"""What all banks of LDS deliver at once."""


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
class Tile:
    """What a block of `im2col` unfolds: pixels of one row of the result, for some taps of some rows of kernels."""

    pixels: int
    rows: int
    taps: int
    spans: bool
    """Whether LDS has whole spans of the image, not one element for each tap and pixel."""
    length: int
    """Elements of a row in LDS."""
    pitch: int
    """Between rows in LDS."""

    @classmethod
    def of(cls, window: Window, columns: int, kernel_rows: int, numbers: dict[str, int], size: int) -> Tile:
        """The tile for elements of `size` bytes that fits into `tile_bytes` of LDS."""
        room = numbers["tile_bytes"] // size
        taps = window.kernel[1]
        beyond = max(numbers["span_bytes"] // size - (taps - 1) * window.dilation - 1, 0)
        tiles = -(-columns // max(beyond // window.stride + 1, numbers["tile_pixels"]))
        pixels = -(-columns // tiles)
        while cls._length(window, pixels, taps)[0] > room and pixels > 1:
            pixels //= 2
        if cls._length(window, pixels, taps)[0] > room:
            taps = room
        length, spans = cls._length(window, pixels, taps)
        # Lanes that go on from one row to the next find it in the banks that follow.
        pitch = length + (taps * (window.dilation if spans else 1) - length) % (LDS_BANKS_BYTES // size)
        rows = cls._rows(room // pitch, kernel_rows, numbers["pack_bytes"] // size) if taps == window.kernel[1] else 1
        return cls(pixels, rows, taps, spans, length, pitch)

    @staticmethod
    def _rows(most: int, kernel_rows: int, lanes: int) -> int:
        """All rows of kernels if there is room for them, else whole packs of columns."""
        return kernel_rows if kernel_rows <= most else max(most // lanes * lanes, min(most, lanes), 1)

    @staticmethod
    def _length(window: Window, pixels: int, taps: int) -> tuple[int, bool]:
        span = (pixels - 1) * window.stride + (taps - 1) * window.dilation + 1
        return min(span, pixels * taps), span <= pixels * taps

    def lds(self, size: int) -> int:
        """Bytes of LDS."""
        return ((self.rows - 1) * self.pitch + self.length) * size


def im2col(
    kernels: Kernels, x: Tensor, kernel: tuple[int, int], *, stride: int = 1, padding: int = 0, dilation: int = 1
) -> Tensor:
    """(b, c, h, w) to (b, h_out, w_out, c * kernel[0] * kernel[1]): the window of each pixel of a convolution."""
    window = Window(kernel, (padding, padding), stride, dilation)
    rows, columns = window.results(x.shape[2:])  # type: ignore[arg-type] # a shape of four dimensions ends in two
    return _unfold(kernels, x, window, (rows, columns), (x.shape[0], rows, columns))


def im2col1d(
    kernels: Kernels, x: Tensor, kernel: int, *, stride: int = 1, padding: int = 0, dilation: int = 1
) -> Tensor:
    """(b, c, l) to (b, l_out, c * kernel): the window of each element of a convolution."""
    window = Window((1, kernel), (0, padding), stride, dilation)
    rows, columns = window.results((1, x.shape[2]))
    return _unfold(kernels, x, window, (rows, columns), (x.shape[0], columns))


def col2im1d(kernels: Kernels, x: Tensor, *, stride: int = 1) -> Tensor:
    """(b, l, c, k) to (b, c, (l - 1) * stride + k): windows that begin `stride` apart, added up. `x` is contiguous."""
    if not x.view.is_contiguous:
        raise ValueError("col2im1d takes a contiguous tensor")
    batch, length, channels, kernel = x.shape
    columns = (length - 1) * stride + kernel
    y = Tensor.empty(x.device, (batch, channels, columns), x.dtype)
    pixel = channels * kernel
    windows = View((batch, channels, length, kernel), (length * pixel, kernel, pixel, 1), x.view.offset)
    folded = Tensor(x.device, x.buffer, x.dtype, windows)
    scalars = (divisor(stride), u32(kernel))
    numbers = kernels.numbers("im2col")
    symbol = f"col2im1d_{x.dtype}"
    kernels.launch("im2col", plan_planes(symbol, numbers, folded, y, Canvas(1, columns), scalars))
    return y


def _unfold(kernels: Kernels, x: Tensor, window: Window, results: tuple[int, int], pixels: tuple[int, ...]) -> Tensor:
    y = Tensor.empty(x.device, (*pixels, x.shape[1] * window.kernel[0] * window.kernel[1]), x.dtype)
    kernels.launch("im2col", plan_im2col(kernels.numbers("im2col"), x, y, window, results))
    return y


def plan_im2col(
    numbers: dict[str, int],
    x: Tensor,
    y: Tensor,
    window: Window,
    results: tuple[int, int],
    limit: int = MAX_GRID,
    limit_y: int = MAX_GRID_Y,
) -> Iterator[Launch]:
    """Launches of at most `limit` tiles of pixels and `limit_y` tiles of rows each; none for an empty result."""
    if y.view.count == 0:
        return
    images = image_view(x.view)
    batch, channels = images.shape[:2]
    kernel_rows = channels * window.kernel[0]
    tile = Tile.of(window, results[1], kernel_rows, numbers, x.dtype.size)
    tiles = results[0] * -(-results[1] // tile.pixels)
    parts = -(-window.kernel[1] // tile.taps)
    at_once = max(limit // tiles, 1)
    for first in range(0, batch, at_once):
        number = min(at_once, batch - first)
        read = x.address + first * images.strides[0] * x.dtype.size
        written = y.address + first * (y.view.count // batch) * y.dtype.size
        view = View((number, *images.shape[1:]), images.strides)
        for first_tile, first_row in itertools.product(
            range(0, number * tiles, limit), range(0, kernel_rows, tile.rows * limit_y)
        ):
            columns = min(limit, number * tiles - first_tile)
            rows = min(-(-(kernel_rows - first_row) // tile.rows), limit_y)
            yield Launch(
                f"im2col_{moved_as(x.dtype)}",
                (columns, rows, parts),
                (numbers["block"], 1, 1),
                (
                    pointer(written),
                    pointer(read),
                    pack_planes(view),
                    struct.pack("<4I", window.stride, window.dilation, *window.padding),
                    _pack_unfolding(window, tile, results, kernel_rows, (first_tile, first_row), x.device.wave_size),
                ),
                tile.lds(x.dtype.size),
            )


def _pack_unfolding(
    window: Window, tile: Tile, results: tuple[int, int], kernel_rows: int, first: tuple[int, int], wave_size: int
) -> bytes:
    """The bytes of `candle::Unfolding`; `first` are the launch's first tile of pixels and row of kernels."""
    if tile.spans:
        segment, steps = tile.length, (0, 1, window.dilation, window.stride)
    else:
        segment, steps = tile.taps, (window.stride, window.dilation, 1, tile.taps)
    return b"".join(
        (
            divisor(-(-results[1] // tile.pixels)),
            divisor(results[0]),
            struct.pack("<3I", *first, results[1]),
            divisor(window.kernel[0]),
            struct.pack("<4I", kernel_rows, window.kernel[1], tile.pixels, tile.rows),
            divisor(tile.taps),
            u32(tile.length),
            divisor(segment),
            struct.pack("<6I", *steps, tile.pitch, min(power_of_two_from(tile.length), wave_size)),
        )
    )
