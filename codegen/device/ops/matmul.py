"""Matrix products by an own kernel."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from codegen.device.hip import Launch
from codegen.device.kernels import MAX_GRID, pointer
from codegen.device.ops.planes import MAX_GRID_Y
from codegen.device.tensor import Tensor
from codegen.kernels.layout import MAX_LAUNCH, View, launches, merged

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codegen.device.kernels import Kernels


def matmul(kernels: Kernels, left: Tensor, right: Tensor) -> Tensor:
    """(..., m, k) times (..., k, n) to (..., m, n), contiguous; the dimensions in front are the same in both.

    Raises ValueError for shapes that do not fit together.
    """
    *batch, rows, depth = left.shape
    columns = right.shape[-1]
    if right.shape != (*batch, depth, columns):
        raise ValueError(f"{left.shape} and {right.shape} have no product")
    y = Tensor.empty(left.device, (*batch, rows, columns), left.dtype)
    kernels.launch("matmul", plan(kernels.numbers("matmul"), left, right, y))
    return y


def plan(numbers: dict[str, int], left: Tensor, right: Tensor, y: Tensor, limit: int = MAX_LAUNCH) -> Iterator[Launch]:
    """Launches over at most `limit` products each; none without results, and without terms those are zero."""
    *_, rows, depth = left.shape
    columns = right.shape[-1]
    if y.view.count == 0:
        return
    sizes = struct.pack("<3Q4q", rows, columns, depth, *left.view.strides[-2:], *right.view.strides[-2:])
    size, tile = left.dtype.size, numbers["tile"]
    for first, batch in launches(merged([_corners(left.view), _corners(right.view)]), limit):
        reads = [x.start + offset * size for x, offset in zip((left, right), batch.offsets, strict=True)]
        written = y.address + first * rows * columns * size
        grid = (
            min(-(-columns // tile), MAX_GRID),
            min(-(-rows // tile), MAX_GRID_Y),
            min(batch.count, MAX_GRID_Y),
        )
        arguments = (*map(pointer, (written, *reads)), sizes + batch.pack())
        yield Launch(f"matmul_{left.dtype}", grid, (numbers["block"], 1, 1), arguments)


def _corners(matrices: View) -> View:
    """The first elements of matrices."""
    return View(matrices.shape[:-2], matrices.strides[:-2], matrices.offset)
