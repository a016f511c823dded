"""Indices as kernels take them: the counterpart of `templates/hip/candle_rocm/ids.h.j2`, and the spaces they index."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from codegen.device.hip import Launch
from codegen.device.kernels import grid_for, i64, pointer, u32
from codegen.device.tensor import numpy_type
from codegen.kernels.dtypes import GROUPS
from codegen.kernels.layout import View, launches, merged

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codegen.device.tensor import Tensor


@dataclass(frozen=True, slots=True)
class Space:
    """Elements that have an index each, as Candle flattens them: (left, n, right), n along the dimension indexed."""

    left: int
    n: int
    right: int

    @classmethod
    def of(cls, shape: tuple[int, ...], dim: int) -> Space:
        """The space of a shape around one of its dimensions."""
        return cls(math.prod(shape[:dim]), shape[dim], math.prod(shape[dim + 1 :]))

    @property
    def count(self) -> int:
        """Number of elements."""
        return self.left * self.n * self.right

    @property
    def contiguous(self) -> View:
        """Row-major order."""
        return View.contiguous((self.left, self.n, self.right))

    def view(self, left: int, n: int, right: int) -> View:
        """The space in memory with these strides."""
        return View((self.left, self.n, self.right), (left, n, right))


@dataclass(frozen=True, slots=True)
class Indices:
    """Indices of a space's elements, into a dimension of `size`."""

    tensor: Tensor
    view: View
    """Over the space, from the tensor's first element on."""
    size: int
    failed: Tensor | None
    """One u32 that becomes 1 if an index is out of range."""

    def argument(self, offset: int = 0) -> bytes:
        """The bytes of `candle::Ids`, from an element of the view on."""
        kind = self.tensor.dtype
        data = self.tensor.address + offset * kind.size
        failed = self.failed.address if self.failed else 0
        none = int(np.iinfo(numpy_type(kind)).max)
        return struct.pack("<QQQqII", data, failed, self.size, none, GROUPS["integer"].index(kind.name), 0)


def targets(space: Space, size: int, right: int) -> View:
    """Where index 0 of each element lies in a contiguous tensor (left, size, right)."""
    return space.view(size * right, 0, 1)


def column_launches(symbol: str, block: int, y: Tensor, x: Tensor, ids: Indices, space: Space) -> Iterator[Launch]:
    """Launches in which a thread walks along n: kernels (y, x, ids, stride, n, x step, ids step, views of columns)."""
    views = (targets(space, ids.size, space.right), space.contiguous, ids.view)
    columns = [View((space.left, space.right), (view.strides[0], view.strides[2])) for view in views]
    steps = (u32(space.n), i64(space.right), i64(ids.view.strides[1]))
    yield from update_launches(symbol, block, y, x, ids, space, columns, steps)


def update_launches(
    symbol: str,
    block: int,
    y: Tensor,
    x: Tensor,
    ids: Indices,
    space: Space,
    views: Sequence[View],
    more: tuple[bytes, ...] = (),
) -> Iterator[Launch]:
    """Launches over views of y at index 0, of x and of the indices: kernels (y, x, ids, stride, `more`, views)."""
    for _, layout in launches(merged(views)):
        to, source, indices = layout.offsets
        yield Launch(
            symbol,
            grid_for(layout.count, block),
            (block, 1, 1),
            (
                pointer(y.address + to * y.dtype.size),
                pointer(x.address + source * x.dtype.size),
                ids.argument(indices),
                i64(space.right),
                *more,
                layout.pack(),
            ),
        )


def require_contiguous(*tensors: Tensor) -> None:
    """Raises ValueError for a view with gaps or in another order, as Candle refuses it."""
    if not all(tensor.view.is_contiguous for tensor in tensors):
        raise ValueError("the tensors must be contiguous")
