"""The places of each row's elements in sorted order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codegen.device.ops.elementwise import made
from codegen.kernels.dtypes import dtype

if TYPE_CHECKING:
    from codegen.device.kernels import Kernels
    from codegen.device.tensor import Tensor


def argsort(kernels: Kernels, x: Tensor, *, descending: bool = False) -> Tensor:
    """The u32 places that sort the last dimension of x; stable, and NaN counts as larger than every number.

    x is contiguous, of any rank but 0, with rows of fewer than 2^31 elements. Raises ValueError for a view.
    """
    return made(kernels, "argsort", x.shape, dtype("u32"), x=x, ascending=not descending)
