"""Views of memory, as `templates/hip/candle_rocm/layout.h.j2` has them; strides and offsets count elements."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_RANK = 8
"""Dimensions that a layout can have after merging."""


@dataclass(frozen=True, slots=True)
class View:
    """Where a tensor's elements lie, in elements from the start of its buffer; outermost dimension first.

    A broadcast stride is 0.
    """

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
