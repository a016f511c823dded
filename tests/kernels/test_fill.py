"""Filling views in place: exactly their elements are written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from some import some

from codegen.device.ops.fill import fill
from codegen.device.tensor import Tensor, numpy_type
from codegen.kernels.dtypes import DTYPES, expand
from kernels.cases import ViewCase, random_values, special_values
from kernels.compare import assert_moved
from kernels.launched import launched

if TYPE_CHECKING:
    from codegen.device.kernels import Kernels
    from codegen.kernels.dtypes import DType

Array = np.ndarray[Any, Any]


def _same(value: Any) -> Any:
    return value


TARGETS = (
    ViewCase("empty", (0,), _same, _same),
    ViewCase("one", (1,), _same, _same),
    ViewCase("prime", (67,), _same, _same),
    ViewCase("large", (40_003,), _same, _same),
    ViewCase("whole", (64, 64), _same, _same),
    ViewCase("offset", (2051,), lambda t: t.narrow(0, 1, 2049), lambda a: a[1:2050]),
    ViewCase("rows", (9, 32), lambda t: t.narrow(0, 2, 5), lambda a: a[2:7]),
    ViewCase("columns", (37, 96), lambda t: t.narrow(1, 16, 64), lambda a: a[:, 16:80]),
    ViewCase("odd-columns", (37, 13), lambda t: t.narrow(1, 3, 5), lambda a: a[:, 3:8]),
    ViewCase("column", (300, 7), lambda t: t.narrow(1, 6, 1), lambda a: a[:, 6:]),
    ViewCase(
        "permuted",
        (6, 5, 8, 16),
        lambda t: t.transpose(0, 2, 1, 3).narrow(1, 1, 5),
        lambda a: a.transpose(0, 2, 1, 3)[:, 1:6],
    ),
    ViewCase("transposed", (17, 32), lambda t: t.narrow(1, 5, 20).transpose(1, 0), lambda a: a[:, 5:25].T),
)


@pytest.mark.parametrize("target", TARGETS, ids=lambda v: v.name)
def test_fill(kernels: Kernels, target: ViewCase) -> None:
    for element in some(DTYPES):
        _check(kernels, element, target, special_values(element)[1])


def test_every_value_keeps_its_bits(kernels: Kernels) -> None:
    for element in some(DTYPES):
        for value in special_values(element):
            _check(kernels, element, TARGETS[2], value)


def test_every_width_is_filled(kernels: Kernels) -> None:
    """All kernels of the family are launched by some case above."""
    with launched(kernels) as symbols:
        for element in DTYPES:
            for target in TARGETS:
                fill(kernels, target.make(kernels.device, element)[0], 1)
    assert symbols == {f"fill_{width}" for width in expand(("packed-bits",))}


def _check(kernels: Kernels, element: DType, target: ViewCase, value: Any) -> None:
    before = random_values(element, target.base)
    whole = Tensor.from_numpy(kernels.device, before, element)
    fill(kernels, target.view(whole), value)
    expected = before.copy()
    target.array(expected)[...] = np.asarray(value).astype(numpy_type(element))
    assert_moved(whole, expected)
