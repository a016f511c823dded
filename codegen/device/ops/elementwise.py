"""Launches of kernels built on `candle_rocm/elementwise.h`: a contiguous form and one for any views."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codegen.device.hip import Launch
from codegen.device.kernels import grid_for, pointer
from codegen.device.tensor import Tensor
from codegen.kernels.layout import launches, merged

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codegen.device.kernels import Kernels
    from codegen.kernels.dtypes import DType


def elementwise(
    kernels: Kernels, family: str, symbol: str, inputs: Sequence[Tensor], result: DType, scalars: Sequence[bytes] = ()
) -> Tensor:
    """A new contiguous tensor of the inputs' common shape, from `symbol` or `symbol`_strided.

    The kernels take (y, x..., scalars..., count) and (y, x..., scalars..., layout).
    """
    output = Tensor.empty(kernels.device, inputs[0].shape, result)
    block = kernels.numbers(family)["block"]
    kernels.launch(family, plan(symbol, block, inputs, output, scalars))
    return output


def plan(
    symbol: str, block: int, inputs: Sequence[Tensor], output: Tensor, scalars: Sequence[bytes] = ()
) -> Iterator[Launch]:
    """The launches of an elementwise op; none for an empty tensor."""
    count = output.view.count
    if count == 0:
        return
    smallest = min(tensor.dtype.size for tensor in (output, *inputs))
    largest = max(tensor.dtype.size for tensor in (output, *inputs))
    lanes = min(16 // smallest, 32 // largest)
    if all(tensor.view.is_contiguous for tensor in inputs):
        addresses = (output.address, *(tensor.address for tensor in inputs))
        arguments = (*map(pointer, addresses), *scalars, pointer(count))
        yield Launch(symbol, grid_for(-(-count // lanes), block), (block, 1, 1), arguments)
        return
    for first, layout in launches(merged([tensor.view for tensor in inputs])):
        starts = [t.start + o * t.dtype.size for t, o in zip(inputs, layout.offsets, strict=True)]
        arguments = (
            pointer(output.address + first * output.dtype.size),
            *map(pointer, starts),
            *scalars,
            layout.pack(),
        )
        yield Launch(f"{symbol}_strided", grid_for(-(-layout.count // lanes), block), (block, 1, 1), arguments)
