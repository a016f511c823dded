"""Rows added to those that indices name, in place.

An index that is the largest number of its type stands for no element and adds nothing. So does an index out of range,
which also sets `failed` (one u32) if it is given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from codegen.device.ops.ids import indices

if TYPE_CHECKING:
    from codegen.device.kernels import Kernels
    from codegen.device.tensor import Tensor


def index_add(
    kernels: Kernels,
    y: Tensor,
    ids: Tensor,
    x: Tensor,
    dim: int,
    failed: Tensor | None = None,
    form: str | None = None,
) -> None:
    """y[l, ids[i], r] += x[l, i, r], the indices (1-D) having x's size along `dim`.

    Rows too short for a wave are scatter_add's, with what it asks of y's memory. The sizes decide on the form,
    `elements` for those, `searched` or `sorted`, if none is given. Raises ValueError for views.
    """
    kernels.run("index_add", y=y, dim=dim, ids=indices(ids, failed), x=x, form=form)
