"""Elements picked and placed by indices: index_select, gather, scatter.

An index that is the largest number of its type stands for no element: it reads as zero and writes nothing. So does an
index out of range, which also sets `failed` (one u32) if it is given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from codegen.device.hip import Launch
from codegen.device.kernels import grid_for, i64, pointer, u32
from codegen.device.ops.ids import Indices, Space, column_launches, require_contiguous, targets
from codegen.device.tensor import Tensor
from codegen.kernels.dtypes import moved_as
from codegen.kernels.layout import MAX_COUNT, launches, merged

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codegen.device.kernels import Kernels

FAMILY = "indexing"


def index_select(kernels: Kernels, x: Tensor, ids: Tensor, dim: int, failed: Tensor | None = None) -> Tensor:
    """A new tensor of x's shape with ids (1-D, any stride) in place of `dim`: y[l, i, r] = x[l, ids[i], r]."""
    require_contiguous(x)
    shape = (*x.shape[:dim], ids.shape[0], *x.shape[dim + 1 :])
    space = Space.of(shape, dim)
    y = Tensor.empty(kernels.device, shape, x.dtype)
    # Without rows to move, neighbouring elements have neighbouring indices: that is what gather is good at.
    op = "index_select" if space.right > 1 else "gather"
    indices = Indices(ids, space.view(0, ids.view.strides[0], 0), x.shape[dim], failed)
    kernels.launch(FAMILY, pick_launches(op, kernels.numbers(FAMILY), y, x, indices, space, space.right))
    return y


def gather(kernels: Kernels, x: Tensor, ids: Tensor, dim: int, failed: Tensor | None = None) -> Tensor:
    """A new tensor of the indices' shape: y[l, i, r] = x[l, ids[l, i, r], r]."""
    require_contiguous(x, ids)
    space = Space.of(ids.shape, dim)
    y = Tensor.empty(kernels.device, ids.shape, x.dtype)
    indices = Indices(ids, space.contiguous, x.shape[dim], failed)
    right = Space.of(x.shape, dim).right
    kernels.launch(FAMILY, pick_launches("gather", kernels.numbers(FAMILY), y, x, indices, space, right))
    return y


def scatter(kernels: Kernels, y: Tensor, ids: Tensor, x: Tensor, dim: int, failed: Tensor | None = None) -> None:
    """y[l, ids[l, i, r], r] = x[l, i, r] in place; of several elements with one target the last stays."""
    require_contiguous(y, ids, x)
    numbers, space = kernels.numbers(FAMILY), Space.of(x.shape, dim)
    if space.count == 0:
        return
    indices = Indices(ids, space.contiguous, y.shape[dim], failed)
    symbol = f"scatter_{moved_as(x.dtype)}"
    if space.n <= numbers["short"] or space.left * space.right >= numbers["walk"] or space.count > MAX_COUNT:
        kernels.launch(FAMILY, column_launches(symbol, numbers["block"], y, x, indices, space))
        return
    marks = Tensor.from_numpy(kernels.device, np.zeros(y.view.count, np.uint32))
    kernels.launch(FAMILY, marked_launches(f"{symbol}_marked", numbers["block"], y, x, marks, indices, space))
    kernels.device.free(marks.buffer)


def pick_launches(
    op: str, numbers: dict[str, int], y: Tensor, x: Tensor, ids: Indices, space: Space, right: int
) -> Iterator[Launch]:
    """Launches that read x (left, size, right) through indices into a contiguous y over the space."""
    if space.count == 0:
        return
    element = moved_as(x.dtype)
    lanes = numbers["lanes"] if op == "gather" else numbers["selected"] * 16 // element.size
    for first, layout in launches(merged([targets(space, ids.size, right), ids.view])):
        source, indices = layout.offsets
        yield Launch(
            f"{op}_{element}",
            grid_for(-(-layout.count // lanes), numbers["block"]),
            (numbers["block"], 1, 1),
            (
                pointer(y.address + first * element.size),
                pointer(x.address + source * element.size),
                ids.argument(indices),
                i64(right),
                layout.pack(),
            ),
        )


def marked_launches(
    symbol: str, block: int, y: Tensor, x: Tensor, marks: Tensor, ids: Indices, space: Space
) -> Iterator[Launch]:
    """The launch that finds each target's last writer, and the launch that lets it write; below 2^31 elements."""
    layout = merged([targets(space, ids.size, space.right), ids.view])
    for writes in (0, 1):
        yield Launch(
            symbol,
            grid_for(layout.count, block),
            (block, 1, 1),
            (
                *map(pointer, (y.address, x.address, marks.address)),
                u32(writes),
                ids.argument(),
                i64(space.right),
                layout.pack(),
            ),
        )
