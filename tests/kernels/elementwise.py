"""What tests of elementwise kernels share: values of every size, views whose rows are odd, pairs, and rounding."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from codegen.device.tensor import Tensor, numpy_type
from codegen.kernels.dtypes import Kind, dtype
from kernels.cases import ViewCase, random_values, special_values
from kernels.rounding import converted

if TYPE_CHECKING:
    from codegen.device.hip import Device
    from codegen.kernels.dtypes import DType

Array = np.ndarray[Any, Any]

ROWS = (
    ViewCase("odd-rows", (9, 40), lambda t: t.narrow(1, 2, 37), lambda a: a[:, 2:39]),
    ViewCase("odd-row", (37,), lambda t: t.broadcast(9, 37), lambda a: np.broadcast_to(a, (9, 37))),
    ViewCase("odd-column", (9, 1), lambda t: t.broadcast(9, 37), lambda a: np.broadcast_to(a, (9, 37))),
    ViewCase("odd-transposed", (37, 9), lambda t: t.transpose(1, 0), lambda a: a.T),
    ViewCase("odd-swapped", (4, 3, 23), lambda t: t.transpose(1, 0, 2), lambda a: a.transpose(1, 0, 2)),
    ViewCase("short-rows", (300, 4), lambda t: t.narrow(1, 1, 3), lambda a: a[:, 1:4]),
    ViewCase("short-reversed", (2, 3, 5), lambda t: t.transpose(2, 1, 0), lambda a: a.transpose(2, 1, 0)),
    ViewCase("aligned-rows", (8, 96), lambda t: t.narrow(1, 16, 64), lambda a: a[:, 16:80]),
    ViewCase("rows-oddly-apart", (8, 69), lambda t: t.narrow(1, 0, 64), lambda a: a[:, :64]),
)
"""Rows in which a pack of elements begins anywhere, spans two rows, or spans many."""


def inputs(element: DType) -> Array:
    """Special values, numbers around zero, and numbers of every magnitude; all 256 values of f8e4m3."""
    kind = numpy_type(element)
    if element.name == "f8e4m3":
        return np.arange(256, dtype=np.uint8).view(kind)
    plain = [special_values(element), random_values(element, (1201,), special=False)]
    if element.kind is Kind.FLOAT:
        random = np.random.default_rng(7)
        limits = ml_dtypes.finfo(kind)  # type: ignore[no-untyped-call] # ml_dtypes has no types for it
        powers = random.uniform(float(limits.minexp) - 4, float(limits.maxexp), 600)
        plain.append((np.exp2(powers) * random.choice([-1, 1], 600)).astype(kind))
    return np.concatenate(plain)


def operands(element: DType) -> tuple[Array, Array]:
    """Every special value with every other, then numbers of all kinds."""
    special, many = special_values(element), inputs(element)
    pairs = np.array(list(itertools.product(range(len(special)), repeat=2)))
    shuffled = np.random.default_rng(3).permutation(many)
    return np.concatenate([special[pairs[:, 0]], many]), np.concatenate([special[pairs[:, 1]], shuffled])


def widened(array: Array, element: DType) -> Array:
    """The values in the type that kernels compute in."""
    return array.astype(numpy_type(dtype(element.wide)))


def as_stored(values: Array, element: DType) -> Array:
    """Floating-point values rounded once to a type, as Candle does it: f8e4m3 saturates. Integers stay."""
    if element.kind is not Kind.FLOAT:
        return values.astype(numpy_type(element))
    with np.errstate(over="ignore"):
        return converted(values.astype(np.float64) if element.size < 4 else values, dtype("f32"), element)


def layouts(device: Device, element: DType, shape: tuple[int, int], seed: int) -> list[tuple[Tensor, Array]]:
    """A matrix in every layout that an operand comes in, contiguous first."""
    rows, columns = shape

    def tensor(*sizes: int) -> tuple[Tensor, Array]:
        values = random_values(element, sizes, seed, special=False)
        return Tensor.from_numpy(device, values, element), values

    whole, row, column, one, wide, turned = (
        tensor(*sizes) for sizes in (shape, (columns,), (rows, 1), (1, 1), (rows, columns + 5), (columns, rows))
    )
    broadcast = [(t.broadcast(*shape), np.broadcast_to(a, shape)) for t, a in (row, column, one)]
    part = (wide[0].narrow(1, 3, columns), wide[1][:, 3 : 3 + columns])
    return [whole, *broadcast, part, (turned[0].transpose(1, 0), turned[1].T)]
