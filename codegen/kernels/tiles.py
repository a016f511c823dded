"""How the permute kernels cut a view into tiles: the counterpart of `Tiles` in `templates/hip/permute.hip.j2`."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from codegen.kernels.layout import Divisor, Layout


@dataclass(frozen=True, slots=True)
class Tiles:
    """A copy of a view x to contiguous memory y, in which dimension X is contiguous in x, and dimension Y in y."""

    size_x: int
    size_y: int
    x_step: int
    """Elements of x between neighbours of dimension Y."""
    y_step: int
    """Elements of y between neighbours of dimension X."""
    outer: Layout
    """All other dimensions, with their strides in x and in y."""
    squares_x: int
    """Squares of a tile along X, a power of two."""
    squares_y: int
    side: int
    """Elements along a side of a square."""
    reads_packs: bool
    """Whether every row along X begins at an aligned address and is whole packs."""
    writes_packs: bool
    """The same of the rows along Y."""

    @classmethod
    def of(cls, layout: Layout, block: int, side: int, least_use: int, aligned: tuple[bool, bool]) -> Tiles | None:
        """Tiles for a layout of two views, x and y, of which y is contiguous.

        A tile has `block` squares of `side` by `side` elements; `aligned` says whether x and y begin at multiples of
        `side` elements. None where tiles do not help: no dimension but Y is contiguous in x, or less than one of
        `least_use` places of the tiles would hold an element.
        """
        from_x, to_y = layout.strides
        dimension = next((d for d in range(1, len(from_x)) if from_x[d] == 1), None)
        if dimension is None:
            return None
        others = [d for d in range(1, len(from_x)) if d != dimension]
        outer = Layout(
            tuple(layout.shape[d] for d in others),
            tuple(tuple(strides[d] for d in others) for strides in layout.strides),
            (0, 0),
        )
        size_x, size_y = layout.shape[dimension], layout.shape[0]
        squares_x = _squares(block, _up_to_power_of_two(-(-size_x // side)), _up_to_power_of_two(-(-size_y // side)))
        tiles = cls(
            size_x,
            size_y,
            from_x[0],
            to_y[dimension],
            outer,
            squares_x,
            block // squares_x,
            side,
            aligned[0] and _are_multiples(side, size_x, from_x[0], *outer.strides[0]),
            aligned[1] and _are_multiples(side, size_y, to_y[dimension], *outer.strides[1]),
        )
        places = tiles.count * block * side * side
        return tiles if places <= least_use * layout.count else None

    @property
    def along_x(self) -> int:
        """Tiles along X."""
        return -(-self.size_x // (self.squares_x * self.side))

    @property
    def along_y(self) -> int:
        """Tiles along Y."""
        return -(-self.size_y // (self.squares_y * self.side))

    @property
    def count(self) -> int:
        """Number of tiles."""
        return self.along_x * self.along_y * self.outer.count

    def pack(self) -> bytes:
        """The bytes of `candle::Tiles`."""
        log_x = self.squares_x.bit_length() - 1
        data = struct.pack("<IIIIII", self.count, self.size_x, self.size_y, log_x, self.reads_packs, self.writes_packs)
        data += Divisor.of(self.along_x).pack() + Divisor.of(self.along_y).pack()
        return data + struct.pack("<qq", self.x_step, self.y_step) + self.outer.pack()


def _squares(block: int, needed_x: int, needed_y: int) -> int:
    """How many of a tile's `block` squares lie along X: half of their bits, or as few as there is need for."""
    even = 1 << (block.bit_length() - 1) // 2
    if needed_x < even:
        return needed_x
    return max(even, block // needed_y) if needed_y < even else even


def _up_to_power_of_two(number: int) -> int:
    return 1 << (number - 1).bit_length()


def _are_multiples(of: int, *numbers: int) -> bool:
    return all(number % of == 0 for number in numbers)
