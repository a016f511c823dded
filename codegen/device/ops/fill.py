"""One value written to every element of a view."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from codegen.device.tensor import numpy_type

if TYPE_CHECKING:
    from codegen.device.kernels import Kernels
    from codegen.device.tensor import Tensor


def fill(kernels: Kernels, y: Tensor, value: float | np.generic) -> None:
    """Sets every element of a view, in place, to `value` as numpy converts it to y's type. Candle's `const_set`."""
    element = np.asarray(value).astype(numpy_type(y.dtype)).tobytes()
    kernels.run("fill", y=y, element=element)
