"""Launches of kernels built on `candle_rocm/elementwise.h`: one kernel for contiguous memory and any other views."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codegen.device.hip import Launch
from codegen.device.kernels import pointer
from codegen.device.tensor import Tensor
from codegen.kernels.layout import in_packs, launches, merged

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from codegen.device.kernels import Kernels
    from codegen.kernels.dtypes import DType
    from codegen.kernels.layout import Layout


def elementwise(
    kernels: Kernels, family: str, symbol: str, inputs: Sequence[Tensor], result: DType, scalars: Sequence[bytes] = ()
) -> Tensor:
    """A new contiguous tensor of the inputs' common shape.

    The kernel takes (y, x..., scalars..., packs, layout of the inputs).
    """
    output = Tensor.empty(kernels.device, inputs[0].shape, result)
    block = kernels.numbers(family)["block"]
    kernels.launch(family, plan(symbol, block, inputs, output, scalars))
    return output


def plan(
    symbol: str, block: int, inputs: Sequence[Tensor], output: Tensor, scalars: Sequence[bytes] = ()
) -> Iterator[Launch]:
    """The launches of an elementwise op; none for an empty tensor."""
    if output.view.count == 0:
        return
    pack = lanes(output.dtype, [tensor.dtype for tensor in inputs])
    for first, layout in launches(merged([tensor.view for tensor in inputs])):
        starts = [t.start + o * t.dtype.size for t, o in zip(inputs, layout.offsets, strict=True)]
        result = output.address + first * output.dtype.size
        operands = [(result, output.dtype.size), *zip(starts, (t.dtype.size for t in inputs), strict=True)]
        packs = Packs.of(layout, pack, operands)
        arguments = (*map(pointer, (result, *starts)), *scalars, packs.pack(), layout.pack())
        yield Launch(symbol, (packs.blocks(layout.count, block), 1, 1), (block, 1, 1), arguments)


def lanes(output: DType, inputs: Sequence[DType]) -> int:
    """Elements that a thread makes: 16 bytes of the narrowest type, but no more than 32 bytes of another.

    Of results 16 bytes, so that a wave writes without a gap, unless there are several operands to be read at a time.
    """
    sizes = [output.size, *(each.size for each in inputs)]
    return min(16 // min(sizes), 32 // max(sizes), (32 if len(inputs) > 1 else 16) // output.size)


@dataclass(frozen=True, slots=True)
class Packs:
    """How a launch deals results to threads."""

    whole: int
    """Packs that are contiguous and aligned in all operands and in the result: thread i makes the i-th."""
    lanes: int
    """Neighbouring results of every other thread: a pack, or 1."""
    unbroken: bool = False
    """Whether each of those packs is one aligned access or one element of every operand."""

    @classmethod
    def of(cls, layout: Layout, pack: int, operands: Iterable[tuple[int, int]]) -> Packs:
        """Packs of `pack` results, or single ones where rows of views are shorter than that.

        `operands` are the address and the bytes of an element of each operand and of the result.
        """
        aligned = all(address % (pack * size) == 0 for address, size in operands)
        if layout.all_flat:
            return cls(layout.count // pack if aligned else 0, pack)
        if layout.shape[0] < pack:
            return cls(0, 1)
        unbroken = all(strides[0] == 0 or in_packs(strides, pack) for strides in layout.strides)
        return cls(0, pack, unbroken and aligned and layout.shape[0] % pack == 0)

    def blocks(self, count: int, block: int) -> int:
        """Blocks of a launch that makes `count` results."""
        return -(-count // (self.lanes * block))

    def pack(self) -> bytes:
        """The bytes of `candle::Packs`."""
        return struct.pack("<III", self.whole, self.lanes, self.unbroken)
