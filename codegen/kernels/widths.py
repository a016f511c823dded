"""Elements that lie together taken as one wider element, so that each access moves up to 16 bytes.

Kernels that only move bits do not care what their elements are; what a lane moves at a time is decided here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from codegen.kernels.dtypes import WIDEST, WIDTHS, DType
from codegen.kernels.layout import Layout, in_packs

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Widened:
    """A layout in elements of `width`."""

    width: DType
    layout: Layout
    """Its offsets are all 0: the addresses have them."""
    addresses: tuple[int, ...]
    """Of each view's first element."""


def widened(layout: Layout, size: int, starts: Sequence[int]) -> Widened:
    """The widest elements that describe the same bytes in the same order.

    `layout` has elements of `size` bytes; `starts` are addresses of the buffers from which its offsets count. Several
    elements are one where the innermost dimension is contiguous in every view, and where they, every other stride and
    every address are a multiple of their number.
    """
    addresses = tuple(start + offset * size for start, offset in zip(starts, layout.offsets, strict=True))
    layout = Layout(layout.shape, layout.strides, (0,) * len(addresses))
    for width in (WIDEST, *reversed(WIDTHS)):
        several = width.size // size
        if several <= 1 or _lie_together(layout, several, addresses, width.size):
            break
    return Widened(width, layout if several <= 1 else _taken(layout, several), addresses)


def _lie_together(layout: Layout, several: int, addresses: tuple[int, ...], width: int) -> bool:
    if not layout.shape or layout.shape[0] % several or any(address % width for address in addresses):
        return False
    return all(in_packs(strides, several) for strides in layout.strides)


def _taken(layout: Layout, several: int) -> Layout:
    """The layout with `several` elements of its innermost dimension taken as one."""
    inner = layout.shape[0] // several
    gone = int(inner == 1)
    shape = (inner, *layout.shape[1:])[gone:]
    strides = tuple((1, *(stride // several for stride in outer))[gone:] for _, *outer in layout.strides)
    return Layout(shape, strides, layout.offsets)
