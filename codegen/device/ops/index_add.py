"""Rows added to those that indices name, in place.

An index that is the largest number of its type stands for no element and adds nothing. So does an index out of range,
which also sets `failed` (one u32) if it is given.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from codegen.device.hip import Launch
from codegen.device.kernels import MAX_GRID, pointer
from codegen.device.ops.argsort import argsort
from codegen.device.ops.ids import Indices, Space, require_contiguous
from codegen.device.ops.planes import MAX_GRID_Y
from codegen.device.ops.scatter_add import add_at_indices

if TYPE_CHECKING:
    from codegen.device.kernels import Kernels
    from codegen.device.tensor import Tensor

FAMILY = "index_add"


def index_add(kernels: Kernels, y: Tensor, ids: Tensor, x: Tensor, dim: int, failed: Tensor | None = None) -> None:
    """y[l, ids[i], r] += x[l, i, r], the indices (1-D) having x's size along `dim`.

    Rows too short for a wave are scatter_add's, with what it asks of y's memory.
    """
    require_contiguous(y, ids, x)
    space, numbers = Space.of(x.shape, dim), kernels.numbers(FAMILY)
    indices = Indices(ids, space.view(0, 1, 0), y.shape[dim], failed)
    if space.right < numbers["rows"]:
        add_at_indices(kernels, y, x, indices, space)
    elif space.count > 0 and space.n <= numbers["search"]:
        kernels.launch(FAMILY, [row_launch(f"index_add_{x.dtype}", numbers, y, x, indices, space, 0)])
    elif space.count > 0:
        order = argsort(kernels, ids)
        symbol = f"index_add_{x.dtype}_sorted"
        kernels.launch(FAMILY, [row_launch(symbol, numbers, y, x, indices, space, order.address)])
        kernels.device.free(order.buffer)


def row_launch(
    symbol: str, numbers: dict[str, int], y: Tensor, x: Tensor, ids: Indices, space: Space, order: int
) -> Launch:
    """The launch with blocks for each row of x; `order` is the address of the sorted places, or 0."""
    lanes = min(16 // x.dtype.size, 8)
    parts = -(-space.right // (numbers["block"] * lanes))
    rows = struct.pack("<QQQII", space.left, space.right, order, space.n, parts)
    return Launch(
        symbol,
        (min(space.left * space.n, MAX_GRID), min(parts, MAX_GRID_Y), 1),
        (numbers["block"], 1, 1),
        (pointer(y.address), pointer(x.address), ids.argument(), rows),
    )
