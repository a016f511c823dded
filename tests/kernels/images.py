"""Images for the kernels that take them: views of every kind, and references' arithmetic."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from codegen.device.tensor import numpy_type
from codegen.kernels.dtypes import Kind
from kernels.cases import ViewCase
from kernels.compare import epsilon

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from codegen.device.hip import Launch
    from codegen.kernels.dtypes import DType

Array = np.ndarray[Any, Any]


def image_views(shape: tuple[int, ...]) -> tuple[ViewCase, ...]:
    """Ways to lay out images (batch, channels, length) or (batch, channels, height, width)."""
    batch, channels, *sizes = shape
    rank = len(shape)
    last_first = (0, rank - 1, *range(1, rank - 1))
    wider = (batch + 1, channels + 2, *sizes[:-1], sizes[-1] + 3)
    return (
        ViewCase("contiguous", shape, lambda t: t, lambda a: a),
        ViewCase(
            "channels-last",
            (batch, *sizes, channels),
            lambda t: t.transpose(*last_first),
            lambda a: a.transpose(*last_first),
        ),
        ViewCase(
            "cut",
            wider,
            lambda t: t.narrow(0, 1, batch).narrow(1, 1, channels).narrow(rank - 1, 2, sizes[-1]),
            lambda a: a[1:, 1 : channels + 1, ..., 2 : sizes[-1] + 2],
        ),
        ViewCase("repeated", (1, *shape[1:]), lambda t: t.broadcast(*shape), lambda a: np.broadcast_to(a, shape)),
    )


def wide(values: Array, element: DType) -> Array:
    """Values in the type that kernels compute in."""
    return values.astype(numpy_type(element) if element.wide == element.name else np.float32)


def rounded_to(values: Array, element: DType) -> Array:
    """Values of a wide type as elements; f8e4m3 saturates at 448, and integers wrap."""
    if element.name == "f8e4m3":
        values = np.clip(values, -448, 448)
    with np.errstate(all="ignore"):
        return values.astype(numpy_type(element))


def unit(element: DType) -> float:
    """The relative distance between neighbouring numbers of a floating-point type; 0 for integers."""
    return epsilon(numpy_type(element)) if element.kind is Kind.FLOAT else 0.0


def with_few_blocks(launches: Iterable[Launch], across: int | None = None) -> Iterator[Launch]:
    """The launches with one block in the grid's second dimension, and `across` in the first: each does much."""
    for launch in launches:
        yield replace(launch, grid=(min(across or launch.grid[0], launch.grid[0]), 1, launch.grid[2]))
