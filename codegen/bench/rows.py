"""The rows: every kernel family on the sizes that Candle's CUDA kernels and PyTorch were measured on."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from codegen.bench import operations as on
from codegen.bench.model import Operand, Row, View, size_of

if TYPE_CHECKING:
    from collections.abc import Iterator

BIG = (1 << 27,)
SQUARE = (8192, 8192)


def rows() -> Iterator[Row]:
    """All of them, family by family."""
    for kind in on.FLOATS:
        yield from _elementwise(kind)
        yield from _moves(kind)
        yield from _reductions(kind)
        yield from _fused(kind)
        yield from _attention(kind)
        yield from _indexed(kind)
        yield from _images(kind)
        yield from _sorts(kind)
    yield from _small()


def _elementwise(kind: str) -> Iterator[Row]:
    x = Operand(kind, BIG)
    for op in ("relu", "gelu", "exp", "silu"):
        yield replace(on.unary(op, x), goal=0.9)
    for row in (on.affine(x), on.binary("add", x, x), on.compare("lt", x, x)):
        yield replace(row, goal=0.9)
    yield replace(on.where(Operand("u8", BIG, "even"), x, x), size=str(x), goal=0.9)
    shape = (16384, 8192)
    for name, other in (("row", (1, 8192)), ("column", (16384, 1)), ("scalar", (1, 1))):
        row = on.binary("add", Operand(kind, shape), Operand(kind, other, views=(View("broadcast", shape),)))
        yield replace(row, op=f"add of a {name}", size=size_of(shape), goal=0.9)
    yield replace(on.fill(x), goal=0.9)
    if kind != "f32":
        yield _cast("f32", kind)
        yield _cast(kind, "f32")


def _cast(source: str, target: str) -> Row:
    return replace(on.cast(Operand(source, BIG), target), goal=0.9)


def _moves(kind: str) -> Iterator[Row]:
    transposed = 0.85 if kind == "f32" else 0.75
    shape = (16384, 8192)
    columns = Operand(kind, shape, views=(View("permute", (1, 0)),))
    yield replace(on.contiguous(columns), op="transpose", size=size_of(shape), goal=transposed)
    relu = on.unary("relu", columns)
    yield replace(relu, op="relu of a transposed view", size=size_of(shape), goal=1.0, limit="rival")
    yield _permute("permute (b,s,h,d) to (b,h,s,d)", kind, (8, 2048, 32, 128), (0, 2, 1, 3), 0.9)
    yield _permute("permute (b,h,w,c) to (b,c,h,w)", kind, (32, 56, 56, 256), (0, 3, 1, 2), transposed)
    yield replace(on.copy2d(Operand(kind, (16384, 4096))), goal=0.85)


def _permute(name: str, kind: str, shape: tuple[int, ...], order: tuple[int, ...], goal: float) -> Row:
    row = on.contiguous(Operand(kind, shape, views=(View("permute", order),)))
    return replace(row, op=name, size=size_of(shape), goal=goal)


def _reductions(kind: str) -> Iterator[Row]:
    for op in ("sum", "max", "argmax"):
        for name, shape, dim in (
            ("of the last dimension", SQUARE, 1),
            ("of the first dimension", SQUARE, 0),
            ("of the middle dimension", (64, 1024, 1024), 1),
            ("of all", (1 << 26,), 0),
        ):
            yield replace(on.reduce(op, Operand(kind, shape), dim), op=f"{op} {name}", goal=0.8)


def _fused(kind: str) -> Iterator[Row]:
    for shape, goal in (((32768, 1024), 0.85), ((4096, 32768), 0.85), ((128, 131072), 0.6)):
        yield replace(on.softmax(Operand(kind, shape)), goal=goal)
    x = Operand(kind, (16384, 4096))
    yield replace(on.rms_norm(x), goal=0.85)
    yield replace(on.layer_norm(x), goal=0.85)
    yield replace(on.rope(Operand(kind, (8, 32, 2048, 128))), goal=0.8)


def _attention(kind: str) -> Iterator[Row]:
    """A token of each of eight texts, which has to read their keys and values; a text's first tokens, which compute."""
    token = on.sdpa(Operand(kind, (8, 32, 1, 128)), Operand(kind, (8, 8, 4096, 128)))
    yield replace(token, goal=0.7, limit="read")
    yield on.sdpa(Operand(kind, (1, 32, 2048, 128)), Operand(kind, (1, 8, 2048, 128)), causal=True)


def _indexed(kind: str) -> Iterator[Row]:
    table, square = Operand(kind, (32000, 4096)), Operand(kind, (16384, 4096))
    chosen = on.index_select(table, 0, 16384)
    yield replace(chosen, op="index_select", goal=0.75)
    yield replace(on.gather(square, 1), goal=0.75)
    yield on.index_add(table, 0, 16384)
    yield on.scatter_add(square, 1, 4096)
    yield on.scatter_add(table, 0, 16384)


def _images(kind: str) -> Iterator[Row]:
    large, small = (32, 64, 224, 224), (32, 64, 112, 112)
    unfolded = on.im2col(Operand(kind, (16, 64, 112, 112)), 3, padding=1)
    yield replace(unfolded, op="im2col k3 p1", goal=0.75)
    yield replace(on.pool("max_pool2d", Operand(kind, large), 2, 2), goal=0.75)
    yield replace(on.upsample_nearest2d(Operand(kind, small), 2), goal=0.75)


def _sorts(kind: str) -> Iterator[Row]:
    yield on.argsort(Operand(kind, (1024, 4096)))


ELEMENTWISE_TIME, OTHER_TIME = 1.3, 2.5
"""Microseconds of the device for an operation on a small tensor: elementwise, or with values of other elements."""


def _small() -> Iterator[Row]:
    """Operations of the rows above on 64 KiB of f32, of which most of the time goes to launching them."""
    square, wide, long = Operand("f32", (128, 128)), Operand("f32", (16, 1024)), Operand("f32", (4, 4096))
    columns = on.contiguous(replace(square, views=(View("permute", (1, 0)),)))
    elementwise = [on.unary("relu", square), on.unary("gelu", square), on.binary("add", square, square)]
    elementwise += [on.affine(square), replace(on.cast(square, "f16"), dtype="f32")]
    others = [replace(columns, op="transpose", size=str(square))]
    others += [replace(on.reduce("sum", wide, 1), op="sum of the last dimension"), on.softmax(wide), on.rms_norm(long)]
    for rows_, goal in ((elementwise, ELEMENTWISE_TIME), (others, OTHER_TIME)):
        yield from (replace(row, goal=goal, limit="time") for row in rows_)
