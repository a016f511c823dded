"""Random numbers from a counter: element i depends on the seed, the offset and i alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from codegen.device.ops.elementwise import made
from codegen.device.tensor import Tensor, numpy_type

if TYPE_CHECKING:
    from codegen.device.kernels import Kernels
    from codegen.kernels.dtypes import DType


def rand_uniform(
    kernels: Kernels,
    shape: tuple[int, ...],
    element: DType,
    low: float,
    up: float,
    *,
    seed: int,
    offset: int = 0,
    first: int = 0,
) -> Tensor:
    """Numbers in [low, up), whose bounds are rounded to the element type.

    `offset` is the number of the call (64 bits, as the seed has), `first` the group of four 32-bit words from which the
    first element is made. Raises ValueError if no number of the type lies between the bounds, or their distance
    overflows.
    """
    return _filled(kernels, "rand_uniform", shape, element, _range(low, up, element), seed, offset, first)


def rand_uniform_from(kernels: Kernels, units: Tensor, element: DType, low: float, up: float) -> Tensor:
    """Numbers in [low, up) from contiguous `units` in (0, 1], as rocRAND makes them: f64 for f64, f32 for all else.

    They stay where they are if they have the element type already. Raises ValueError as `rand_uniform`.
    """
    y = units if units.dtype.name == element.name else Tensor.empty(kernels.device, units.shape, element)
    kernels.run("uniform_from", units=units, numbers=_range(low, up, element), y=y)
    return y


def rand_normal(
    kernels: Kernels,
    shape: tuple[int, ...],
    element: DType,
    mean: float,
    deviation: float,
    *,
    seed: int,
    offset: int = 0,
    first: int = 0,
) -> Tensor:
    """Numbers of a normal distribution whose parameters are rounded to the element type; the rest as `rand_uniform`."""
    numbers = [float(_rounded(mean, element)), float(_rounded(deviation, element))]
    return _filled(kernels, "rand_normal", shape, element, numbers, seed, offset, first)


def _range(low: float, up: float, element: DType) -> list[float]:
    """`candle::Uniform`: the lowest number, the distance to the upper bound, and the number below that bound."""
    lowest, upper = _rounded(low, element), _rounded(up, element)
    wide = np.float64 if element.wide == "f64" else np.float32
    with np.errstate(over="ignore"):
        extent = wide(upper) - wide(lowest)
    if not lowest < upper or not np.isfinite(extent):
        raise ValueError(f"there is no uniform distribution of {element} in [{low}, {up})")
    return [float(lowest), float(extent), float(np.nextafter(upper, lowest))]


def _rounded(value: float, element: DType) -> Any:
    """The element type's nearest number; f8e4m3 has no infinity and saturates."""
    kind = numpy_type(element)
    if element.name == "f8e4m3":
        highest = float(ml_dtypes.finfo(kind).max)  # type: ignore[no-untyped-call] # ml_dtypes has no types for it
        value = min(max(value, -highest), highest)
    with np.errstate(over="ignore"):
        return np.float64(value).astype(kind)


def _filled(
    kernels: Kernels,
    op: str,
    shape: tuple[int, ...],
    element: DType,
    numbers: list[float],
    seed: int,
    offset: int,
    first: int,
) -> Tensor:
    return made(kernels, "random", shape, element, op=op, seed=seed, call=offset, first=first, numbers=numbers)
