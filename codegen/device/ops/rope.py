"""Rotary position embedding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codegen.device.ops.elementwise import made
from codegen.device.ops.ids import indices

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


def rope_append(
    kernels: Kernels,
    q: Tensor,
    kv: tuple[Tensor, Tensor],
    angles: tuple[Tensor, Tensor],
    places: Tensor,
    caches: tuple[Tensor, Tensor],
    failed: Tensor | None = None,
) -> Tensor:
    """`rope` of q (b, h, t, d), and in place that of k and v itself (b, g, t, d) in the rows of caches (b, g, n, d).

    The angles are (t, d / 2), and `places` (t) has the row of each position. Raises ValueError where half a row is no
    multiple of 16 bytes or does not lie at such a boundary.
    """
    (k, v), (cos, sin), (keys, values) = kv, angles, caches
    operands = {"q": q, "k": k, "v": v, "cos": cos, "sin": sin, "keys": keys, "values": values}
    return made(kernels, "rope_append", q.shape, q.dtype, places=indices(places, failed), **operands)
