"""Launches of kernels built on `candle_rocm/planes.h`: threads keep their place in a plane and walk over planes."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codegen.device.hip import Launch
from codegen.device.kernels import pointer
from codegen.kernels.layout import MAX_COUNT, Divisor, View

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codegen.device.tensor import Tensor

MAX_GRID_Y = 65535
"""Blocks that HIP takes in the second and third dimension of a grid."""


@dataclass(frozen=True, slots=True)
class Canvas:
    """The pixels of each plane of a result, `lanes` neighbours of a row to a thread."""

    height: int
    width: int
    lanes: int = 1

    @property
    def packs(self) -> int:
        """Threads for a row."""
        return self.width // self.lanes

    def pack(self, first_row: int, rows: int) -> bytes:
        """The bytes of `candle::Canvas`, for some of the rows."""
        return divisor(self.packs) + struct.pack("<5I", self.lanes, self.height, self.width, first_row, rows)


def image_view(view: View) -> View:
    """A view (batch, channels, length) as images of one row; one of four dimensions as it is."""
    if len(view.shape) == 4:
        return view
    (batch, channels, length), (outer, channel, column) = view.shape, view.strides
    return View((batch, channels, 1, length), (outer, channel, 0, column), view.offset)


def plane_reach(view: View) -> int:
    """Elements from the first of a plane to the farthest from it."""
    images = image_view(view)
    return sum((size - 1) * step for size, step in zip(images.shape[2:], images.strides[2:], strict=True))


def divisor(size: int) -> bytes:
    """The bytes of `candle::Divisor`."""
    made = Divisor.of(size)
    return struct.pack("<3I", made.size, made.magic, made.shift)


def pack_planes(view: View) -> bytes:
    """The bytes of `candle::Planes` for a view (batch, channels, height, width)."""
    batch, channels, height, width = view.shape
    return divisor(channels) + struct.pack("<3I4q", batch * channels, height, width, *view.strides)


def plan_planes(
    symbol: str,
    numbers: dict[str, int],
    x: Tensor,
    y: Tensor,
    canvas: Canvas,
    scalars: tuple[bytes, ...],
    limit: int = MAX_COUNT,
) -> Iterator[Launch]:
    """Launches of a kernel (y, x, planes, canvas, scalars...) over all of `y`, with fewer than 2^31 planes in each.

    `x` has three or four dimensions. A launch covers at most `limit` planes, and places of a plane.
    """
    if y.view.count == 0:
        return
    images = image_view(x.view)
    batch, channels = images.shape[:2]
    at_once = max(limit // channels, 1)
    rows_at_once = max(limit // canvas.packs, 1)
    for first in range(0, batch, at_once):
        number = min(at_once, batch - first)
        part = View((number, *images.shape[1:]), images.strides)
        read = x.address + first * images.strides[0] * x.dtype.size
        written = y.address + first * channels * canvas.height * canvas.width * y.dtype.size
        for first_row in range(0, canvas.height, rows_at_once):
            rows = min(rows_at_once, canvas.height - first_row)
            grid, block = _geometry(rows * canvas.packs, number * channels, numbers)
            arguments = (pointer(written), pointer(read), pack_planes(part), canvas.pack(first_row, rows), *scalars)
            yield Launch(symbol, grid, block, arguments)


def _geometry(places: int, planes: int, numbers: dict[str, int]) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """Grid and block: the block's second dimension goes over planes where a plane does not fill it.

    Places get their own threads; planes share them once the card is full.
    """
    across = min(1 << (places - 1).bit_length(), numbers["block"])
    down = min(numbers["block"] // across, planes)
    grid = -(-places // across)
    turns = min(-(-planes // down), max(numbers["blocks"] // grid, 1), MAX_GRID_Y)
    return (grid, turns, 1), (across, down, 1)
