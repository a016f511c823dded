"""Elements added to those that indices name, in place.

An index that is the largest number of its type stands for no element and adds nothing. So does an index out of range,
which also sets `failed` (one u32) if it is given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from codegen.device.ops.ids import indices

if TYPE_CHECKING:
    from codegen.device.kernels import Kernels
    from codegen.device.tensor import Tensor


def scatter_add(
    kernels: Kernels,
    y: Tensor,
    ids: Tensor,
    x: Tensor,
    dim: int,
    failed: Tensor | None = None,
    form: str | None = None,
) -> None:
    """y[l, ids[l, i, r], r] += x[l, i, r], the indices having x's shape.

    Memory of y's 8-bit and 16-bit elements consists of whole 32-bit words. The sizes decide on the form, `columns`,
    `lds` or `atomic`, if none is given. Raises ValueError for views.
    """
    kernels.run("scatter_add", y=y, dim=dim, ids=indices(ids, failed), x=x, form=form)
