"""Elements picked and placed by indices: index_select, gather, scatter.

An index that is the largest number of its type stands for no element: it reads as zero and writes nothing. So does an
index out of range, which also sets `failed` (one u32) if it is given. Raises ValueError for views, but of 1-D indices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from codegen.device.ops.elementwise import made
from codegen.device.ops.ids import indices

if TYPE_CHECKING:
    from codegen.device.kernels import Kernels
    from codegen.device.tensor import Tensor


def index_select(kernels: Kernels, x: Tensor, ids: Tensor, dim: int, failed: Tensor | None = None) -> Tensor:
    """A new tensor of x's shape with ids (1-D, any stride) in place of `dim`: y[l, i, r] = x[l, ids[i], r]."""
    shape = (*x.shape[:dim], ids.shape[0], *x.shape[dim + 1 :])
    return made(kernels, "index_select", shape, x.dtype, x=x, dim=dim, ids=indices(ids, failed))


def gather(kernels: Kernels, x: Tensor, ids: Tensor, dim: int, failed: Tensor | None = None) -> Tensor:
    """A new tensor of the indices' shape: y[l, i, r] = x[l, ids[l, i, r], r]."""
    return made(kernels, "gather", ids.shape, x.dtype, x=x, dim=dim, ids=indices(ids, failed))


def scatter(
    kernels: Kernels,
    y: Tensor,
    ids: Tensor,
    x: Tensor,
    dim: int,
    failed: Tensor | None = None,
    form: str | None = None,
) -> None:
    """y[l, ids[l, i, r], r] = x[l, i, r] in place; of several elements with one target the last stays.

    The sizes decide on the form, `columns` or `marked`, if none is given.
    """
    kernels.run("scatter", y=y, dim=dim, ids=indices(ids, failed), x=x, form=form)
