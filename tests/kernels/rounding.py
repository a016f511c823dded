"""What Candle's CPU backend makes of a number of one type as another, without any of the kernels' bit arithmetic.

Numbers of the narrow floating-point types are looked up in the sorted list of all of them.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from codegen.device.tensor import numpy_type
from codegen.kernels.dtypes import Kind

if TYPE_CHECKING:
    from codegen.kernels.dtypes import DType

Array = np.ndarray[Any, Any]

NARROW = ("bf16", "f16", "f8e4m3")
"""Types of which all numbers are listed."""


def converted(values: Array, source: DType, to: DType) -> Array:
    """Every value as type `to`; values of bf16 and f8e4m3 come and go as ml_dtypes has them.

    Source: `to_dtype` in candle-core/src/cpu_backend/mod.rs; half 2.7 on x86-64 with F16C, float8 0.7.
    """
    with np.errstate(all="ignore"):
        if to.kind is not Kind.FLOAT:
            wrapped = source.kind is not Kind.FLOAT
            return values.astype(numpy_type(to)) if wrapped else _saturated(values.astype(np.float64), to)
        if to.name not in NARROW:
            return values.astype(numpy_type(to))
        exact = values.astype(np.float32).astype(np.float64) if source.kind is not Kind.FLOAT else values
        exact = exact.astype(np.float64)
        if source.name == "f64" and to.name == "f16":
            exact = exact.astype(np.float32).astype(np.float64)
        if source.name == "f64" and to.name == "bf16":
            exact = _without_lower_half(exact)
        return _nearest(exact, to)


def halfway_points(to: DType, source: DType) -> Array:
    """Around every number halfway between two of `to`: itself, its neighbours in `source`, and where halves round.

    `source` is f32 or f64; both signs. Two more points, for f64, differ from halfway in the lower 32 bits only and in
    the lowest of the upper ones.
    """
    kind = numpy_type(source)
    middle = _middles(to).astype(kind)
    points = [middle, np.nextafter(middle, kind.type(np.inf)), np.nextafter(middle, kind.type(-np.inf))]
    if source.name == "f64":
        bits = middle.view(np.uint64)
        points += [(bits + np.uint64(step)).view(kind) for step in (0xFFFFFFFF, 1 << 32)]
    positive = np.concatenate(points)
    return np.concatenate([positive, -positive])


@cache
def numbers(to: DType) -> Array:
    """All numbers of a narrow type from 0 up, as f64, each at the place of its bits, and the one that would be next.

    That is where values become infinity, or would become f8e4m3's NaN.
    """
    kind = numpy_type(to)
    last = int(np.array(ml_dtypes.finfo(kind).max).view(_bits(to)))  # type: ignore[no-untyped-call] # no types for it
    known = np.arange(last + 1, dtype=_bits(to)).view(kind).astype(np.float64)
    return np.append(known, known[-1] + (known[-1] - known[-2]))


def _middles(to: DType) -> Array:
    known = numbers(to)
    return known[:-1] + (known[1:] - known[:-1]) / 2


def _nearest(exact: Array, to: DType) -> Array:
    """Round to nearest, ties to even bits; beyond the last number is infinity, or for f8e4m3 the last number."""
    middles, magnitude = _middles(to), np.abs(exact)
    below = np.searchsorted(middles, magnitude, side="left")
    above = np.searchsorted(middles, magnitude, side="right")
    bits = np.where(below != above, above - above % 2, below)
    if to.name == "f8e4m3":
        bits = np.minimum(bits, len(middles) - 1)
    sign = np.signbit(exact).astype(np.int64) << (8 * to.size - 1)
    not_a_number = np.array(np.nan, dtype=numpy_type(to)).view(_bits(to)).astype(np.int64)
    return np.where(np.isnan(exact), not_a_number, bits | sign).astype(_bits(to)).view(numpy_type(to))


def _saturated(exact: Array, to: DType) -> Array:
    """Towards zero; NaN is 0."""
    ends = np.iinfo(numpy_type(to))
    too_large, too_small = exact >= float(ends.max) + 1, exact <= float(ends.min)
    inside = np.where(np.isnan(exact) | too_large | too_small, 0, exact)
    result = np.trunc(inside).astype(numpy_type(to))
    return np.where(too_large, ends.max, np.where(too_small, ends.min, result)).astype(numpy_type(to))


def _without_lower_half(exact: Array) -> Array:
    """What half looks at: the upper 32 bits. NaN stays NaN."""
    upper = (exact.view(np.uint64) & np.uint64(0xFFFFFFFF00000000)).view(np.float64)
    return np.where(np.isnan(exact), exact, upper)


def _bits(to: DType) -> np.dtype[Any]:
    return np.dtype({1: np.uint8, 2: np.uint16}[to.size])
