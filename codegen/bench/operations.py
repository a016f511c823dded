"""What can be measured: each operation on any inputs, and how PyTorch computes the same.

Bytes are those that have to move once: what a view leaves out, and what a broadcast repeats, does not count.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from codegen.bench.model import Operand, Row, size_of
from codegen.kernels.dtypes import dtype

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from codegen.device.kernels import Kernels
    from codegen.device.tensor import Tensor

    Theirs = Callable[[Any, Sequence[Any]], Any]

ROUNDING = {"f32": 2**-22, "f16": 2**-10, "bf16": 2**-7, "u8": 0.0, "u32": 0.0, "i64": 0.0}
"""Relative error in the 2-norm that two correct results of a type may have: both round, and order their sums."""

UNARIES: dict[str, Theirs] = {
    "relu": lambda torch, t: torch.relu(t[0]),
    "gelu": lambda torch, t: torch.nn.functional.gelu(t[0], approximate="tanh"),
    "exp": lambda torch, t: torch.exp(t[0]),
    "silu": lambda torch, t: torch.nn.functional.silu(t[0]),
    "neg": lambda torch, t: torch.neg(t[0]),
    "sqr": lambda torch, t: torch.square(t[0]),
    "abs": lambda torch, t: torch.abs(t[0]),
    "tanh": lambda torch, t: torch.tanh(t[0]),
    "sin": lambda torch, t: torch.sin(t[0]),
    "erf": lambda torch, t: torch.erf(t[0]),
}
BINARIES: dict[str, Theirs] = {
    "add": lambda _, t: t[0] + t[1],
    "sub": lambda _, t: t[0] - t[1],
    "mul": lambda _, t: t[0] * t[1],
    "div": lambda _, t: t[0] / t[1],
    "maximum": lambda torch, t: torch.maximum(t[0], t[1]),
    "minimum": lambda torch, t: torch.minimum(t[0], t[1]),
}
COMPARISONS: dict[str, Theirs] = {
    "lt": lambda _, t: t[0] < t[1],
    "ge": lambda _, t: t[0] >= t[1],
    "eq": lambda _, t: t[0] == t[1],
}
EXACT = ("relu", "neg", "abs", "maximum", "minimum")
"""Of those, what rounds nothing."""
REDUCTIONS: dict[str, str] = {"sum": "sum", "max": "amax", "min": "amin", "argmax": "argmax", "argmin": "argmin"}
"""What PyTorch calls them."""
POOLS: dict[str, str] = {"max_pool2d": "max_pool2d", "avg_pool2d": "avg_pool2d"}
CONVOLUTIONS = ("forward", "by input", "by weights")
"""A convolution, and the two that its gradients are."""
FLOATS = ("f32", "f16", "bf16")
CASTS = (*FLOATS, "u8", "i64")
"""Types that are cast to each other."""


def _bytes(kind: str, shape: Sequence[int]) -> int:
    return dtype(kind).size * math.prod(shape)


def _torch_type(torch: Any, kind: str) -> Any:
    names = {"f32": "float32", "f16": "float16", "bf16": "bfloat16", "u8": "uint8", "i64": "int64", "u32": "uint32"}
    return getattr(torch, names[kind])


def _cut(shape: tuple[int, ...], dim: int, length: int) -> tuple[int, ...]:
    """The shape with another length along a dimension."""
    return (*shape[:dim], length, *shape[dim + 1 :])


def _sizes(inputs: Sequence[Operand]) -> str:
    return ", ".join(dict.fromkeys(map(str, inputs)))


def _elementwise(
    op: str,
    inputs: tuple[Operand, ...],
    ours: Callable[[Kernels, Sequence[Tensor]], Tensor],
    theirs: Theirs,
    *,
    kind: str | None = None,
    result: str | None = None,
    rounds: bool = True,
) -> Row:
    """An operation with a result of its inputs' shape, of type `kind`, or `result` where a row is not called so.

    One that does not round has one right result.
    """
    kind = kind or inputs[-1].dtype
    moved = sum(own.bytes for own in inputs) + _bytes(result or kind, inputs[-1].viewed)
    # Candle's results are contiguous, whatever the inputs are. PyTorch's have the order of the inputs.
    return Row(
        op,
        kind,
        _sizes(inputs),
        inputs,
        ours,
        lambda torch, t: theirs(torch, t).contiguous(),
        moved,
        tolerance=ROUNDING[kind] * 4 if rounds else 0.0,
    )


def unary(op: str, x: Operand) -> Row:
    """One of UNARIES."""
    from codegen.device.ops.unary import unary as own

    return _elementwise(op, (x,), lambda kernels, t: own(kernels, op, t[0]), UNARIES[op], rounds=op not in EXACT)


def affine(x: Operand) -> Row:
    """x * 1.5 + 0.25."""
    from codegen.device.ops.parametric import affine as own

    return _elementwise(
        "affine", (x,), lambda kernels, t: own(kernels, t[0], 1.5, 0.25), lambda _, t: t[0] * 1.5 + 0.25
    )


def binary(op: str, left: Operand, right: Operand) -> Row:
    """One of BINARIES, of inputs of one shape."""
    from codegen.device.ops.binary import binary as own

    def ours(kernels: Kernels, t: Sequence[Tensor]) -> Tensor:
        return own(kernels, op, t[0], t[1])

    return _elementwise(op, (left, right), ours, BINARIES[op], rounds=op not in EXACT)


def compare(op: str, left: Operand, right: Operand) -> Row:
    """One of COMPARISONS, of inputs of one shape, as u8."""
    from codegen.device.ops.compare import compare as own

    def theirs(torch: Any, t: Sequence[Any]) -> Any:
        return COMPARISONS[op](torch, t).to(torch.uint8)

    def ours(kernels: Kernels, t: Sequence[Tensor]) -> Tensor:
        return own(kernels, op, t[0], t[1])

    return _elementwise(op, (left, right), ours, theirs, result="u8", rounds=False)


def where(condition: Operand, on_true: Operand, on_false: Operand) -> Row:
    """Elements of one input or the other."""
    from codegen.device.ops.where import where as own

    def theirs(torch: Any, t: Sequence[Any]) -> Any:
        return torch.where(t[0].bool(), t[1], t[2])

    inputs = (condition, on_true, on_false)
    return _elementwise("where", inputs, lambda kernels, t: own(kernels, *t), theirs, rounds=False)


def cast(x: Operand, target: str) -> Row:
    """To another element type."""
    from codegen.device.ops.cast import cast as own

    return _elementwise(
        f"cast {x.dtype} to {target}",
        (x,),
        lambda kernels, t: own(kernels, t[0], dtype(target)),
        lambda torch, t: t[0].to(_torch_type(torch, target)),
        kind=target,
        rounds=False,
    )


def fill(y: Operand) -> Row:
    """Ones."""
    from codegen.device.ops.fill import fill as own

    def filled(kernels: Kernels, tensors: Sequence[Tensor]) -> Tensor:
        own(kernels, tensors[0], 1.0)
        return tensors[0]

    return Row("fill", y.dtype, str(y), (y,), filled, lambda torch, t: torch.ones_like(t[0]), y.bytes, limit="write")


def contiguous(x: Operand) -> Row:
    """A view's elements in row-major order."""
    from codegen.device.ops.copy import contiguous as own

    moved = x.bytes + _bytes(x.dtype, x.viewed)
    return Row(
        "contiguous",
        x.dtype,
        str(x),
        (x,),
        lambda kernels, t: own(kernels, t[0]),
        lambda torch, t: t[0].clone(memory_format=torch.contiguous_format),
        moved,
    )


def copy2d(x: Operand) -> Row:
    """Rows copied into a tensor of twice their length."""
    from codegen.device.ops.copy import copy2d as own
    from codegen.device.tensor import Tensor as Own

    rows, columns = x.viewed

    def into_columns(kernels: Kernels, tensors: Sequence[Tensor]) -> Tensor:
        wide = Own.empty(kernels.device, (rows, 2 * columns), dtype(x.dtype))
        target = wide.narrow(1, 0, columns)
        own(kernels, tensors[0], target)
        return target

    def columns_of(torch: Any, tensors: Sequence[Any]) -> Any:
        wide = torch.empty((rows, 2 * columns), dtype=tensors[0].dtype, device=tensors[0].device)
        wide[:, :columns].copy_(tensors[0])
        return wide[:, :columns]

    return Row("copy2d", x.dtype, str(x), (x,), into_columns, columns_of, 2 * x.bytes)


def at_places(dim: int) -> Callable[[Any, Sequence[Any], Any], Any]:
    """What lies at places of the first input: equal numbers may come in any order, so places are not compared."""
    return lambda _, tensors, places: tensors[0].gather(dim, places.long())


def reduce(op: str, x: Operand, dim: int) -> Row:
    """One of REDUCTIONS over a dimension, which keeps a size of 1."""
    from codegen.device.ops.reduce import reduce as own

    def theirs(torch: Any, tensors: Sequence[Any]) -> Any:
        return getattr(torch, REDUCTIONS[op])(tensors[0], dim=dim, keepdim=True)

    def beside_summands(torch: Any, tensors: Sequence[Any], result: Any) -> Any:
        """The sum and its summands' norm: where they cancel, an error is none of the sum's digits but of theirs."""
        norms = tensors[0].double().norm(dim=dim, keepdim=True)
        return torch.cat((result.double(), norms))

    kind = "u32" if op.startswith("arg") else x.dtype
    results = _bytes(kind, _cut(x.viewed, dim, 1))
    seen = {"argmax": at_places(dim), "argmin": at_places(dim), "sum": beside_summands}
    return Row(
        f"{op} of dim {dim}",
        x.dtype,
        str(x),
        (x,),
        lambda kernels, t: own(kernels, op, t[0], (dim,)),
        theirs,
        x.bytes + results,
        limit="read",
        tolerance=ROUNDING[x.dtype] * 4 if op == "sum" else 0.0,
        seen=seen.get(op),
    )


def softmax(x: Operand) -> Row:
    """Of the last dimension."""
    from codegen.device.ops.softmax import softmax as own

    return _elementwise(
        "softmax", (x,), lambda kernels, t: own(kernels, t[0]), lambda torch, t: torch.softmax(t[0], -1)
    )


def rms_norm(x: Operand) -> Row:
    """Of the last dimension, with weights."""
    from codegen.device.ops.norm import rms_norm as own

    width = x.viewed[-1:]

    def theirs(torch: Any, t: Sequence[Any]) -> Any:
        return torch.nn.functional.rms_norm(t[0], width, t[1], 1e-5)

    return _normalised("rms_norm", x, 1, lambda kernels, t: own(kernels, t[0], t[1], 1e-5), theirs)


def layer_norm(x: Operand) -> Row:
    """Of the last dimension, with weights and biases."""
    from codegen.device.ops.norm import layer_norm as own

    width = x.viewed[-1:]

    def theirs(torch: Any, t: Sequence[Any]) -> Any:
        return torch.nn.functional.layer_norm(t[0], width, t[1], t[2], 1e-5)

    return _normalised("layer_norm", x, 2, lambda kernels, t: own(kernels, t[0], t[1], t[2], 1e-5), theirs)


def _normalised(
    op: str, x: Operand, parameters: int, ours: Callable[[Kernels, Sequence[Tensor]], Tensor], theirs: Theirs
) -> Row:
    inputs = (x, *[Operand(x.dtype, x.viewed[-1:])] * parameters)
    return Row(op, x.dtype, str(x), inputs, ours, theirs, 2 * x.bytes, tolerance=ROUNDING[x.dtype] * 4)


def rope(x: Operand) -> Row:
    """Of (b, h, t, d), by halves of rows."""
    from codegen.device.ops.rope import rope as own

    angles = Operand(x.dtype, (x.viewed[2], x.viewed[3] // 2))

    def rotated(torch: Any, tensors: Sequence[Any]) -> Any:
        x, cos, sin = tensors
        cos, sin = torch.cat((cos, cos), -1), torch.cat((sin, sin), -1)
        low, high = x.chunk(2, -1)
        return x * cos + torch.cat((-high, low), -1) * sin

    return Row(
        "rope",
        x.dtype,
        str(x),
        (x, angles, angles),
        lambda kernels, t: own(kernels, t[0], t[1], t[2]),
        rotated,
        2 * x.bytes,
        tolerance=ROUNDING[x.dtype] * 16,
    )


def sdpa(q: Operand, keys: Operand, *, causal: bool = False) -> Row:
    """Attention of q (b, h, m, d) over keys and values (b, g, n, d). Causal where there are as many queries as keys."""
    from codegen.device.ops.sdpa import sdpa as own

    def theirs(torch: Any, tensors: Sequence[Any]) -> Any:
        return torch.nn.functional.scaled_dot_product_attention(*tensors, is_causal=causal, enable_gqa=True)

    width = q.viewed[-1]
    return Row(
        "sdpa",
        q.dtype,
        f"{q}, {keys.viewed[2]} keys",
        (q, keys, keys),
        lambda kernels, t: own(kernels, t[0], t[1], t[2], causal=causal, scale=width**-0.5),
        theirs,
        2 * (q.bytes + keys.bytes),
        limit="rival",
        goal=1.0,
        tolerance=ROUNDING[q.dtype] * 8,
    )


def index_select(x: Operand, dim: int, number: int) -> Row:
    """`number` entries of a dimension, chosen at random."""
    from codegen.device.ops.indexing import index_select as own

    shape = x.viewed
    picked = _cut(shape, dim, number)
    return Row(
        f"index_select of dim {dim}",
        x.dtype,
        f"{number} of {x}",
        (x, Operand("i64", (number,), f"below:{shape[dim]}")),
        lambda kernels, t: own(kernels, t[0], t[1], dim),
        lambda _, t: t[0].index_select(dim, t[1]),
        2 * _bytes(x.dtype, picked),
    )


def gather(x: Operand, dim: int) -> Row:
    """As many elements as x has, chosen at random along a dimension."""
    from codegen.device.ops.indexing import gather as own

    shape = x.viewed
    return Row(
        f"gather of dim {dim}",
        x.dtype,
        str(x),
        (x, Operand("i64", shape, f"below:{shape[dim]}")),
        lambda kernels, t: own(kernels, t[0], t[1], dim),
        lambda _, t: t[0].gather(dim, t[1]),
        2 * x.bytes + _bytes("i64", shape),
    )


def _adding(own: Callable[..., None], dim: int) -> Callable[[Kernels, Sequence[Tensor]], Tensor]:
    """What adds to the first of some tensors, in place."""

    def ours(kernels: Kernels, tensors: Sequence[Tensor]) -> Tensor:
        own(kernels, *tensors, dim)
        return tensors[0]

    return ours


def index_add(y: Operand, dim: int, number: int) -> Row:
    """`number` slices added to those of y at random places of a dimension."""
    from codegen.device.ops.index_add import index_add as own

    shape = y.viewed
    added = _cut(shape, dim, number)
    return Row(
        f"index_add of dim {dim}",
        y.dtype,
        f"{number} into {y}",
        (y, Operand("i64", (number,), f"below:{shape[dim]}"), Operand(y.dtype, added)),
        _adding(own, dim),
        lambda _, t: t[0].index_add_(dim, t[1], t[2]),
        3 * _bytes(y.dtype, added),
        limit="rival",
        goal=1.0,
        tolerance=ROUNDING[y.dtype],
    )


def scatter_add(y: Operand, dim: int, number: int) -> Row:
    """Slices of y's shape but for `number` entries of a dimension, their elements added at random places along it."""
    from codegen.device.ops.scatter_add import scatter_add as own

    shape = y.viewed
    added = _cut(shape, dim, number)
    return Row(
        f"scatter_add of dim {dim}",
        y.dtype,
        f"{size_of(added)} into {y}",
        (y, Operand("i64", added, f"below:{shape[dim]}"), Operand(y.dtype, added)),
        _adding(own, dim),
        lambda _, t: t[0].scatter_add_(dim, t[1], t[2]),
        2 * y.bytes + _bytes(y.dtype, added) + _bytes("i64", added),
        limit="rival",
        goal=1.0,
        tolerance=ROUNDING[y.dtype] * 16,
    )


def im2col(x: Operand, kernel: int, *, stride: int = 1, padding: int = 0, dilation: int = 1) -> Row:
    """The windows of (b, c, h, w) as rows of a matrix."""
    from codegen.device.ops.im2col import im2col as own

    batch, channels, *image = x.viewed
    places = math.prod((size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1 for size in image)
    columns = (batch, places, channels * kernel**2)

    def unfolded(torch: Any, tensors: Sequence[Any]) -> Any:
        windows = torch.nn.functional.unfold(tensors[0], kernel, dilation, padding, stride)
        return windows.transpose(1, 2)

    def ours(kernels: Kernels, t: Sequence[Tensor]) -> Tensor:
        made = own(kernels, t[0], (kernel, kernel), stride=stride, padding=padding, dilation=dilation)
        return made.reshaped(*columns)

    window = "".join(f" {letter}{value}" for letter, value in zip("spd", (stride, padding, dilation), strict=True))
    return Row(
        f"im2col k{kernel}{window}",
        x.dtype,
        str(x),
        (x,),
        ours,
        unfolded,
        x.bytes + _bytes(x.dtype, columns),
    )


def convolve(
    direction: str, x: Operand, channels: int, kernel: int, *, stride: int = 1, padding: int = 0, dilation: int = 1
) -> Row:
    """A convolution of x (b, c, h, w) to (b, channels, ...) as one of CONVOLUTIONS.

    The gradients are computed as Candle's `backprop` asks for them: by the input as a transposed convolution, by the
    weights as one whose images are channels and whose kernel is the result's gradient.
    """
    from codegen.device.ops import conv as own

    batch, inputs, *image = x.viewed
    results = [(size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1 for size in image]
    y = Operand(x.dtype, (batch, channels, *results))
    w = Operand(x.dtype, (channels, inputs, kernel, kernel))
    # What a transposed convolution leaves out at the end of the image: rows that no window reaches.
    reached = [(n - 1) * stride + dilation * (kernel - 1) + 1 - 2 * padding for n in results]
    more = max(*(size - end for size, end in zip(image, reached, strict=True)), 0)
    window = "".join(f" {letter}{value}" for letter, value in zip("spd", (stride, padding, dilation), strict=True))
    options: dict[str, Any] = {"stride": stride, "padding": padding, "dilation": dilation}

    def forward(kernels: Kernels, t: Sequence[Tensor]) -> Tensor:
        return own.conv2d(kernels, t[0], t[1], **options)

    def by_input(kernels: Kernels, t: Sequence[Tensor]) -> Tensor:
        made = own.conv_transpose2d(kernels, t[0], t[1], output_padding=more, **options)
        return made.narrow(2, 0, image[0]).narrow(3, 0, image[1])

    def by_weights(kernels: Kernels, t: Sequence[Tensor]) -> Tensor:
        order = (1, 0, 2, 3)
        steps: dict[str, Any] = {"stride": dilation, "dilation": stride, "padding": padding}
        made = own.conv2d(kernels, t[0].transpose(*order), t[1].transpose(*order), **steps)
        return made.narrow(2, 0, kernel).narrow(3, 0, kernel).transpose(*order)

    def theirs_by_input(torch: Any, t: Sequence[Any]) -> Any:
        return torch.nn.grad.conv2d_input(x.viewed, t[1], t[0], **options)

    def theirs_by_weights(torch: Any, t: Sequence[Any]) -> Any:
        return torch.nn.grad.conv2d_weight(t[0], w.viewed, t[1], **options)

    ways: dict[str, tuple[tuple[Operand, ...], Callable[[Kernels, Sequence[Tensor]], Tensor], Theirs]] = {
        "forward": ((x, w), forward, lambda torch, t: torch.nn.functional.conv2d(*t, **options)),
        "by input": ((y, w), by_input, theirs_by_input),
        "by weights": ((x, y), by_weights, theirs_by_weights),
    }
    inputs_of, ours, theirs = ways[direction]
    return Row(
        f"conv2d {direction} k{kernel}{window}",
        x.dtype,
        f"{x}, {channels} channels",
        inputs_of,
        ours,
        theirs,
        x.bytes + w.bytes + y.bytes,
        limit="rival",
        goal=1.0,
        # Sums are of up to millions of products, whose rounding grows with the square root of their number.
        tolerance=ROUNDING[x.dtype] * (32 if x.dtype == "f32" else 4),
    )


def pool(op: str, x: Operand, window: int, stride: int) -> Row:
    """One of POOLS, of square windows."""
    from codegen.device.ops import pool as pools

    *planes, height, width = x.viewed
    pooled = (*planes, (height - window) // stride + 1, (width - window) // stride + 1)
    own = getattr(pools, op)
    return Row(
        f"{op} k{window} s{stride}",
        x.dtype,
        str(x),
        (x,),
        lambda kernels, t: own(kernels, t[0], (window, window), (stride, stride)),
        lambda torch, t: getattr(torch.nn.functional, POOLS[op])(t[0], window, stride),
        x.bytes + _bytes(x.dtype, pooled),
        tolerance=ROUNDING[x.dtype] * 4 if op == "avg_pool2d" else 0.0,
    )


def upsample_nearest2d(x: Operand, factor: int) -> Row:
    """Images whose pixels become squares."""
    from codegen.device.ops.upsample import upsample_nearest2d as own

    height, width = (factor * size for size in x.viewed[2:])
    return Row(
        f"upsample_nearest2d x{factor}",
        x.dtype,
        str(x),
        (x,),
        lambda kernels, t: own(kernels, t[0], height, width),
        lambda torch, t: torch.nn.functional.interpolate(t[0], scale_factor=factor, mode="nearest"),
        x.bytes * (1 + factor**2),
    )


def argsort(x: Operand) -> Row:
    """Of the last dimension."""
    from codegen.device.ops.argsort import argsort as own

    return Row(
        "argsort",
        x.dtype,
        str(x),
        (x,),
        lambda kernels, t: own(kernels, t[0]),
        lambda torch, t: torch.argsort(t[0], -1),
        x.bytes + _bytes("u32", x.viewed),
        limit="rival",
        goal=1.0,
        seen=at_places(-1),
    )
