"""Launches of kernels built on `candle_rocm/elementwise.h`: one kernel for contiguous memory and any other views."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codegen.device.hip import Launch
from codegen.device.kernels import pointer
from codegen.device.tensor import Tensor
from codegen.kernels.layout import launches, merged

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codegen.device.kernels import Kernels
    from codegen.kernels.dtypes import DType
    from codegen.kernels.layout import Layout


def elementwise(
    kernels: Kernels, family: str, symbol: str, inputs: Sequence[Tensor], result: DType, scalars: Sequence[bytes] = ()
) -> Tensor:
    """A new contiguous tensor of the inputs' common shape.

    The kernel takes (y, x..., scalars..., layout of the inputs).
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
        blocks = -(-threads(layout, pack) // block)
        result = output.address + first * output.dtype.size
        arguments = (*map(pointer, (result, *starts)), *scalars, layout.pack())
        yield Launch(symbol, (blocks, 1, 1), (block, 1, 1), arguments)


def lanes(output: DType, inputs: Sequence[DType]) -> int:
    """Elements that a thread makes: 16 bytes of the narrowest type, but no more than 32 bytes of another.

    Of results 16 bytes, so that a wave writes without a gap, unless there are several operands to be read at a time.
    """
    sizes = [output.size, *(each.size for each in inputs)]
    return min(16 // min(sizes), 32 // max(sizes), (32 if len(inputs) > 1 else 16) // output.size)


def threads(layout: Layout, pack: int) -> int:
    """Threads that a launch needs: one for each pack, or for each element where rows are shorter than a pack."""
    all_flat = layout.flat == (1 << len(layout.strides)) - 1
    return -(-layout.count // pack) if all_flat or layout.shape[0] >= pack else layout.count
