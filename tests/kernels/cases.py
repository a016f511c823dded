"""Inputs that kernels must survive: special values, and views of every kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from codegen.device.tensor import Tensor, numpy_type
from codegen.kernels.dtypes import DType, Kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from codegen.device.hip import Device

Array = np.ndarray[Any, Any]

BLOCK_AND_MORE = 2051
"""A prime above the most elements that one block of the elementwise kernels covers at 8 bytes each."""


def special_values(element: DType) -> Array:
    """NaN, infinities, zeros, denormals and extremes; for integers the ends of the range and their neighbours."""
    kind = numpy_type(element)
    if element.kind is not Kind.FLOAT:
        ends = np.iinfo(kind)
        integers = [ends.min, ends.min + 1, 0, 1, 2, 3, ends.max // 2, ends.max - 1, ends.max]
        return np.array(integers + ([-1, -2, -3] if ends.min < 0 else []), dtype=kind)
    limits = ml_dtypes.finfo(kind)  # type: ignore[no-untyped-call] # ml_dtypes has no types for it
    smallest = [float(limits.smallest_subnormal), 3 * float(limits.smallest_subnormal), float(limits.tiny)]
    plain = [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.75, 7.0, 100.0, float(limits.eps), float(limits.max)]
    values = [np.nan, *([np.inf] if element.name != "f8e4m3" else []), *plain, *smallest]
    with np.errstate(all="ignore"):
        return np.array([*values, *(-v for v in values)]).astype(kind)


def random_values(element: DType, shape: tuple[int, ...], seed: int = 0, *, special: bool = True) -> Array:
    """Numbers around zero (integers over their whole range), with special values strewn in unless told not to."""
    random = np.random.default_rng(seed)
    kind = numpy_type(element)
    if element.kind is Kind.FLOAT:
        values = (random.standard_normal(shape) * 3).astype(kind)
    else:
        ends = np.iinfo(kind)
        values = random.integers(ends.min, ends.max, shape, dtype=kind, endpoint=True)
    if special and values.size:
        known = special_values(element)
        flat = values.reshape(-1)
        places = random.permutation(flat.size)[: len(known)]
        flat[places] = known[: len(places)]
    return values


@dataclass(frozen=True, slots=True)
class ViewCase:
    """A way to lay out an operand: the array that its elements are, and the tensor on the device."""

    name: str
    base: tuple[int, ...]
    """Shape of the memory."""
    view: Callable[[Tensor], Tensor]
    """The view taken on the device."""
    array: Callable[[Array], Array]
    """The same view taken by numpy."""

    def make(self, device: Device, element: DType, seed: int = 0, *, special: bool = True) -> tuple[Tensor, Array]:
        """The tensor and the array it must equal."""
        values = random_values(element, self.base, seed, special=special)
        return self.view(Tensor.from_numpy(device, values, element)), self.array(values)


def _same(value: Any) -> Any:
    return value


VIEWS = (
    ViewCase("empty", (0,), _same, _same),
    ViewCase("empty-2d", (3, 0), _same, _same),
    ViewCase("scalar", (), _same, _same),
    ViewCase("one", (1,), _same, _same),
    ViewCase("prime", (67,), _same, _same),
    ViewCase("large", (BLOCK_AND_MORE,), _same, _same),
    ViewCase("matrix", (13, 64), _same, _same),
    ViewCase("offset", (101,), lambda t: t.narrow(0, 1, 97), lambda a: a[1:98]),
    ViewCase("columns", (7, 48), lambda t: t.narrow(1, 8, 32), lambda a: a[:, 8:40]),
    ViewCase("odd-columns", (7, 13), lambda t: t.narrow(1, 3, 5), lambda a: a[:, 3:8]),
    ViewCase("transposed", (17, 32), lambda t: t.transpose(1, 0), lambda a: a.T),
    ViewCase("permuted", (3, 5, 4, 8), lambda t: t.transpose(0, 2, 1, 3), lambda a: a.transpose(0, 2, 1, 3)),
    ViewCase("reordered", (3, 5, 4, 7), lambda t: t.transpose(3, 1, 0, 2), lambda a: a.transpose(3, 1, 0, 2)),
    ViewCase("row", (32,), lambda t: t.broadcast(9, 32), lambda a: np.broadcast_to(a, (9, 32))),
    ViewCase("column", (9, 1), lambda t: t.broadcast(9, 32), lambda a: np.broadcast_to(a, (9, 32))),
    ViewCase("repeated", (1,), lambda t: t.broadcast(300), lambda a: np.broadcast_to(a, (300,))),
)
"""Every kind of view that an elementwise kernel meets."""
