"""The rows: every kernel family on the sizes that Candle's CUDA kernels and PyTorch were measured on."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from codegen.bench.model import Operand, Row
from codegen.kernels.dtypes import dtype

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from codegen.device.kernels import Kernels
    from codegen.device.tensor import Tensor

FLOATS = ("f32", "f16", "bf16")
ROUNDING = {"f32": 2**-22, "f16": 2**-10, "bf16": 2**-7, "u8": 0.0, "u32": 0.0, "i64": 0.0}
"""Relative error in the 2-norm that two correct results of a type may have: both round, and order their sums."""

BIG = (1 << 27,)
SQUARE = (8192, 8192)


def rows() -> Iterator[Row]:
    """All of them, family by family."""
    for kind in FLOATS:
        yield from _elementwise(kind)
        yield from _moves(kind)
        yield from _reductions(kind)
        yield from _fused(kind)
        yield from _attention(kind)
        yield from _indexed(kind)
        yield from _images(kind)
        yield from _sorts(kind)
    yield from _small()


def _size(shape: Sequence[int]) -> str:
    count = math.prod(shape)
    return f"2^{count.bit_length() - 1}" if len(shape) == 1 and count & (count - 1) == 0 else "x".join(map(str, shape))


def _bytes(*operands: tuple[str, Sequence[int]]) -> int:
    return sum(dtype(kind).size * math.prod(shape) for kind, shape in operands)


def _torch_type(torch: Any, kind: str) -> Any:
    names = {"f32": "float32", "f16": "float16", "bf16": "bfloat16", "u8": "uint8", "i64": "int64", "u32": "uint32"}
    return getattr(torch, names[kind])


def _elementwise(kind: str) -> Iterator[Row]:
    from codegen.device.ops.binary import binary
    from codegen.device.ops.compare import compare
    from codegen.device.ops.fill import fill
    from codegen.device.ops.parametric import affine
    from codegen.device.ops.unary import unary
    from codegen.device.ops.where import where

    x = Operand(kind, BIG)
    loose = ROUNDING[kind] * 4

    def of(op: str) -> Callable[[Kernels, Sequence[Tensor]], Tensor]:
        return lambda kernels, t: unary(kernels, op, t[0])

    unaries: dict[str, Callable[[Any, Sequence[Any]], Any]] = {
        "relu": lambda torch, t: torch.relu(t[0]),
        "gelu": lambda torch, t: torch.nn.functional.gelu(t[0], approximate="tanh"),
        "exp": lambda torch, t: torch.exp(t[0]),
        "silu": lambda torch, t: torch.nn.functional.silu(t[0]),
    }
    for op, theirs in unaries.items():
        yield Row(op, kind, _size(BIG), (x,), of(op), theirs, 2 * _bytes((kind, BIG)), 0.9, tolerance=loose)
    yield Row(
        "affine",
        kind,
        _size(BIG),
        (x,),
        lambda kernels, t: affine(kernels, t[0], 1.5, 0.25),
        lambda _, t: t[0] * 1.5 + 0.25,
        2 * _bytes((kind, BIG)),
        0.9,
        tolerance=loose,
    )
    yield Row(
        "add",
        kind,
        _size(BIG),
        (x, x),
        lambda kernels, t: binary(kernels, "add", t[0], t[1]),
        lambda _, t: t[0] + t[1],
        3 * _bytes((kind, BIG)),
        0.9,
        tolerance=loose,
    )
    yield Row(
        "lt",
        kind,
        _size(BIG),
        (x, x),
        lambda kernels, t: compare(kernels, "lt", t[0], t[1]),
        lambda torch, t: (t[0] < t[1]).to(torch.uint8),
        2 * _bytes((kind, BIG)) + BIG[0],
        0.9,
    )
    yield Row(
        "where",
        kind,
        _size(BIG),
        (Operand("u8", BIG, "even"), x, x),
        lambda kernels, t: where(kernels, *t),
        lambda torch, t: torch.where(t[0].bool(), t[1], t[2]),
        3 * _bytes((kind, BIG)) + BIG[0],
        0.9,
    )
    shape = (16384, 8192)
    for name, other in (("row", (1, 8192)), ("column", (16384, 1)), ("scalar", (1, 1))):
        yield Row(
            f"add of a {name}",
            kind,
            _size(shape),
            (Operand(kind, shape), Operand(kind, other)),
            lambda kernels, t: binary(kernels, "add", t[0], t[1].broadcast(*t[0].shape)),
            lambda _, t: t[0] + t[1],
            2 * _bytes((kind, shape)),
            0.9,
            tolerance=loose,
        )

    def filled(kernels: Kernels, tensors: Sequence[Tensor]) -> Tensor:
        fill(kernels, tensors[0], 1.0)
        return tensors[0]

    yield Row(
        "fill",
        kind,
        _size(BIG),
        (x,),
        filled,
        lambda torch, t: torch.ones_like(t[0]),
        _bytes((kind, BIG)),
        0.9,
        "write",
    )
    if kind != "f32":
        yield _cast("f32", kind)
        yield _cast(kind, "f32")


def _cast(source: str, target: str) -> Row:
    from codegen.device.ops.cast import cast

    return Row(
        f"cast {source} to {target}",
        target,
        _size(BIG),
        (Operand(source, BIG),),
        lambda kernels, t: cast(kernels, t[0], dtype(target)),
        lambda torch, t: t[0].to(_torch_type(torch, target)),
        _bytes((source, BIG), (target, BIG)),
        0.9,
    )


def _moves(kind: str) -> Iterator[Row]:
    from codegen.device.ops.copy import contiguous
    from codegen.device.ops.unary import unary

    transposed = 0.85 if kind == "f32" else 0.75
    shape = (16384, 8192)
    yield Row(
        "transpose",
        kind,
        _size(shape),
        (Operand(kind, shape),),
        lambda kernels, t: contiguous(kernels, t[0].transpose(1, 0)),
        lambda _, t: t[0].t().contiguous(),
        2 * _bytes((kind, shape)),
        transposed,
    )
    yield Row(
        "relu of a transposed view",
        kind,
        _size(shape),
        (Operand(kind, shape),),
        lambda kernels, t: unary(kernels, "relu", t[0].transpose(1, 0)),
        lambda torch, t: torch.relu(t[0].t()).contiguous(),
        2 * _bytes((kind, shape)),
        1.0,
        "rival",
    )
    yield _permute("permute (b,s,h,d) to (b,h,s,d)", kind, (8, 2048, 32, 128), (0, 2, 1, 3), 0.9)
    yield _permute("permute (b,h,w,c) to (b,c,h,w)", kind, (32, 56, 56, 256), (0, 3, 1, 2), transposed)
    yield _copy2d(kind, (16384, 4096))


def _permute(name: str, kind: str, shape: tuple[int, ...], order: tuple[int, ...], goal: float) -> Row:
    from codegen.device.ops.copy import contiguous

    return Row(
        name,
        kind,
        _size(shape),
        (Operand(kind, shape),),
        lambda kernels, t: contiguous(kernels, t[0].transpose(*order)),
        lambda _, t: t[0].permute(*order).contiguous(),
        2 * _bytes((kind, shape)),
        goal,
    )


def _copy2d(kind: str, shape: tuple[int, int]) -> Row:
    from codegen.device.ops.copy import copy2d
    from codegen.device.tensor import Tensor as Own

    def into_columns(kernels: Kernels, tensors: Sequence[Tensor]) -> Tensor:
        wide = Own.empty(kernels.device, (shape[0], 2 * shape[1]), dtype(kind))
        target = wide.narrow(1, 0, shape[1])
        copy2d(kernels, tensors[0], target)
        return target

    def columns_of(torch: Any, tensors: Sequence[Any]) -> Any:
        wide = torch.empty((shape[0], 2 * shape[1]), dtype=tensors[0].dtype, device=tensors[0].device)
        wide[:, : shape[1]].copy_(tensors[0])
        return wide[:, : shape[1]]

    return Row(
        "copy2d", kind, _size(shape), (Operand(kind, shape),), into_columns, columns_of, 2 * _bytes((kind, shape)), 0.85
    )


def _reductions(kind: str) -> Iterator[Row]:
    for op in ("sum", "max", "argmax"):
        yield _reduction(op, f"{op} of the last dimension", kind, SQUARE, 1)
        yield _reduction(op, f"{op} of the first dimension", kind, SQUARE, 0)
        yield _reduction(op, f"{op} of the middle dimension", kind, (64, 1024, 1024), 1)
        yield _reduction(op, f"{op} of all", kind, (1 << 26,), 0)


def _at_places(dim: int) -> Callable[[Any, Sequence[Any], Any], Any]:
    """What lies at places of the first input: equal numbers may come in any order, so places are not compared."""
    return lambda _, tensors, places: tensors[0].gather(dim, places.long())


def _reduction(op: str, name: str, kind: str, shape: tuple[int, ...], dim: int) -> Row:
    from codegen.device.ops.reduce import reduce

    def theirs(torch: Any, tensors: Sequence[Any]) -> Any:
        function = torch.amax if op == "max" else getattr(torch, op)
        return function(tensors[0], dim=dim, keepdim=True)

    def beside_summands(torch: Any, tensors: Sequence[Any], result: Any) -> Any:
        """The sum and its summands' norm: where they cancel, an error is none of the sum's digits but of theirs."""
        norms = tensors[0].double().norm(dim=dim, keepdim=True)
        return torch.cat((result.double(), norms))

    return Row(
        name,
        kind,
        _size(shape),
        (Operand(kind, shape),),
        lambda kernels, t: reduce(kernels, op, t[0], (dim,)),
        theirs,
        _bytes((kind, shape)),
        0.8,
        "read",
        tolerance=ROUNDING[kind] * 4 if op == "sum" else 0.0,
        seen={"argmax": _at_places(dim), "sum": beside_summands}.get(op),
    )


def _fused(kind: str) -> Iterator[Row]:
    from codegen.device.ops.norm import layer_norm, rms_norm
    from codegen.device.ops.rope import rope
    from codegen.device.ops.softmax import softmax

    loose = ROUNDING[kind] * 4
    for shape, goal in (((32768, 1024), 0.85), ((4096, 32768), 0.85), ((128, 131072), 0.6)):
        yield Row(
            "softmax",
            kind,
            _size(shape),
            (Operand(kind, shape),),
            lambda kernels, t: softmax(kernels, t[0]),
            lambda torch, t: torch.softmax(t[0], -1),
            2 * _bytes((kind, shape)),
            goal,
            tolerance=loose,
        )
    shape, width = (16384, 4096), (4096,)
    yield Row(
        "rms_norm",
        kind,
        _size(shape),
        (Operand(kind, shape), Operand(kind, width)),
        lambda kernels, t: rms_norm(kernels, t[0], t[1], 1e-5),
        lambda torch, t: torch.nn.functional.rms_norm(t[0], width, t[1], 1e-5),
        2 * _bytes((kind, shape)),
        0.85,
        tolerance=loose,
    )
    yield Row(
        "layer_norm",
        kind,
        _size(shape),
        (Operand(kind, shape), Operand(kind, width), Operand(kind, width)),
        lambda kernels, t: layer_norm(kernels, t[0], t[1], t[2], 1e-5),
        lambda torch, t: torch.nn.functional.layer_norm(t[0], width, t[1], t[2], 1e-5),
        2 * _bytes((kind, shape)),
        0.85,
        tolerance=loose,
    )
    heads, angles = (8, 32, 2048, 128), (2048, 64)

    def rotated(torch: Any, tensors: Sequence[Any]) -> Any:
        x, cos, sin = tensors
        cos, sin = torch.cat((cos, cos), -1), torch.cat((sin, sin), -1)
        low, high = x.chunk(2, -1)
        return x * cos + torch.cat((-high, low), -1) * sin

    yield Row(
        "rope",
        kind,
        _size(heads),
        (Operand(kind, heads), Operand(kind, angles), Operand(kind, angles)),
        lambda kernels, t: rope(kernels, t[0], t[1], t[2]),
        rotated,
        2 * _bytes((kind, heads)),
        0.8,
        tolerance=ROUNDING[kind] * 16,
    )


def _attention(kind: str) -> Iterator[Row]:
    """A token of each of eight texts, which has to read their keys and values; a text's first tokens, which compute."""
    yield _sdpa(kind, (8, 32, 1, 128), (8, 8, 4096, 128), 0.7, "read")
    yield _sdpa(kind, (1, 32, 2048, 128), (1, 8, 2048, 128), 1.0, "rival", causal=True)


def _sdpa(
    kind: str, q: tuple[int, ...], keys: tuple[int, ...], goal: float, limit: str, *, causal: bool = False
) -> Row:
    from codegen.device.ops.sdpa import sdpa

    def theirs(torch: Any, tensors: Sequence[Any]) -> Any:
        return torch.nn.functional.scaled_dot_product_attention(*tensors, is_causal=causal, enable_gqa=True)

    return Row(
        "sdpa",
        kind,
        f"{_size(q)}, {keys[2]} keys",
        (Operand(kind, q), Operand(kind, keys), Operand(kind, keys)),
        lambda kernels, t: sdpa(kernels, t[0], t[1], t[2], causal=causal, scale=q[-1] ** -0.5),
        theirs,
        2 * _bytes((kind, q), (kind, keys)),
        goal,
        limit,
        tolerance=ROUNDING[kind] * 8,
    )


def _indexed(kind: str) -> Iterator[Row]:
    from codegen.device.ops.index_add import index_add
    from codegen.device.ops.indexing import gather, index_select

    table, picked, number = (32000, 4096), (16384, 4096), (16384,)
    ids = Operand("i64", number, "below:32000")
    yield Row(
        "index_select",
        kind,
        "16384 of 32000x4096",
        (Operand(kind, table), ids),
        lambda kernels, t: index_select(kernels, t[0], t[1], 0),
        lambda _, t: t[0].index_select(0, t[1]),
        2 * _bytes((kind, picked)),
        0.75,
    )
    columns = Operand("i64", picked, "below:4096")
    yield Row(
        "gather of dim 1",
        kind,
        _size(picked),
        (Operand(kind, picked), columns),
        lambda kernels, t: gather(kernels, t[0], t[1], 1),
        lambda _, t: t[0].gather(1, t[1]),
        2 * _bytes((kind, picked)) + _bytes(("i64", picked)),
        0.75,
    )

    def added(kernels: Kernels, tensors: Sequence[Tensor]) -> Tensor:
        index_add(kernels, tensors[0], tensors[1], tensors[2], 0)
        return tensors[0]

    yield Row(
        "index_add of dim 0",
        kind,
        "16384 into 32000x4096",
        (Operand(kind, table), ids, Operand(kind, picked)),
        added,
        lambda _, t: t[0].index_add_(0, t[1], t[2]),
        3 * _bytes((kind, picked)),
        1.0,
        "rival",
        tolerance=ROUNDING[kind],
    )
    yield _scatter_add(kind, picked, 1, picked)
    yield _scatter_add(kind, table, 0, picked)


def _scatter_add(kind: str, target: tuple[int, int], dim: int, picked: tuple[int, int]) -> Row:
    from codegen.device.ops.scatter_add import scatter_add

    def scattered(kernels: Kernels, tensors: Sequence[Tensor]) -> Tensor:
        scatter_add(kernels, tensors[0], tensors[1], tensors[2], dim)
        return tensors[0]

    return Row(
        f"scatter_add of dim {dim}",
        kind,
        f"{_size(picked)} into {_size(target)}",
        (Operand(kind, target), Operand("i64", picked, f"below:{target[dim]}"), Operand(kind, picked)),
        scattered,
        lambda _, t: t[0].scatter_add_(dim, t[1], t[2]),
        _bytes((kind, picked), (kind, target), (kind, target), ("i64", picked)),
        1.0,
        "rival",
        tolerance=ROUNDING[kind] * 16,
    )


def _images(kind: str) -> Iterator[Row]:
    from codegen.device.ops.im2col import im2col
    from codegen.device.ops.pool import max_pool2d
    from codegen.device.ops.upsample import upsample_nearest2d

    image = (16, 64, 112, 112)
    columns = (16, 112 * 112, 64 * 9)

    def unfolded(torch: Any, tensors: Sequence[Any]) -> Any:
        return torch.nn.functional.unfold(tensors[0], 3, padding=1).transpose(1, 2)

    yield Row(
        "im2col k3 p1",
        kind,
        _size(image),
        (Operand(kind, image),),
        lambda kernels, t: im2col(kernels, t[0], (3, 3), padding=1).reshaped(*columns),
        unfolded,
        _bytes((kind, image), (kind, columns)),
        0.75,
    )
    large, small = (32, 64, 224, 224), (32, 64, 112, 112)
    yield Row(
        "max_pool2d k2 s2",
        kind,
        _size(large),
        (Operand(kind, large),),
        lambda kernels, t: max_pool2d(kernels, t[0], (2, 2), (2, 2)),
        lambda torch, t: torch.nn.functional.max_pool2d(t[0], 2, 2),
        _bytes((kind, large), (kind, small)),
        0.75,
    )
    yield Row(
        "upsample_nearest2d x2",
        kind,
        _size(small),
        (Operand(kind, small),),
        lambda kernels, t: upsample_nearest2d(kernels, t[0], 224, 224),
        lambda torch, t: torch.nn.functional.interpolate(t[0], scale_factor=2, mode="nearest"),
        _bytes((kind, large), (kind, small)),
        0.75,
    )


def _sorts(kind: str) -> Iterator[Row]:
    from codegen.device.ops.argsort import argsort

    shape = (1024, 4096)
    yield Row(
        "argsort",
        kind,
        _size(shape),
        (Operand(kind, shape),),
        lambda kernels, t: argsort(kernels, t[0]),
        lambda torch, t: torch.argsort(t[0], -1),
        _bytes((kind, shape), ("u32", shape)),
        1.0,
        "rival",
        seen=_at_places(-1),
    )


ELEMENTWISE_TIME, OTHER_TIME = 1.3, 2.5
"""Microseconds of the device for an operation on a small tensor: elementwise, or with values of other elements."""


def _small() -> Iterator[Row]:
    """Operations of the rows above on 64 KiB of f32, of which most of the time goes to launching them."""
    large = {row.op: row for rows in (_elementwise, _moves, _reductions, _fused) for row in rows("f32")}
    large["cast f32 to f16"] = _cast("f32", "f16")
    square, wide, long, width = (128, 128), (16, 1024), (4, 4096), (4096,)
    yield _short(large["relu"], ELEMENTWISE_TIME, square)
    yield _short(large["gelu"], ELEMENTWISE_TIME, square)
    yield _short(large["add"], ELEMENTWISE_TIME, square, square)
    yield _short(large["affine"], ELEMENTWISE_TIME, square)
    yield _short(large["cast f32 to f16"], ELEMENTWISE_TIME, square)
    yield _short(large["transpose"], OTHER_TIME, square)
    yield _short(large["sum of the last dimension"], OTHER_TIME, wide)
    yield _short(large["softmax"], OTHER_TIME, wide)
    yield _short(large["rms_norm"], OTHER_TIME, long, width)


def _short(large: Row, goal: float, *shapes: tuple[int, ...]) -> Row:
    """A row's operation on inputs of these shapes, with as many bytes moved for each element of the first."""
    inputs = tuple(replace(operand, shape=shape) for operand, shape in zip(large.inputs, shapes, strict=True))
    moved = large.moved // math.prod(large.inputs[0].shape) * math.prod(shapes[0])
    return replace(large, dtype="f32", size=_size(shapes[0]), inputs=inputs, moved=moved, goal=goal, limit="time")
