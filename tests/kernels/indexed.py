"""References for kernels that take indices, and the operands of their tests."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from codegen.device.tensor import Tensor, numpy_type
from codegen.kernels.dtypes import Kind, dtype
from codegen.kernels.layout import View
from kernels.cases import random_values

if TYPE_CHECKING:
    from codegen.device.kernels import Kernels
    from codegen.kernels.dtypes import DType

Array = np.ndarray[Any, Any]


def random_ids(name: str, size: int, shape: tuple[int, ...], seed: int = 0, *, none: bool = True) -> Array:
    """Indices into a dimension of `size`; one in eight stands for no element."""
    random = np.random.default_rng(seed)
    kind = numpy_type(dtype(name))
    highest = np.iinfo(kind).max
    ids = random.integers(0, min(size, int(highest)), shape).astype(kind)
    return np.where(random.random(shape) < 0.125, highest, ids).astype(kind) if none else ids


def no_failure(kernels: Kernels) -> Tensor:
    """A flag that is not set."""
    return Tensor.from_numpy(kernels.device, np.zeros(1, np.uint32))


def in_words(kernels: Kernels, array: Array) -> Tensor:
    """The array on the device, its memory filled up to whole 32-bit words, as atomic additions need it."""
    flat = np.resize(array.reshape(-1), -(-max(array.size, 1) // 4) * 4) if array.size else np.zeros(4, array.dtype)
    return replace(Tensor.from_numpy(kernels.device, flat), view=View.contiguous(array.shape))


def small_integers(element: DType, shape: tuple[int, ...], seed: int) -> Array:
    """Numbers whose sums every type holds exactly, in any order; integers are from the ends of their range, too."""
    random = np.random.default_rng(seed)
    if element.kind is Kind.INTEGER:
        return random_values(element, shape, seed)
    return random.integers(-1, 2, shape).astype(numpy_type(element))


def summed(y: Array, ids: Array, x: Array, dim: int, *, rounds_each: bool = False) -> Array:
    """y after x has been added along `dim` in order, in the wide type; rounded once, or after each addition."""
    wide = {"f": y.dtype if y.dtype.itemsize > 2 else np.dtype(np.float32)}.get(y.dtype.kind, y.dtype)
    if y.dtype.kind == "V":  # ml_dtypes' types
        wide = np.dtype(np.float32)
    sums = y.astype(wide)
    with np.errstate(all="ignore"):
        for i in range(x.shape[dim]):
            of_row = np.take(ids, [i], dim)
            places = np.where(of_row == np.iinfo(ids.dtype).max, 0, of_row).astype(np.int64)
            rows = np.take(x, [i], dim).astype(wide)
            before = np.take_along_axis(sums, places, dim)
            after = before + rows
            if rounds_each:
                after = saturated(after, y.dtype).astype(wide)
            after = np.where(of_row == np.iinfo(ids.dtype).max, before, after)
            np.put_along_axis(sums, places, after, dim)
    return saturated(sums, y.dtype)


def saturated(sums: Array, kind: np.dtype[Any]) -> Array:
    """The sums rounded to a type; f8e4m3 saturates where ml_dtypes would make NaN of large numbers."""
    if kind == numpy_type(dtype("f8e4m3")):
        sums = np.clip(sums, -448, 448)
    with np.errstate(over="ignore"):
        return sums.astype(kind)


def spread(ids: Array, shape: tuple[int, ...], dim: int) -> Array:
    """One index for each element, from one for each row."""
    return np.broadcast_to(ids.reshape([-1 if axis == dim else 1 for axis in range(len(shape))]), shape)
