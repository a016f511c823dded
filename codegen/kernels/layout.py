"""How a launch describes views of memory: dimensions merged, divisors as multipliers, launches below 2^31 elements.

The counterpart of `templates/hip/candle_rocm/layout.h.j2`. Strides and offsets count elements; a broadcast stride is 0.
"""

from __future__ import annotations

import itertools
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MAX_RANK = 8
"""Dimensions that a layout can have after merging."""

MAX_COUNT = (1 << 31) - 1
"""Elements that a launch's indices can count: below 2^31, multiplying replaces division exactly."""

MAX_LAUNCH = 1 << 30
"""Elements of one launch where the host cuts: a power of two, so that what follows a cut is aligned as before it."""


@dataclass(frozen=True, slots=True)
class Divisor:
    """A divisor and the numbers that divide by it: n // size == (n * magic // 2**32 + n) >> shift for n < 2**31.

    Source: Granlund and Montgomery, "Division by invariant integers using multiplication", PLDI 1994, section 4.
    """

    size: int
    magic: int
    shift: int

    @classmethod
    def of(cls, size: int) -> Divisor:
        """The divisor for a dimension of 1 to 2^31 - 1 elements. Raises ValueError for others."""
        if not 0 < size <= MAX_COUNT:
            raise ValueError(f"a dimension of a launch has 1 to {MAX_COUNT} elements, not {size}")
        shift = (size - 1).bit_length()
        return cls(size, ((1 << 32) * ((1 << shift) - size)) // size + 1, shift)

    def divide(self, number: int) -> int:
        """What the kernel computes for `number // size`."""
        return ((number * self.magic >> 32) + number) >> self.shift

    def pack(self) -> bytes:
        """The bytes of `candle::Divisor`."""
        return struct.pack("<III", self.size, self.magic, self.shift)


@dataclass(frozen=True, slots=True)
class View:
    """Where a tensor's elements lie, in elements from the start of its buffer; outermost dimension first."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    @classmethod
    def contiguous(cls, shape: Sequence[int]) -> View:
        """Row-major order without gaps."""
        reversed_sizes = itertools.accumulate(reversed(shape[1:]), lambda a, b: a * b, initial=1)
        return cls(tuple(shape), tuple(reversed(tuple(reversed_sizes))) if shape else ())

    @property
    def count(self) -> int:
        """Number of elements."""
        total = 1
        for size in self.shape:
            total *= size
        return total

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements lie in row-major order without gaps (dimensions of size 1 do not count)."""
        expected = 1
        for size, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if size != 1 and stride != expected:
                return False
            expected *= size
        return True


@dataclass(frozen=True, slots=True)
class Layout:
    """Views of one shape, merged; dimensions innermost first, as the kernels want them."""

    shape: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]
    """One tuple for each view."""
    offsets: tuple[int, ...]
    """Of each view's first element."""

    @property
    def count(self) -> int:
        """Number of elements."""
        return View(self.shape, self.shape).count

    @property
    def flat(self) -> int:
        """Bit k is set if view k is contiguous: its elements lie in the order in which they are counted."""
        outward = [View(self.shape[::-1], strides[::-1]) for strides in self.strides]
        return sum(view.is_contiguous << k for k, view in enumerate(outward))

    @property
    def all_flat(self) -> bool:
        """Whether every view is contiguous."""
        return self.flat == (1 << len(self.strides)) - 1

    def pack(self) -> bytes:
        """The bytes of `candle::Layout<OPERANDS>`. Raises ValueError for more than MAX_RANK dimensions."""
        if len(self.shape) > MAX_RANK:
            raise ValueError(f"{len(self.shape)} dimensions are left after merging; kernels take {MAX_RANK}")
        divisors = [Divisor.of(size) for size in self.shape] if self.count else []
        data = struct.pack("<III", len(divisors), self.count, self.flat)
        for divisor in divisors:
            data += divisor.pack()
        data += bytes(12 * (MAX_RANK - len(divisors)))
        data += bytes(-len(data) % 8)
        for strides in self.strides:
            data += struct.pack(f"<{len(divisors)}q", *strides[: len(divisors)]) + bytes(8 * (MAX_RANK - len(divisors)))
        return data


def merged(views: Sequence[View]) -> Layout:
    """The views' layout with as few dimensions as describe them: sizes of 1 dropped, neighbours merged.

    All views have the same shape. Two neighbouring dimensions are one where, in every view, a step of the outer is as
    long as all steps of the inner.
    """
    shape: list[int] = []
    strides: list[list[int]] = [[] for _ in views]
    for d in reversed(range(len(views[0].shape))):
        size = views[0].shape[d]
        if size == 1:
            continue
        steps = [view.strides[d] for view in views]
        if shape and all(step == inner[-1] * shape[-1] for step, inner in zip(steps, strides, strict=True)):
            shape[-1] *= size
            continue
        shape.append(size)
        for inner, step in zip(strides, steps, strict=True):
            inner.append(step)
    return Layout(tuple(shape), tuple(tuple(s) for s in strides), tuple(view.offset for view in views))


def in_packs(strides: Sequence[int], pack: int) -> bool:
    """Whether a view's rows, their dimension first, have neighbours in memory and begin a multiple of `pack` apart."""
    inner, *outer = strides
    return inner == 1 and all(step % pack == 0 for step in outer)


def launches(layout: Layout, limit: int = MAX_LAUNCH) -> Iterator[tuple[int, Layout]]:
    """The layout cut along its outermost dimensions into layouts of at most `limit` elements.

    Yields the number of the first element in row-major order with each: where its results go.
    """
    if layout.count <= limit:
        yield 0, layout
        return
    outer, inner = layout.shape[-1], layout.count // layout.shape[-1]
    rows = max(1, limit // inner)
    for first in range(0, outer, rows):
        part = Layout(
            (*layout.shape[:-1], min(rows, outer - first)),
            layout.strides,
            tuple(offset + first * s[-1] for offset, s in zip(layout.offsets, layout.strides, strict=True)),
        )
        if rows == 1:  # the dimension is gone, and what is left may still be too long
            part = Layout(part.shape[:-1], tuple(s[:-1] for s in part.strides), part.offsets)
        for start, piece in launches(part, limit):
            yield first * inner + start, piece
