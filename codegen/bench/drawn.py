"""Rows that nobody chose: operations, sizes, views and element types drawn as specs/bench.yaml says.

A row is made of the seed and its number alone, so that one can be repeated without those before it.
"""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

from codegen.bench import operations as on
from codegen.bench.model import Operand, Row, View

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from codegen.spec.bench import Drawing, Family, Range

FEW = 16
"""A range of no more numbers than this is drawn evenly."""
MOST_PRODUCTS = 1 << 37
"""Of numbers, in a convolution: a card takes milliseconds for so many."""


def drawn(drawing: Drawing, seed: int, number: int) -> Row:
    """Row `number` of a seed, with both in its name."""
    random = Random(f"{seed}/{number}")
    families = drawing.families
    name = _weighted(random, {family: of.weight for family, of in families.items()})
    row = MAKERS[name](Draw(random, drawing, families[name]))
    return replace(row, op=f"#{number} {row.op}")


class Draw:
    """The numbers of one row, in the order in which they are asked for."""

    def __init__(self, random: Random, drawing: Drawing, family: Family) -> None:
        self._random = random
        self._drawing = drawing
        self._ranges = family.ranges
        self.dtype: str = _weighted(random, drawing.dtypes)
        self.elements = self._between(drawing.elements)

    def number(self, name: str) -> int:
        """One of the family's numbers."""
        return self._between(self._ranges[name])

    def one_of(self, choices: Sequence[str]) -> str:
        """Each as likely."""
        return self._random.choice(choices)

    def below(self, count: int) -> int:
        """A number from 0 to count - 1."""
        return self._random.randrange(count)

    def rest(self, *sizes: int) -> int:
        """A size that brings others to the number of elements, one more or less as often as not."""
        return self._even_or_odd(self.elements // math.prod(sizes), (1, self.elements))

    def shape(self) -> tuple[int, ...]:
        """As many dimensions as the family's `rank` says; how long each is depends on chance."""
        parts = [self._random.expovariate(1) for _ in range(self.number("rank"))]
        bits = math.log2(self.elements) / sum(parts)
        return tuple(self._even_or_odd(round(2 ** (bits * part)), (1, self.elements)) for part in parts)

    def operand(self, shape: tuple[int, ...], dtype: str | None = None, fill: str = "normal") -> Operand:
        """An input that is seen in this shape, whatever its memory looks like."""
        return self._operand(shape, dtype or self.dtype, fill, self._drawing.views)

    def unrepeated(self, shape: tuple[int, ...]) -> Operand:
        """The same, but for broadcasts."""
        ways = {way: weight for way, weight in self._drawing.views.items() if way != "broadcast"}
        return self._operand(shape, self.dtype, "normal", ways)

    def _operand(self, shape: tuple[int, ...], dtype: str, fill: str, ways: Mapping[Any, int]) -> Operand:
        way = _weighted(self._random, ways)
        memory, view = list(shape), None
        if way == "offset":
            start = self._random.randint(1, 7)
            memory[0] += start
            view = View("narrow", (0, start, shape[0]))
        elif way == "narrow":
            more = self._random.randint(1, shape[-1])
            memory[-1] += more
            view = View("narrow", (len(shape) - 1, self._random.randint(0, more), shape[-1]))
        elif way == "permute":
            order = self._random.sample(range(len(shape)), len(shape))
            for size, dim in zip(shape, order, strict=True):
                memory[dim] = size
            view = View("permute", tuple(order)) if len(order) > 1 else None
        elif way == "broadcast":
            memory[self.below(len(shape))] = 1
            view = View("broadcast", shape)
        return Operand(dtype, tuple(memory), fill, (view,) if view else ())

    def _between(self, ends: Range) -> int:
        low, high = ends
        if high - low < FEW:
            return self._random.randint(low, high)
        exact = math.exp(self._random.uniform(math.log(max(low, 1)), math.log(high)))
        return self._even_or_odd(round(exact), ends)

    def _even_or_odd(self, size: int, ends: Range) -> int:
        """Nearly `size`: odd or even, which is as likely."""
        wanted = self._random.randrange(2)
        near = size if size % 2 == wanted else size + self._random.choice((-1, 1))
        return min(max(near, ends[0]), ends[1])


def _weighted(random: Random, weights: Mapping[Any, int]) -> Any:
    return random.choices(list(weights), list(weights.values()))[0]


def _unary(draw: Draw) -> Row:
    return on.unary(draw.one_of(list(on.UNARIES)), draw.operand(draw.shape()))


def _affine(draw: Draw) -> Row:
    return on.affine(draw.operand(draw.shape()))


def _binary(draw: Draw) -> Row:
    shape = draw.shape()
    return on.binary(draw.one_of(list(on.BINARIES)), draw.operand(shape), draw.operand(shape))


def _compare(draw: Draw) -> Row:
    shape = draw.shape()
    return on.compare(draw.one_of(list(on.COMPARISONS)), draw.operand(shape), draw.operand(shape))


def _where(draw: Draw) -> Row:
    shape = draw.shape()
    return on.where(draw.operand(shape, "u8", "even"), draw.operand(shape), draw.operand(shape))


def _cast(draw: Draw) -> Row:
    source = draw.one_of(on.CASTS)
    target = draw.one_of([kind for kind in on.CASTS if kind != source])
    # All of these types have the numbers below 100.
    fill = "normal" if source in on.FLOATS and target in on.FLOATS else "below:100"
    return on.cast(draw.operand(draw.shape(), source, fill), target)


def _contiguous(draw: Draw) -> Row:
    return on.contiguous(draw.operand(draw.shape()))


def _copy2d(draw: Draw) -> Row:
    columns = draw.number("columns")
    return on.copy2d(Operand(draw.dtype, (draw.rest(columns), columns)))


def _reduce(draw: Draw) -> Row:
    shape = draw.shape()
    return on.reduce(draw.one_of(list(on.REDUCTIONS)), draw.unrepeated(shape), draw.below(len(shape)))


def _rows(draw: Draw) -> Operand:
    length = draw.number("length")
    return Operand(draw.dtype, (draw.rest(length), length))


def _softmax(draw: Draw) -> Row:
    return on.softmax(_rows(draw))


def _norm(draw: Draw) -> Row:
    return (on.rms_norm, on.layer_norm)[draw.below(2)](_rows(draw))


def _rope(draw: Draw) -> Row:
    heads, width = draw.number("heads"), draw.number("width") // 2 * 2
    batch = 1 + draw.below(4)
    return on.rope(Operand(draw.dtype, (batch, heads, draw.rest(batch, heads, width), width)))


def _whole(draw: Draw) -> tuple[Operand, int]:
    """A contiguous input, and one of its dimensions."""
    shape = draw.shape()
    return Operand(draw.dtype, shape), draw.below(len(shape))


def _index_select(draw: Draw) -> Row:
    x, dim = _whole(draw)
    return on.index_select(x, dim, _entries(draw, x, dim))


def _gather(draw: Draw) -> Row:
    return on.gather(*_whole(draw))


def _index_add(draw: Draw) -> Row:
    y, dim = _whole(draw)
    return on.index_add(y, dim, _entries(draw, y, dim))


def _scatter_add(draw: Draw) -> Row:
    y, dim = _whole(draw)
    return on.scatter_add(y, dim, _entries(draw, y, dim))


def _entries(draw: Draw, x: Operand, dim: int) -> int:
    """How many entries of a dimension are picked: so many that the row's elements are not exceeded."""
    others = math.prod(x.shape) // x.shape[dim]
    return max(min(draw.number("number"), draw.elements // others), 1)


def _argsort(draw: Draw) -> Row:
    return on.argsort(_rows(draw))


def _images(draw: Draw, most: int) -> Operand:
    """(b, c, h, w) of up to `most` elements, with images that are about as wide as they are high."""
    height, channels = draw.number("side"), draw.number("channels")
    width = max(height + draw.below(height) - height // 2, 7)
    batch = max(min(draw.elements, most) // (channels * height * width), 1)
    return Operand(draw.dtype, (batch, channels, height, width))


def _im2col(draw: Draw) -> Row:
    kernel, stride, padding = draw.number("kernel"), draw.number("stride"), draw.number("padding")
    dilation = draw.number("dilation") if kernel <= 3 else 1  # so that it fits into the smallest image
    x = _images(draw, draw.elements * stride**2 // kernel**2)
    return on.im2col(x, kernel, stride=stride, padding=padding, dilation=dilation)


def _convolve(draw: Draw) -> Row:
    """Of no more than 2^37 products, and with a result that is no larger than images may be."""
    kernel, stride, padding = draw.number("kernel"), draw.number("stride"), draw.number("padding")
    dilation = draw.number("dilation") if kernel <= 3 else 1  # so that it fits into the smallest image
    channels = draw.number("results")
    x = _images(draw, draw.elements)
    batch, inputs, height, width = x.shape
    pixels = (height // stride + 2 * padding) * (width // stride + 2 * padding)
    most = min(draw.elements // (channels * pixels), MOST_PRODUCTS // (channels * inputs * kernel**2 * pixels))
    x = replace(x, shape=(max(min(batch, most), 1), inputs, height, width))
    direction = draw.one_of(on.CONVOLUTIONS)
    return on.convolve(direction, x, channels, kernel, stride=stride, padding=padding, dilation=dilation)


def _pool(draw: Draw) -> Row:
    op, window, stride = draw.one_of(list(on.POOLS)), draw.number("kernel"), draw.number("stride")
    return on.pool(op, _images(draw, draw.elements), window, stride)


def _upsample(draw: Draw) -> Row:
    factor = draw.number("factor")
    return on.upsample_nearest2d(_images(draw, draw.elements // factor**2), factor)


def _sdpa(draw: Draw) -> Row:
    """A token of each text, a few, or the first ones of a text, which are causal."""
    groups, sharing, width = draw.number("heads"), draw.number("sharing"), draw.number("width") // 8 * 8
    queries, keys = ((1, draw.number("keys")), (draw.number("queries"), draw.number("keys")))[draw.below(2)]
    causal = queries > 1 and draw.below(2) == 1
    keys = queries if causal else keys
    batch = max(draw.elements // (groups * sharing * width * max(keys // sharing, queries)), 1)
    q = Operand(draw.dtype, (batch, groups * sharing, queries, width))
    return on.sdpa(q, Operand(draw.dtype, (batch, groups, keys, width)), causal=causal)


MAKERS: dict[str, Callable[[Draw], Row]] = {
    "unary": _unary,
    "affine": _affine,
    "binary": _binary,
    "compare": _compare,
    "where": _where,
    "cast": _cast,
    "contiguous": _contiguous,
    "copy2d": _copy2d,
    "reduce": _reduce,
    "softmax": _softmax,
    "norm": _norm,
    "rope": _rope,
    "index_select": _index_select,
    "gather": _gather,
    "index_add": _index_add,
    "scatter_add": _scatter_add,
    "argsort": _argsort,
    "im2col": _im2col,
    "convolve": _convolve,
    "pool": _pool,
    "upsample": _upsample,
    "sdpa": _sdpa,
}
"""What draws a row of each family of the spec."""
