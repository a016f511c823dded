"""Elements added to those that indices name, in place.

An index that is the largest number of its type stands for no element and adds nothing. So does an index out of range,
which also sets `failed` (one u32) if it is given.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from codegen.device.hip import Launch
from codegen.device.kernels import MAX_GRID, pointer
from codegen.device.ops.ids import Indices, Space, column_launches, require_contiguous, targets, update_launches
from codegen.kernels.dtypes import dtype
from codegen.kernels.layout import View

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codegen.device.kernels import Kernels
    from codegen.device.tensor import Tensor
    from codegen.kernels.dtypes import DType

FAMILY = "scatter_add"

MAX_WIDTH = 32
"""Columns that a block of the LDS form takes at most; more would not make its accesses any wider."""

MIN_STRIP = 32
"""Columns of a strip at least, so that accesses to x and to targets that lie side by side fill cache lines."""

MAX_STEPS = 1 << 23
"""Elements of a column in the LDS form: as many rounds as that, and a round's bids still have 32 bits."""


def scatter_add(kernels: Kernels, y: Tensor, ids: Tensor, x: Tensor, dim: int, failed: Tensor | None = None) -> None:
    """y[l, ids[l, i, r], r] += x[l, i, r], the indices having x's shape.

    Memory of y's 8-bit and 16-bit elements consists of whole 32-bit words.
    """
    require_contiguous(y, ids, x)
    space = Space.of(x.shape, dim)
    add_at_indices(kernels, y, x, Indices(ids, space.contiguous, y.shape[dim], failed), space)


def add_at_indices(kernels: Kernels, y: Tensor, x: Tensor, ids: Indices, space: Space) -> None:
    """scatter_add with indices in any view; the form follows from the sizes."""
    numbers, symbol = kernels.numbers(FAMILY), f"scatter_add_{x.dtype}"
    if space.count == 0:
        return
    width = width_in_lds(numbers, space, ids.size, x.dtype)
    if space.n <= numbers["short"] or (space.right >= numbers["rows"] and space.left * space.right >= numbers["walk"]):
        kernels.launch(FAMILY, column_launches(f"{symbol}_columns", numbers["block"], y, x, ids, space))
    elif width is not None:
        kernels.launch(FAMILY, [lds_launch(f"{symbol}_lds", numbers["block"], y, x, ids, space, width)])
    else:
        kernels.launch(FAMILY, atomic_launches(symbol, numbers, y, x, ids, space))


def width_in_lds(numbers: dict[str, int], space: Space, size: int, element: DType) -> int | None:
    """Columns that a block sums in LDS together, a power of two.

    None if the targets do not fit, are many more than the elements, or if so few columns fit that accesses to
    neighbouring ones would be wasted.
    """
    wanted = min(1 << (space.right - 1).bit_length(), MAX_WIDTH)
    fitting = numbers["lds"] // (max(size, 1) * bytes_of_cell(element))
    width = min(wanted, 1 << fitting.bit_length() >> 1)
    if width < min(wanted, 8) or size > 8 * space.n or space.n > MAX_STEPS:
        return None
    return width


def bytes_of_cell(element: DType) -> int:
    """LDS of one target: a bid and a sum in the wide type."""
    return 4 + dtype(element.wide).size


def columns_of_strip(numbers: dict[str, int], space: Space, size: int, element: DType) -> int:
    """Columns whose targets stay in the cache while all of x that is added to them goes by; all where those do."""
    fitting = numbers["cached"] // (max(size, 1) * element.size)
    if space.right <= fitting:
        return space.right
    return max(1 << fitting.bit_length() >> 1, MIN_STRIP)


def strips(views: Sequence[View], width: int) -> Iterator[list[View]]:
    """Views over a space cut into strips of `width` columns that follow each other; what is left over comes last."""
    right = views[0].shape[2]
    whole = right // width
    for first, number, columns in ((0, whole, width), (whole * width, 1, right % width)):
        if number * columns:
            yield [strip(view, first, number, columns) for view in views]


def strip(view: View, first: int, number: int, columns: int) -> View:
    """A view over a space from its column `first` on, as (left, number, n, columns)."""
    (left, n, _), (by_left, by_n, by_right) = view.shape, view.strides
    strides = (by_left, by_right * columns, by_n, by_right)
    return View((left, number, n, columns), strides, view.offset + first * by_right)


def atomic_launches(
    symbol: str, numbers: dict[str, int], y: Tensor, x: Tensor, ids: Indices, space: Space
) -> Iterator[Launch]:
    """Launches with a thread for each element of x."""
    block, width = numbers["block"], columns_of_strip(numbers, space, ids.size, x.dtype)
    for views in strips((targets(space, ids.size, space.right), space.contiguous, ids.view), width):
        yield from update_launches(symbol, block, y, x, ids, space, views)


def lds_launch(symbol: str, block: int, y: Tensor, x: Tensor, ids: Indices, space: Space, width: int) -> Launch:
    """The launch with a block for each `width` columns."""
    items = space.left * -(-space.right // width)
    cells = ids.size * width
    columns = struct.pack("<QII3qII", space.left, space.n, space.right, *ids.view.strides, width.bit_length() - 1, 0)
    return Launch(
        symbol,
        (min(items, MAX_GRID), 1, 1),
        (block, 1, 1),
        (pointer(y.address), pointer(x.address), ids.argument(), columns),
        lds=-(-cells // 2) * 8 + cells * dtype(x.dtype.wide).size,
    )
