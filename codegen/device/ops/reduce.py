"""Sums, extremes and their indices over dimensions."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codegen.device.hip import Launch
from codegen.device.kernels import MAX_GRID, pointer
from codegen.device.ops.rows import PACK, Card, Teams, power_of_two_from
from codegen.device.tensor import Tensor
from codegen.kernels.dtypes import dtype
from codegen.kernels.layout import MAX_LAUNCH, Layout, View, launches, merged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from codegen.device.kernels import Kernels

_COLUMN_STATES = 32
"""Of reduce_columns: bytes of the partial results that a thread keeps at once."""


def reduce(kernels: Kernels, op: str, x: Tensor, dims: Sequence[int]) -> Tensor:
    """`sum`, `min`, `max`, `argmin` or `argmax` over dimensions, which keep a size of 1; indices are u32.

    Raises ValueError where Candle's CPU backend has an error: for all but sums, of nothing or over several dimensions.
    """
    if op != "sum" and (len(dims) != 1 or x.view.count == 0):
        raise ValueError(f"{op} takes one dimension of a tensor that is not empty")
    shape = tuple(1 if d in dims else size for d, size in enumerate(x.shape))
    y = Tensor.empty(x.device, shape, dtype("u32") if op.startswith("arg") else x.dtype)
    workspaces = []

    def workspace(size: int) -> int:
        workspaces.append(x.device.allocate(size))
        return workspaces[-1].address

    kernels.launch("reduce", Reduction.of(op, x, dims, kernels).plan(y, workspace))
    for buffer in workspaces:
        x.device.free(buffer)
    return y


@dataclass(frozen=True, slots=True)
class Reduction:
    """Each result's elements as lines of equal length and stride."""

    op: str
    x: Tensor
    kept: Layout
    """First elements of the lines: the results in their order, as often as a result has lines."""
    results: int
    lines: int
    """Of a result."""
    count: int
    """Elements of a line."""
    stride: int
    numbers: Mapping[str, int]
    card: Card

    @classmethod
    def of(cls, op: str, x: Tensor, dims: Sequence[int], kernels: Kernels) -> Reduction:
        """The lines of `x` over `dims`: neighbours in memory if there are any."""
        kept = [d for d in range(len(x.shape)) if d not in dims]
        # Sums may take dimensions in any order: those that lie together in memory become one.
        reduced = sorted(dims, key=lambda d: (x.view.strides[d] != 0, -x.view.strides[d]))
        inner = merged([_view(x, reduced)])
        outer = merged([_view(x, kept)])
        size, stride, others = 1, 1, View((), ())
        if inner.shape:
            line = 0 if _steps_less(inner.strides[0][0], outer) else inner.shape.index(max(inner.shape))
            size, stride = inner.shape[line], inner.strides[0][line]
            rest = [d for d in reversed(range(len(inner.shape))) if d != line]
            others = View(tuple(inner.shape[d] for d in rest), tuple(inner.strides[0][d] for d in rest))
        own = _view(x, kept)
        first = View((*others.shape, *own.shape), (*others.strides, *own.strides), x.view.offset)
        card = Card(x.device.wave_size, x.device.multiprocessors)
        numbers = kernels.numbers("reduce")
        return cls(op, x, merged([first]), own.count, others.count, size, stride, numbers, card)

    def plan(self, y: Tensor, workspace: Callable[[int], int], limit: int = MAX_LAUNCH) -> Iterator[Launch]:
        """The launches; `workspace` gives the address of so many fresh bytes.

        Layouts are cut at `limit` elements, a power of two.
        """
        if self.results == 0:
            return
        cuts = [(first, min(limit, self.count - first)) for first in range(0, max(self.count, 1), limit)]
        pieces = list(launches(self.kept, limit))
        spreads = [self._spread(max(piece.count for _, piece in pieces), count) for _, count in cuts]
        slots = sum(spread.blocks for spread in spreads)
        direct = slots * self.lines == 1
        partials = 0 if direct else workspace(self.results * self.lines * slots * self._state)
        for first_line, piece in pieces:
            slot = 0
            for (first, count), spread in zip(cuts, spreads, strict=True):
                result = y.address + first_line * y.dtype.size if direct else 0
                part = partials + first_line * slots * self._state if partials else 0
                start = self.x.start + (piece.offsets[0] + first * self.stride) * self.x.dtype.size
                task = struct.pack("<qQ4I", self.stride, first, count, spread.chunk, slots, slot)
                task += struct.pack("<2I", spread.teams.width, spread.lanes > 1)
                arguments = (pointer(result), pointer(part), pointer(start), piece.pack() + task)
                grid = (min(-(-piece.count // spread.of_block), MAX_GRID), spread.blocks, 1)
                yield Launch(self._symbol(spread.form), grid, (spread.teams.block, 1, 1), arguments)
                slot += spread.blocks
        if not direct:
            yield from self._finish(y, partials, slots, workspace)

    @property
    def _state(self) -> int:
        """Bytes of a partial result: a number of 32 bits or more, and of the same size its index."""
        return max(4, self.x.dtype.size) * (2 if self.op.startswith("arg") else 1)

    def _symbol(self, form: str) -> str:
        return f"{self.op}_{self.x.dtype}_{form}"

    def _spread(self, lines: int, count: int) -> _Spread:
        """How a launch of so many lines is spread that takes `count` elements of each."""
        block, element = self.numbers["block"], self.x.dtype
        if _steps_less(self.stride, self.kept):
            lanes = min(PACK // element.size, 8) if self.stride == 1 else 1
            teams = self._teams(lines, -(-count // lanes))
            per_thread = count // (lanes * teams.width) if teams.width == block else 0
            most = per_thread // self.numbers["least_per_thread"]
            blocks = self._blocks(teams.grid(lines)[0], most, self.numbers["blocks_per_processor"])
            return _Spread.of("rows", teams, 1, count, blocks, lanes)
        lanes = self._column_lanes()
        across = power_of_two_from(-(-lines // lanes))
        deep = min(block // min(across, self.numbers["columns"]), power_of_two_from(count))
        teams = Teams(block // deep, block)
        grid = -(-lines // (lanes * teams.width))
        wide = "blocks_of_packs" if lanes * element.size == PACK else "blocks_per_processor"
        blocks = self._blocks(grid, count // deep // self.numbers["least_per_thread"], self.numbers[wide])
        return _Spread.of("columns", teams, lanes, count, blocks, 1)

    def _teams(self, rows: int, steps: int) -> Teams:
        """Teams for rows that take so many steps of a single thread."""
        block, wave = self.numbers["block"], self.card.wave_size
        few = rows * wave < self.card.multiprocessors * block
        if steps >= self.numbers["block_from"] or (few and steps >= 2 * wave):
            return Teams(block, block)
        return Teams(min(power_of_two_from(steps), wave), block)

    def _blocks(self, blocks: int, most: int, per_processor: int) -> int:
        """Blocks over which each line is split, at most, so that all blocks together keep the card busy."""
        return max(1, min(self.card.multiprocessors * per_processor // blocks, most))

    def _column_lanes(self) -> int:
        """Neighbouring lines that a thread can read at once, wherever it is."""
        lanes = min(_COLUMN_STATES // self._state, PACK // self.x.dtype.size)
        if not self.kept.shape or self.kept.strides[0][0] != 1:
            return 1
        steps = [self.kept.shape[0], self.stride, *self.kept.strides[0][1:], *self.kept.offsets]
        aligned = self.x.start % (lanes * self.x.dtype.size) == 0
        return lanes if aligned and all(step % lanes == 0 for step in steps) else 1

    def _finish(self, y: Tensor, partials: int, slots: int, workspace: Callable[[int], int]) -> Iterator[Launch]:
        count = slots * self.lines
        while True:
            teams = self._teams(self.results, count)
            if slots == 1 and self.results >= self.card.multiprocessors * teams.block:
                teams = Teams(1, teams.block)  # neighbours are of different results
            per_thread = count // teams.width if teams.width == teams.block else 0
            most = per_thread // self.numbers["least_partials"]
            blocks = self._blocks(teams.grid(self.results)[0], most, self.numbers["blocks_per_processor"])
            chunk = -(-count // blocks)
            blocks = -(-count // chunk)
            fewer = workspace(self.results * blocks * self._state) if blocks > 1 else 0
            task = struct.pack("<Q4I", self.results, slots, count, chunk, teams.width)
            arguments = (pointer(y.address), pointer(fewer), pointer(partials), task)
            grid = teams.grid(self.results, blocks)
            yield Launch(self._symbol("finish"), grid, (teams.block, 1, 1), arguments)
            if blocks == 1:
                return
            partials, slots, count = fewer, blocks, blocks


@dataclass(frozen=True, slots=True)
class _Spread:
    form: str
    teams: Teams
    lanes: int
    """Lines to a thread."""
    of_block: int
    """Lines to a block."""
    chunk: int
    """Elements of a line to a block."""
    blocks: int
    """Of a line."""

    @classmethod
    def of(cls, form: str, teams: Teams, lanes: int, count: int, blocks: int, multiple: int) -> _Spread:
        chunk = max(-(-count // (blocks * multiple)) * multiple, 1)
        of_block = teams.width * lanes if form == "columns" else teams.block // teams.width
        return cls(form, teams, lanes, of_block, chunk, max(-(-count // chunk), 1))


def _view(x: Tensor, dims: Sequence[int]) -> View:
    return View(tuple(x.shape[d] for d in dims), tuple(x.view.strides[d] for d in dims))


def _steps_less(stride: int, kept: Layout) -> bool:
    """Whether a step along a line is shorter than one to the next line; standing still is the longest step."""
    if not kept.shape:
        return True
    return stride != 0 and (kept.strides[0][0] == 0 or stride < kept.strides[0][0])
