"""Unary kernels against numpy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from codegen.device.ops.unary import unary
from codegen.kernels.dtypes import DTYPES
from kernels.cases import VIEWS
from kernels.compare import assert_ulps

if TYPE_CHECKING:
    from codegen.device.kernels import Kernels
    from codegen.kernels.dtypes import DType
    from kernels.cases import ViewCase


@pytest.mark.parametrize("view", VIEWS, ids=lambda v: v.name)
@pytest.mark.parametrize("element", DTYPES, ids=str)
def test_relu(kernels: Kernels, element: DType, view: ViewCase) -> None:
    x, array = view.make(kernels.device, element)
    assert_ulps(unary(kernels, "relu", x), np.where(array > 0, array, 0), 0)
