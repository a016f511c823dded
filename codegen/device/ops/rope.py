"""Rotary position embedding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codegen.device.ops.elementwise import made

if TYPE_CHECKING:
    from codegen.device.kernels import Kernels
    from codegen.device.tensor import Tensor


def rope(
    kernels: Kernels, x: Tensor, cos: Tensor, sin: Tensor, *, interleaved: bool = False, heads_inside: bool = False
) -> Tensor:
    """x (b, h, t, d), or (b, t, h, d) if `heads_inside`, rotated by the angles of (t, d / 2) or (b, t, d / 2).

    All tensors are contiguous and of one type. Pairs are neighbours if `interleaved`, else d / 2 apart.
    """
    forms = {"interleaved": interleaved, "heads_inside": heads_inside}
    return made(kernels, "rope", x.shape, x.dtype, x=x, cos=cos, sin=sin, **forms)
