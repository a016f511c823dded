"""Scaled dot product attention."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codegen.device.hip import Launch
from codegen.device.kernels import MAX_GRID, grid_for, pointer, u32
from codegen.device.tensor import Tensor
from codegen.kernels.layout import Divisor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codegen.device.kernels import Kernels

FAMILY = "sdpa"

QUAD = 4
"""Elements that a lane takes at a time."""

WIDTHS = (64, 128, 256)
"""Columns that the variants are made for."""

TEAM = 16
"""Lanes that share a key of a split."""


@dataclass(frozen=True, slots=True)
class Attention:
    """One call: tensors, and the numbers that scores are made with."""

    q: Tensor
    k: Tensor
    v: Tensor
    mask: Tensor | None
    scale: float
    cap: float
    causal: bool

    @property
    def heads(self) -> int:
        """Of queries, in all batch entries."""
        return self.q.shape[0] * self.q.shape[1]

    @property
    def group(self) -> int:
        """Heads of queries that share a head of keys."""
        return self.q.shape[1] // self.k.shape[1]

    @property
    def queries(self) -> int:
        """Of a head."""
        return self.q.shape[2]

    @property
    def keys(self) -> int:
        """Of a head."""
        return self.k.shape[2]

    @property
    def columns(self) -> int:
        """Of values."""
        return self.v.shape[3]

    @property
    def operands(self) -> tuple[bytes, ...]:
        """Addresses of q, k, v and the mask, 0 without one."""
        addresses = [tensor.address for tensor in (self.q, self.k, self.v)]
        return tuple(map(pointer, (*addresses, self.mask.address if self.mask else 0)))

    @property
    def packed(self) -> bool:
        """Whether rows of q, k and v consist of quads, and each of those is aligned."""
        for tensor in (self.q, self.k, self.v):
            steps = (tensor.shape[3], *tensor.view.strides[:3])
            if any(step % QUAD for step in steps) or tensor.address % (QUAD * tensor.dtype.size):
                return False
        return True

    def pack(self) -> bytes:
        """The bytes of `candle::Attention`."""
        mask = self.mask.view.strides if self.mask else (0,) * 4
        steps = [step for tensor in (self.q, self.k, self.v) for step in tensor.view.strides[:3]]
        return b"".join(
            (
                struct.pack("<13q", *steps, *mask),
                Divisor.of(self.q.shape[1]).pack(),
                Divisor.of(self.group).pack(),
                Divisor.of(self.queries).pack(),
                struct.pack("<3I", self.keys, self.q.shape[3], self.columns),
                struct.pack("<2f2I", self.scale, self.cap, self.causal, self.packed),
            )
        )


def sdpa(
    kernels: Kernels,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    *,
    causal: bool = False,
    scale: float = 1.0,
    softcapping: float = 1.0,
    parts: int | None = None,
) -> Tensor:
    """softmax(q k^T * scale + mask) v: q (b, h, m, d), k (b, g, n, d), v (b, g, n, e) to (b, h, m, e), contiguous.

    h is a multiple of g; query head i uses key head i * g // h. The mask is (b, h, m, n). All are of one type: f16,
    bf16 or f32. The mask may be any view, the others any whose last dimension is contiguous. With a `softcapping` c
    other than 1, scores are c * tanh(q k^T * scale / c). `causal` hides from query i the keys from i + 1 + n - m on; a
    mask overrides it. `parts` asks for the form of few queries with the keys of a head dealt to that many blocks (which
    takes packed operands of up to 256 columns), 0 for the form of many queries; if not given, the sizes decide.

    Raises ValueError for shapes that do not fit together, and for a last dimension that is not contiguous.
    """
    attention = Attention(q, k, v, mask, scale, softcapping, causal and mask is None)
    _check(attention)
    y = Tensor.empty(q.device, (*q.shape[:3], v.shape[3]), q.dtype)
    if y.view.count == 0:
        return y
    numbers = kernels.numbers(FAMILY)
    if parts is None:
        parts = _parts(attention, numbers, q.device.multiprocessors)
    width = _width(max(q.shape[3], attention.columns))
    if parts and attention.packed and width:
        _split(kernels, y, attention, width, parts)
    else:
        kernels.launch(FAMILY, _tiles(numbers, y, attention))
    return y


def _check(attention: Attention) -> None:
    q, k, v = attention.q.shape, attention.k.shape, attention.v.shape
    if (k[0], v[0], v[1], v[2], k[3]) != (q[0], q[0], k[1], k[2], q[3]) or not k[1] or q[1] % k[1]:
        raise ValueError(f"queries {q}, keys {k} and values {v} do not fit together")
    if attention.mask and attention.mask.shape != (*q[:3], k[2]):
        raise ValueError(f"the mask has to be {(*q[:3], k[2])}, not {attention.mask.shape}")
    if any(tensor.shape[3] > 1 and tensor.view.strides[3] != 1 for tensor in (attention.q, attention.k, attention.v)):
        raise ValueError("the last dimension of queries, keys and values has to be contiguous")


def _width(columns: int) -> int | None:
    """The variant for rows of this many columns; None if the widest is too narrow."""
    return next((width for width in WIDTHS if columns <= width), None)


def _parts(attention: Attention, numbers: dict[str, int], multiprocessors: int) -> int:
    """Into how many parts a head's keys are cut, so that few queries fill the card; 0 for many queries."""
    if attention.queries > numbers["few_queries"]:
        return 0
    wanted = multiprocessors * numbers["blocks_per_processor"] * attention.group // attention.heads
    return max(min(wanted, attention.keys // numbers["least_keys"]), 1)


def _tiles(numbers: dict[str, int], y: Tensor, attention: Attention) -> Iterator[Launch]:
    """The launches for many queries."""
    width = _width(attention.columns) or WIDTHS[-1]
    along, parts = -(-attention.queries // numbers["tile"]), -(-attention.columns // width)
    arguments = (
        pointer(y.address),
        *attention.operands,
        attention.pack(),
        Divisor.of(along).pack() + Divisor.of(parts).pack(),
    )
    symbol = f"sdpa_tiles_{y.dtype}_{width}"
    return _items(symbol, numbers["block"], attention.heads * parts * along, arguments, numbers["tile_lds"])


def _split(kernels: Kernels, y: Tensor, attention: Attention, width: int, parts: int) -> None:
    """The launches for few queries, with the keys of a head in `parts` parts or fewer."""
    block = kernels.numbers(FAMILY)["block"]
    of_part = max(-(-attention.keys // parts), 1)
    parts = max(-(-attention.keys // of_part), 1)
    groups = -(-attention.queries * attention.group // _rows(kernels, width))
    slots = attention.heads * attention.queries * parts if parts > 1 else 0
    totals, sums = y.device.allocate(slots * 8), y.device.allocate(slots * attention.columns * 4)
    places = tuple(pointer(address) for address in (y.address, totals.address, sums.address))
    split = b"".join(Divisor.of(size).pack() for size in (parts, groups, attention.k.shape[1])) + u32(of_part)
    count = attention.heads // attention.group * groups * parts
    arguments = (*places, *attention.operands, attention.pack(), split)
    lds = block // TEAM * (width * 4 + 8)  # sums and a total of every team
    kernels.launch(FAMILY, _items(f"sdpa_split_{y.dtype}_{width}", block, count, arguments, lds))
    if parts > 1:
        combining = (*places, u32(parts), Divisor.of(attention.columns).pack(), u32(y.view.count))
        grid = grid_for(y.view.count, block)
        kernels.launch(FAMILY, [Launch(f"sdpa_combine_{y.dtype}", grid, (block, 1, 1), combining)])
    y.device.free(totals)
    y.device.free(sums)


def _rows(kernels: Kernels, width: int) -> int:
    """Queries that a block of the split form has."""
    variants = kernels.families[FAMILY].family.variants
    return next(variant.constants["rows"] for variant in variants if variant.name == f"{width}")


def _items(symbol: str, block: int, count: int, arguments: tuple[bytes, ...], lds: int) -> Iterator[Launch]:
    """Launches with a block for each of `count` items; the last argument gets the number of the first one appended."""
    for first in range(0, count, MAX_GRID):
        numbered = (*arguments[:-1], arguments[-1] + u32(first))
        yield Launch(symbol, (min(count - first, MAX_GRID), 1, 1), (block, 1, 1), numbered, lds)
