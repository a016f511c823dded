"""Ops on tensors of more than 4Gi elements: a few blocks run, in memory that exists only where they touch it.

The tensors of a case are alike along one dimension, whose positions have nothing to do with each other: rows of a
softmax, images of a convolution. What an op makes of some positions of huge tensors must be what it makes of small
tensors that have only those. Whether that is right is what the tests of its family are about.

The emulated device reports a read of what nobody has written, and only what the chosen blocks need is written.
"""

from __future__ import annotations

import math
from ctypes import c_int, c_size_t, c_void_p
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np

from codegen.device.hip import HOST_TO_DEVICE, Buffer
from codegen.device.tensor import Tensor, numpy_type
from codegen.kernels.dtypes import dtype
from codegen.kernels.layout import View
from kernels.cases import random_values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from codegen.device.hip import Launch
    from codegen.device.kernels import Kernels

Array = np.ndarray[Any, Any]

BEYOND = 1 << 32
"""Elements that 32 bits can count."""

MAX_LAUNCH = 1 << 30
"""Elements of a launch, at most."""

MAX_GRID = 1 << 20
"""Blocks of a launch whose kernel strides over the rest."""

FRESH = (0, 0xFF)
"""Bytes of memory that nobody has written, if it is large and if it is small."""


@dataclass(frozen=True, slots=True)
class Dealing:
    """How a launch deals positions to the blocks along x; all blocks along y and z belong to them."""

    items: int = 1
    """Of a position, in order."""
    per_block: int = 1
    """Neighbouring items that a block takes at a time. Either of the two numbers divides the other."""
    rounds: int | None = None
    """How often a block does; if not given, as often as the limit of a grid asks for."""

    def grid(self, positions: int) -> int:
        """Blocks along x for so many positions."""
        blocks = -(-positions * self.items // self.per_block)
        return -(-blocks // self.rounds) if self.rounds else min(blocks, MAX_GRID)

    def blocks(self, positions: int, wanted: Iterable[int]) -> set[int]:
        """The blocks that the wanted of so many positions are dealt to."""
        grid = self.grid(positions)
        ends = ((p * self.items // self.per_block, -(-(p + 1) * self.items // self.per_block)) for p in wanted)
        return {turn % grid for first, end in ends for turn in range(first, end)}

    def dealt(self, positions: int, blocks: Iterable[int]) -> set[int]:
        """The positions of which these blocks have an item."""
        turns = range(0, -(-positions * self.items // self.per_block), self.grid(positions))
        starts = [(turn + block) * self.per_block for turn in turns for block in blocks]
        found = {p for s in starts for p in range(s // self.items, -(-(s + self.per_block) // self.items))}
        return {position for position in found if position < positions}


@dataclass(frozen=True, slots=True)
class Operand:
    """A contiguous tensor, and which of its dimensions has the positions."""

    element: str
    shape: tuple[int, ...]
    axis: int | None = 0
    """None if the tensor is the same for all positions."""
    entries: int = 1
    """Of the dimension, to a position."""
    below: int | None = None
    """Elements are indices below this number."""

    def values(self, positions: int, seed: int) -> Array:
        """Random values of so many positions."""
        shape = list(self.shape)
        if self.axis is not None:
            shape[self.axis] = positions * self.entries
        if self.below is not None:
            return np.random.default_rng(seed).integers(0, self.below, shape).astype(numpy_type(dtype(self.element)))
        return random_values(dtype(self.element), tuple(shape), seed, special=False)


@dataclass(frozen=True, slots=True)
class Case:
    """An op on huge tensors."""

    symbols: str
    """The kernels that it launches."""
    operands: tuple[Operand, ...]
    run: Callable[..., Tensor]
    """Of kernels and a tensor for each operand."""
    dealings: tuple[Dealing, ...] = (Dealing(),)
    """Of each launch, or of all."""
    per_launch: int | None = None
    """Positions of each launch; all if not given."""
    axis: int = 0
    """The result's dimension that has the positions."""
    entries: int = 1
    reach: int = 0
    """Positions on both sides that a position's result depends on."""
    tolerance: float = 0
    """Relative; results differ where the small tensor takes another form."""
    absolute: float = 0
    """Added to that, where a result may be the small rest of larger numbers, or has fewer digits than others."""

    @property
    def positions(self) -> int:
        """How many there are."""
        operand = next(operand for operand in self.operands if operand.axis is not None)
        return operand.shape[operand.axis or 0] // operand.entries

    @property
    def chosen(self) -> list[int]:
        """The ends, where the largest tensor's elements pass 31 and 32 bits, and all that the same blocks do."""
        count, step = self.positions, self.per_launch or self.positions
        largest = max(math.prod(operand.shape) for operand in self.operands)
        marks = (0, count // 2, (BEYOND // 2) * count // largest, BEYOND * count // largest, count - 1)
        chosen, before = {mark for mark in marks if mark < count}, set[int]()
        while chosen != before:
            before = chosen
            for first in range(0, count, step):
                size = min(step, count - first)
                own = [position - first for position in chosen if first <= position < first + size]
                for dealing in self.dealings:
                    found = dealing.dealt(size, dealing.blocks(size, own))
                    chosen = chosen | {first + position for position in found}
        return sorted(chosen)

    def check(self, kernels: Kernels) -> None:
        """Fails unless the op makes the same of the chosen positions in huge tensors and in small ones.

        Frees no tensors.
        """
        positions = self.chosen
        known = sorted({p + step for p in positions for step in range(-self.reach, self.reach + 1)})
        known = [position for position in known if 0 <= position < self.positions]
        arrays = [operand.values(len(known), seed) for seed, operand in enumerate(self.operands)]
        small = [Tensor.from_numpy(kernels.device, array) for array in arrays]
        expected = self.run(kernels, *small)
        entries = _entries(np.searchsorted(known, positions), self.entries)
        wanted = expected.numpy().take(entries, self.axis)

        huge = [_sparse(kernels, operand, array, known) for operand, array in zip(self.operands, arrays, strict=True)]
        with patch.object(kernels, "launch", self._launches(kernels, positions)):
            y = self.run(kernels, *huge)
        found = read(y, self.axis, _entries(positions, self.entries))
        if y not in huge:
            beside = {p + step for p in positions for step in (-1, 1)} - set(positions)
            untouched = _entries(sorted(p for p in beside if 0 <= p < self.positions), self.entries)
            fresh = np.isin(read(y, self.axis, untouched).view(np.uint8), FRESH)
            assert fresh.all(), "a position was written that was not chosen"

        assert max(y.view.count, *(tensor.view.count for tensor in huge)) > BEYOND
        assert wanted.astype(np.float64).any()
        np.testing.assert_allclose(
            found.astype(np.float64), wanted.astype(np.float64), rtol=self.tolerance, atol=self.absolute
        )

    def _launches(self, kernels: Kernels, positions: Sequence[int]) -> Callable[[str, Iterable[Launch]], None]:
        """What takes the place of `Kernels.launch`."""
        run, step = kernels.launch, self.per_launch or self.positions
        number = 0

        def launch_chosen(family: str, planned: Iterable[Launch]) -> None:
            nonlocal number
            for launch in planned:
                assert launch.symbol in self.symbols.split(), f"{launch.symbol} is launched"
                dealing = self.dealings[number % len(self.dealings)]
                first = number * step % (-(-self.positions // step) * step)
                size = min(step, self.positions - first)
                along, *across = launch.grid
                assert along == dealing.grid(size), f"{launch.symbol} has {along} blocks and not {dealing.grid(size)}"
                own = [position - first for position in positions if first <= position < first + size]
                blocks = [x + along * n for x in dealing.blocks(size, own) for n in range(math.prod(across))]
                if blocks:
                    with kernels.device.only_blocks(blocks):
                        run(family, [launch])
                number += 1

        return launch_chosen


def empty(kernels: Kernels, element: str, *shape: int) -> Tensor:
    """A tensor in memory that nobody has touched."""
    return Tensor.empty(kernels.device, shape, dtype(element))


def write(tensor: Tensor, axis: int, entries: Sequence[int], values: Array) -> None:
    """Writes some entries of a dimension of a contiguous tensor; `values` has only them."""
    for (address, size), part in zip(_runs(tensor, axis, entries), _parts(values, axis, entries), strict=True):
        assert part.nbytes == size
        to = c_void_p(address)
        tensor.device.call("hipMemcpy", to, part.tobytes(), c_size_t(size), c_int(HOST_TO_DEVICE))


def read(tensor: Tensor, axis: int, entries: Sequence[int]) -> Array:
    """Some entries of a dimension of a contiguous tensor."""
    assert tensor.view.is_contiguous
    shape = (*tensor.shape[:axis], len(entries), *tensor.shape[axis + 1 :])
    data = b"".join(tensor.device.download(Buffer(*run)) for run in _runs(tensor, axis, entries))
    return np.frombuffer(data, numpy_type(tensor.dtype)).reshape(shape)


def _sparse(kernels: Kernels, operand: Operand, values: Array, positions: Sequence[int]) -> Tensor:
    if operand.axis is None:
        return Tensor.from_numpy(kernels.device, values)
    tensor = empty(kernels, operand.element, *operand.shape)
    write(tensor, operand.axis, _entries(positions, operand.entries), values)
    return tensor


def _entries(positions: Iterable[int], each: int) -> list[int]:
    return [int(p) * each + n for p in positions for n in range(each)]


def _neighbours(entries: Sequence[int]) -> Iterator[tuple[int, int]]:
    """First place and length of every run of consecutive numbers."""
    start = 0
    for place in range(1, len(entries) + 1):
        if place == len(entries) or entries[place] != entries[place - 1] + 1:
            yield start, place - start
            start = place


def _runs(tensor: Tensor, axis: int, entries: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Address and bytes of every stretch of memory that has some of the entries, in row-major order."""
    step = View.contiguous(tensor.shape).strides[axis] * tensor.dtype.size
    for outer in range(math.prod(tensor.shape[:axis])):
        for place, length in _neighbours(entries):
            yield tensor.address + (outer * tensor.shape[axis] + entries[place]) * step, length * step


def _parts(values: Array, axis: int, entries: Sequence[int]) -> Iterator[Array]:
    """The values of those stretches."""
    for outer in values.reshape(math.prod(values.shape[:axis]), *values.shape[axis:]):
        for place, length in _neighbours(entries):
            yield outer[place : place + length]
