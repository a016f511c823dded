"""Indices as the planner takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from codegen.device.tensor import numpy_type

if TYPE_CHECKING:
    from codegen.device.tensor import Tensor


def indices(ids: Tensor, failed: Tensor | None) -> dict[str, object]:
    """Indices of which the largest number of their type stands for no element.

    `failed` is one u32 that becomes 1 if an index is out of range.
    """
    return {"tensor": ids, "none": int(np.iinfo(numpy_type(ids.dtype)).max), "failed": failed}
