"""Casts, bit for bit: all numbers of the types of 8 and 16 bits, and around all halfway points of the narrow floats."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from some import some

from codegen.device.ops.cast import cast
from codegen.device.tensor import Tensor, numpy_type
from codegen.kernels.dtypes import DTYPES, dtype
from kernels.cases import VIEWS, random_values, special_values
from kernels.compare import assert_same_bits
from kernels.rounding import NARROW, converted, halfway_points

if TYPE_CHECKING:
    from codegen.device.kernels import Kernels
    from codegen.kernels.dtypes import DType

Array = np.ndarray[Any, Any]


def every_value(element: DType) -> Array:
    """All values of a type of 8 or 16 bits; of others, values around every power of 2, special and random ones."""
    kind = numpy_type(element)
    if element.size <= 2:
        bits = np.arange(1 << (8 * element.size), dtype=np.uint32)
        return bits.astype({1: np.uint8, 2: np.uint16}[element.size]).view(kind)
    random = random_values(element, (1024,))
    powers = [sign * 2**power + near for power in range(66) for near in (-3, -2, -1, 0, 1, 2, 3) for sign in (1, -1)]
    if np.issubdtype(kind, np.floating):
        halves = [sign * (2**power + near) for power in range(17) for near in (-0.5, 0.25, 0.5) for sign in (1, -1)]
        tiny = [sign * 2.0**-power for power in range(1, 155) for sign in (1, -1)]
        ladder = np.array([*map(float, powers), *halves, *tiny], dtype=kind)
    else:
        ladder = np.array([power & ((1 << 8 * element.size) - 1) for power in powers], dtype=np.uint64).astype(kind)
    return np.concatenate([ladder, special_values(element), random])


@pytest.mark.parametrize("source", DTYPES, ids=str)
def test_every_value(kernels: Kernels, source: DType) -> None:
    values = every_value(source)
    x = Tensor.from_numpy(kernels.device, values, source)
    for to in some(DTYPES):
        assert_same_bits(cast(kernels, x, to), converted(values, source, to))


@pytest.mark.parametrize("to", [dtype(name) for name in NARROW], ids=str)
@pytest.mark.parametrize("source", [dtype("f32"), dtype("f64")], ids=str)
def test_rounding_halfway(kernels: Kernels, source: DType, to: DType) -> None:
    values = halfway_points(to, source)
    x = Tensor.from_numpy(kernels.device, values, source)
    assert_same_bits(cast(kernels, x, to), converted(values, source, to))


@pytest.mark.parametrize("source", DTYPES, ids=str)
def test_long_rows(kernels: Kernels, source: DType) -> None:
    """Rows that begin and end anywhere, so that packs of the result lie within one or reach over the end of it."""
    for first, columns in ((1, 1021), (2, 1022), (4, 1024)):
        values = random_values(source, (3, 1030))
        x = Tensor.from_numpy(kernels.device, values, source).narrow(1, first, columns)
        for to in (dtype("u8"), dtype("f16"), dtype("i32"), dtype("f64")):
            assert_same_bits(cast(kernels, x, to), converted(values[:, first : first + columns], source, to))


@pytest.mark.parametrize("source", DTYPES, ids=str)
def test_views(kernels: Kernels, source: DType) -> None:
    for view in some(VIEWS):
        x, array = view.make(kernels.device, source)
        for to in (dtype("u8"), dtype("f16"), dtype("i32"), dtype("f64")):
            assert_same_bits(cast(kernels, x, to), converted(array, source, to))
