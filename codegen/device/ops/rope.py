"""Rotary position embedding."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from codegen.device.hip import Launch
from codegen.device.kernels import MAX_GRID, pointer, u32
from codegen.device.tensor import Tensor
from codegen.kernels.layout import Divisor

if TYPE_CHECKING:
    from codegen.device.kernels import Kernels


def rope(
    kernels: Kernels, x: Tensor, cos: Tensor, sin: Tensor, *, interleaved: bool = False, heads_inside: bool = False
) -> Tensor:
    """x (b, h, t, d), or (b, t, h, d) if `heads_inside`, rotated by the angles of (t, d / 2) or (b, t, d / 2).

    All tensors are contiguous and of one type. Pairs are neighbours if `interleaved`, else d / 2 apart.
    """
    batch, second, third, depth = x.shape
    heads, length = (third, second) if heads_inside else (second, third)
    rows, half = batch * heads * length, depth // 2
    output = Tensor.empty(kernels.device, x.shape, x.dtype)
    if rows * half == 0:
        return output
    batch_stride = length * half if len(cos.shape) == 3 else 0
    inner = heads if heads_inside else 1
    positions = struct.pack("<I", rows) + b"".join(_divisor(size) for size in (inner, length, heads * length))
    positions += struct.pack("<Q", batch_stride)
    block = kernels.numbers("rope")["block"]
    lanes = (8 if interleaved else 16) // x.dtype.size
    across = min(block, 1 << (-(-half // lanes) - 1).bit_length())
    down = block // across
    symbol = f"rope_i_{x.dtype}" if interleaved else f"rope_{x.dtype}"
    addresses = (output.address, x.address, cos.address, sin.address)
    arguments = (*map(pointer, addresses), u32(half), positions)
    grid = (min(-(-rows // down), MAX_GRID), 1, 1)
    kernels.launch("rope", [Launch(symbol, grid, (across, down, 1), arguments)])
    return output


def _divisor(size: int) -> bytes:
    divisor = Divisor.of(size)
    return struct.pack("<III", divisor.size, divisor.magic, divisor.shift)
