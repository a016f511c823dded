"""What the planner answers where there is nothing to launch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from codegen.device.hip import Buffer
from codegen.device.planner import PlanFailed, PlanRefused
from codegen.device.tensor import Tensor
from codegen.kernels.dtypes import dtype
from codegen.kernels.layout import View

if TYPE_CHECKING:
    from codegen.device.kernels import Kernels


def floats(kernels: Kernels, *shape: int) -> Tensor:
    """A tensor at an address that nothing touches."""
    return Tensor(kernels.device, Buffer(1 << 40, 0), dtype("f32"), View.contiguous(shape))


def test_what_the_backend_refuses_is_refused(kernels: Kernels) -> None:
    x = floats(kernels, 2, 3)
    with pytest.raises(PlanRefused, match="there is no `median`"):
        kernels.plan("reduce", op="median", x=x, dims=[1], y=floats(kernels, 2))


def test_requests_are_checked(kernels: Kernels) -> None:
    with pytest.raises(PlanRefused, match="not a request: unknown variant `halve`"):
        kernels.plan("halve", x=floats(kernels, 2))


def test_a_panic_is_an_exception(kernels: Kernels) -> None:
    """And the planner serves the next request."""
    x, y = floats(kernels, 2, 3), floats(kernels, 2)
    with pytest.raises(PlanFailed, match="index is 7"):
        kernels.plan("reduce", op="sum", x=x, dims=[7], y=y)
    assert len(kernels.plan("reduce", op="sum", x=x, dims=[1], y=y)) == 1
