"""Softmax along the last dimension."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codegen.device.hip import Launch
from codegen.device.kernels import grid_for, pointer, u32
from codegen.device.ops.rows import PACK, Card, Holding, Rows, held_teams, streamed_teams
from codegen.device.tensor import Tensor

if TYPE_CHECKING:
    from codegen.device.kernels import Kernels


def softmax(kernels: Kernels, x: Tensor) -> Tensor:
    """exp(x) / sum(exp(x)) along the last dimension, contiguous and of x's shape.

    Raises ValueError if `x` is not contiguous, as the CPU backend does.
    """
    y = Tensor.empty(x.device, x.shape, x.dtype)
    rows = Rows.of([y, x])
    if rows.count == 0:
        return y
    numbers, card = kernels.numbers("softmax"), Card(x.device.wave_size, x.device.multiprocessors)
    holding = Holding.of(numbers, x.dtype, "held_packed" if x.dtype.size == 2 else None)
    if teams := held_teams(rows, x.dtype, holding, card):
        packed = x.dtype.size == 2 and teams.width > card.wave_size
        symbol = f"softmax_packed_{x.dtype}_held" if packed else f"softmax_{x.dtype}_held"
    elif (chunks := chunks_of(rows, x.dtype.size, numbers, card)) is not None:
        _launch_chunks(kernels, y, x, rows, chunks)
        return y
    else:
        symbol, teams = f"softmax_{x.dtype}_streamed", streamed_teams(rows, x.dtype, holding, card)
    arguments = (pointer(y.address), pointer(x.address), rows.pack(teams.width))
    kernels.launch("softmax", [Launch(symbol, teams.grid(rows.count), (teams.block, 1, 1), arguments)])
    return y


def chunks_of(rows: Rows, size: int, numbers: dict[str, int], card: Card) -> Rows | None:
    """The rows' chunks where rows are long and too few to keep the card busy; None where they are not.

    `size` is the bytes of an element.
    """
    in_row = min(
        card.multiprocessors * numbers["blocks_per_processor"] // rows.count,
        -(-rows.length // numbers["least_chunk"]),
    )
    if in_row < 2:
        return None
    lanes = PACK // size
    length = -(-rows.length // (in_row * lanes)) * lanes
    return Rows(rows.count * -(-rows.length // length), length, rows.packed)


def _launch_chunks(kernels: Kernels, y: Tensor, x: Tensor, rows: Rows, chunks: Rows) -> None:
    block = kernels.numbers("softmax")["chunk_block"]
    grid = grid_for(chunks.count * block, block)
    totals = x.device.allocate(chunks.count * 2 * max(x.dtype.size, 4))
    geometry = (pointer(rows.length), u32(chunks.count // rows.count), chunks.pack(block))
    reading = (pointer(totals.address), pointer(x.address), *geometry)
    writing = (pointer(y.address), pointer(x.address), pointer(totals.address), *geometry)
    kernels.launch(
        "softmax",
        [
            Launch(f"softmax_{x.dtype}_totals", grid, (block, 1, 1), reading),
            Launch(f"softmax_{x.dtype}_chunks", grid, (block, 1, 1), writing),
        ],
    )
    x.device.free(totals)
