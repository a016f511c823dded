"""The places of each row's elements in sorted order."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from codegen.device.hip import Launch
from codegen.device.kernels import MAX_GRID, pointer, u32
from codegen.device.ops.ids import require_contiguous
from codegen.device.tensor import Tensor
from codegen.kernels.dtypes import DType, Kind, dtype, moved_as

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codegen.device.kernels import Kernels

FAMILY = "argsort"

_HIGHEST = {"f8e4m3": 0x7E, "bf16": 0x7F80, "f16": 0x7C00, "f32": 0x7F800000, "f64": 0x7FF0 << 48}
"""The bits of each float's largest magnitude that is not NaN: infinity, but f8e4m3 has none."""


def argsort(kernels: Kernels, x: Tensor, *, descending: bool = False) -> Tensor:
    """The u32 places that sort the last dimension of x; stable, and NaN counts as larger than every number.

    x is contiguous, of any rank but 0, with rows of fewer than 2^31 elements. Raises ValueError for a view.
    """
    require_contiguous(x)
    y = Tensor.empty(kernels.device, x.shape, dtype("u32"))
    numbers = kernels.numbers(FAMILY)
    if x.view.count == 0:
        return y
    if x.shape[-1] <= tile_of(numbers):
        kernels.launch(FAMILY, [row_launch(numbers, y, x, descending=descending)])
        return y
    keys = [Tensor.empty(kernels.device, x.shape, moved_as(x.dtype)) for _ in range(2)]
    places = [Tensor.empty(kernels.device, x.shape, y.dtype) for _ in range(2)]
    kernels.launch(FAMILY, merge_launches(numbers, y, x, keys, places, descending=descending))
    for tensor in (*keys, *places):
        kernels.device.free(tensor.buffer)
    return y


def tile_of(numbers: dict[str, int]) -> int:
    """Pairs that a block sorts in LDS."""
    return numbers["block"] * numbers["per_thread"]


def lds_of(numbers: dict[str, int], element: DType) -> int:
    """Bytes of a tile in LDS: keys, of 16 bits at least, and 16-bit places, with a gap after every 32."""
    return (tile_of(numbers) + tile_of(numbers) // 32) * (max(element.size, 2) + 2)


def row_launch(numbers: dict[str, int], y: Tensor, x: Tensor, *, descending: bool) -> Launch:
    """The launch that sorts rows of at most a tile."""
    n = x.shape[-1]
    rows = x.view.count // n
    length = max(numbers["per_thread"], 1 << (n - 1).bit_length())
    return Launch(
        f"argsort_{moved_as(x.dtype)}",
        _grid(-(-rows // (tile_of(numbers) // length))),
        (numbers["block"], 1, 1),
        (
            pointer(y.address),
            pointer(x.address),
            pointer(rows),
            u32(n),
            u32(length.bit_length() - 1),
            order_argument(x.dtype, descending=descending),
        ),
        lds_of(numbers, x.dtype),
    )


def merge_launches(
    numbers: dict[str, int], y: Tensor, x: Tensor, keys: list[Tensor], places: list[Tensor], *, descending: bool
) -> Iterator[Launch]:
    """The launches that sort longer rows: all tiles, then runs of twice the length each time."""
    n, tile = x.shape[-1], tile_of(numbers)
    rows = x.view.count // n
    symbol = f"argsort_{moved_as(x.dtype)}"
    grid, block, lds = _grid(rows * -(-n // tile)), (numbers["block"], 1, 1), lds_of(numbers, x.dtype)
    order = order_argument(x.dtype, descending=descending)
    addresses = [keys[0].address, places[0].address, x.address]
    yield Launch(f"{symbol}_tiles", grid, block, (*map(pointer, addresses), pointer(rows), u32(n), order), lds)
    length, now = tile, 0
    while length < n:
        last = 2 * length >= n
        to = (0, y.address) if last else (keys[1 - now].address, places[1 - now].address)
        addresses = [*to, keys[now].address, places[now].address]
        yield Launch(
            f"{symbol}_merge", grid, block, (*map(pointer, addresses), pointer(rows), u32(n), u32(length)), lds
        )
        length, now = 2 * length, 1 - now


def order_argument(element: DType, *, descending: bool) -> bytes:
    """The bytes of `Order` in `templates/hip/argsort.hip.j2`."""
    numbers = 2 if element.kind is Kind.FLOAT else 1 if element.name.startswith("i") else 0
    return struct.pack("<IIQ", numbers, descending, _HIGHEST.get(element.name, 0))


def _grid(blocks: int) -> tuple[int, int, int]:
    return (min(blocks, MAX_GRID), 1, 1)
