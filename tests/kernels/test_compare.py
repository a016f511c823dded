"""Comparison kernels against numpy."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from some import some

from codegen.device.ops.compare import compare
from codegen.device.tensor import Tensor
from codegen.kernels.dtypes import DTYPES
from kernels.cases import VIEWS
from kernels.compare import assert_ulps
from kernels.elementwise import ROWS, operands, widened

if TYPE_CHECKING:
    from collections.abc import Callable

    from codegen.device.kernels import Kernels
    from codegen.kernels.dtypes import DType
    from kernels.cases import ViewCase

COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")
}


@pytest.mark.parametrize("op", COMPARISONS)
@pytest.mark.parametrize("element", DTYPES, ids=str)
def test_every_kernel(kernels: Kernels, element: DType, op: str) -> None:
    a, b = operands(element)
    b[::7] = a[::7]
    x, y = (Tensor.from_numpy(kernels.device, array, element) for array in (a, b))
    holds = COMPARISONS[op](widened(a, element), widened(b, element))
    assert_ulps(compare(kernels, op, x, y), holds.astype(np.uint8), 0)


@pytest.mark.parametrize("view", [*VIEWS, *ROWS], ids=lambda v: v.name)
def test_views(kernels: Kernels, view: ViewCase) -> None:
    for element in some(DTYPES):
        (x, a), (y, b) = (view.make(kernels.device, element, seed) for seed in (1, 2))
        assert_ulps(compare(kernels, "lt", x, y), (widened(a, element) < widened(b, element)).astype(np.uint8), 0)
