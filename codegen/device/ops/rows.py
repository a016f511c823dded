"""How launches deal rows to teams of threads: the host's side of `templates/hip/candle_rocm/rows.h.j2`."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codegen.device.kernels import MAX_GRID

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codegen.device.tensor import Tensor
    from codegen.kernels.dtypes import DType

PACK = 16
"""Bytes that a lane reads or writes at once."""


@dataclass(frozen=True, slots=True)
class Card:
    """What decides how work is spread over a device."""

    wave_size: int
    multiprocessors: int


@dataclass(frozen=True, slots=True)
class Teams:
    """`width` threads to a row; a block has several teams, or is one."""

    width: int
    block: int

    def grid(self, rows: int, parts: int = 1) -> tuple[int, int, int]:
        """A team for each row, or less than that where blocks stride; `parts` blocks in y for each."""
        return (min(-(-rows * self.width // self.block), MAX_GRID), parts, 1)


@dataclass(frozen=True, slots=True)
class Rows:
    """Contiguous rows, as kernels see them."""

    count: int
    length: int
    packed: bool
    """Whether every row of all operands begins and ends at a 16-byte boundary."""

    @classmethod
    def of(cls, operands: Sequence[Tensor], vectors: Sequence[Tensor] = ()) -> Rows:
        """The rows along the last dimension of tensors of one shape; `vectors` are as long as a row.

        Raises ValueError for tensors that are not contiguous.
        """
        if not all(tensor.view.is_contiguous for tensor in (*operands, *vectors)):
            raise ValueError("rows have to be contiguous")
        view, element = operands[0].view, operands[0].dtype
        length = view.shape[-1]
        starts = [tensor.address for tensor in (*operands, *vectors)]
        packed = all(n % PACK == 0 for n in (*starts, length * element.size))
        return cls(view.count // length if length else 0, length, packed)

    def pack(self, width: int) -> bytes:
        """The bytes of `candle::Rows` for teams of `width`."""
        return struct.pack("<QQII", self.count, self.length, width, self.packed)


@dataclass(frozen=True, slots=True)
class Holding:
    """What a family's kernels hold, and how large their blocks are."""

    by_wave: int
    """Elements of a row that a thread keeps in registers where a wave or less shares it."""
    by_block: int
    """The same where a block does."""
    block: int
    largest_block: int

    @classmethod
    def of(cls, numbers: Mapping[str, int], element: DType, by_block: str | None = None) -> Holding:
        """For an element type; `by_block` names the number for blocks, if that is not the one for waves."""
        held = {2: "held_16", 8: "held_f64"}.get(element.size, "held")
        return cls(numbers[held], numbers[by_block or held], numbers["block"], numbers["largest_block"])


def held_teams(rows: Rows, element: DType, holding: Holding, card: Card) -> Teams | None:
    """Teams whose registers hold a row; None if rows are too long for a block, or not packed.

    Where rows are many, a member holds as much as it can if more than a wave is needed: it has many loads under way.
    Where they do not fill the card, a member takes one pack, and many members work at a time.
    """
    if not rows.packed:
        return None
    packs = rows.length * element.size // PACK
    of_wave, of_block = (held * element.size // PACK for held in (holding.by_wave, holding.by_block))
    many = rows.count * card.wave_size >= card.multiprocessors * holding.block
    if packs <= card.wave_size * (of_wave if many else 1):
        return Teams(min(power_of_two_from(packs), card.wave_size), holding.block)
    width = power_of_two_from(-(-packs // (of_block if many else 1)))
    width = min(max(width, 2 * card.wave_size), holding.largest_block)
    return Teams(width, width) if packs <= width * of_block else None


def streamed_teams(rows: Rows, element: DType, holding: Holding, card: Card) -> Teams:
    """Teams that read their rows as often as they need them."""
    steps = rows.length * element.size // PACK if rows.packed else rows.length
    if steps <= card.wave_size * 4:
        return Teams(min(power_of_two_from(steps), card.wave_size), holding.block)
    width = holding.largest_block if steps >= 4 * holding.largest_block else holding.block
    return Teams(width, width)


def power_of_two_from(number: int) -> int:
    """The lowest power of two that is not below `number`; 1 for less than 1."""
    return 1 << max(number - 1, 0).bit_length()
