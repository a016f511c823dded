"""Copies of views: contiguous, by rows, element by element or through tiles in LDS, as their strides ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codegen.device.hip import Launch
from codegen.device.kernels import MAX_GRID, i64, pointer, u32
from codegen.device.ops.elementwise import Packs, lanes
from codegen.device.tensor import Tensor
from codegen.kernels.layout import Divisor, Layout, View, launches, merged
from codegen.kernels.tiles import Tiles
from codegen.kernels.widths import Widened, widened

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    if x.view.count == 0:
        return
    layout = merged([x.view, View.contiguous(x.shape)])
    copy = widened(layout, x.dtype.size, (x.start, y.start + offset * y.dtype.size))
    for first, piece in launches(copy.layout):
        family, launch = _launch(kernels, copy, first, piece)
        kernels.launch(family, [launch])


def _launch(kernels: Kernels, copy: Widened, first: int, piece: Layout) -> tuple[str, Launch]:
    """The family and the launch for a piece whose results begin at element `first` of y."""
    size = copy.width.size
    x, y = copy.addresses[0] + piece.offsets[0] * size, copy.addresses[1] + first * size
    numbers = kernels.numbers("permute")
    block, side = numbers["block"], numbers[f"pack_{copy.width}"]
    aligned = (x % (side * size) == 0, y % (side * size) == 0)
    tiles = Tiles.of(piece, block, side, numbers["least_use"], aligned)
    if tiles and tiles.count >= numbers["least_tiles"]:
        grid = (min(tiles.count, MAX_GRID), 1, 1)
        return "permute", Launch(f"permute_{copy.width}", grid, (block, 1, 1), (pointer(y), pointer(x), tiles.pack()))
    block = kernels.numbers("copy")["block"]
    source = Layout(piece.shape, piece.strides[:1], (0,))
    # A thread for each element works on more of the card than few tiles do.
    packs = Packs(0, 1) if tiles else Packs.of(source, lanes(copy.width, [copy.width]), [(y, size), (x, size)])
    arguments = (pointer(y), pointer(x), packs.pack(), source.pack())
    return "copy", Launch(f"copy_{copy.width}", (packs.blocks(source.count, block), 1, 1), (block, 1, 1), arguments)


def copy2d(kernels: Kernels, x: Tensor, y: Tensor) -> None:
    """Copies the rows of view x to those of view y, both of shape (rows, columns) and one type, without overlap.

    Elements of a row are neighbours; rows lie at any distance. The counterpart of Candle's `copy2d`.
    """
    if x.view.count == 0:
        return
    copy = widened(merged([x.view, y.view]), x.dtype.size, (x.start, y.start))
    kernels.launch("copy", _rows(kernels, copy))


def _rows(kernels: Kernels, copy: Widened) -> Iterator[Launch]:
    size = copy.width.size
    numbers = kernels.numbers("copy")
    block, batch = numbers["block"], max(2, min(8, numbers["in_flight"] // size))
    for _, piece in launches(copy.layout):
        columns, (x_stride, y_stride) = _matrix(piece)
        x, y = (a + offset * size for a, offset in zip(copy.addresses, piece.offsets, strict=True))
        yield Launch(
            f"copy2d_{copy.width}",
            (-(-piece.count // (batch * block)), 1, 1),
            (block, 1, 1),
            (pointer(y), pointer(x), u32(piece.count), Divisor.of(columns).pack(), i64(y_stride), i64(x_stride)),
        )


def _matrix(piece: Layout) -> tuple[int, tuple[int, ...]]:
    """Columns, and each view's distance between rows; merging has left no more than two dimensions."""
    if not piece.shape:
        return 1, (0,) * len(piece.strides)
    inner, *outer = zip(*piece.strides, strict=True)
    if outer:
        return piece.shape[0], outer[0]
    return (piece.shape[0], (0,) * len(inner)) if set(inner) == {1} else (1, inner)
