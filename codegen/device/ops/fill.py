"""One value written to every element of a view."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from codegen.device.hip import Launch
from codegen.device.kernels import pointer
from codegen.device.tensor import numpy_type
from codegen.kernels.layout import launches, merged
from codegen.kernels.widths import widened

if TYPE_CHECKING:
    from codegen.device.kernels import Kernels
    from codegen.device.tensor import Tensor


def fill(kernels: Kernels, y: Tensor, value: float | np.generic) -> None:
    """Sets every element of a view, in place, to `value` as numpy converts it to y's type. Candle's `const_set`."""
    if y.view.count == 0:
        return
    target = widened(merged([y.view]), y.dtype.size, (y.start,))
    size = target.width.size
    bits = np.asarray(value).astype(numpy_type(y.dtype)).tobytes() * (size // y.dtype.size)
    block = kernels.numbers("fill")["block"]
    kernels.launch(
        "fill",
        (
            Launch(
                f"fill_{target.width}",
                (-(-piece.count * size // (16 * block)), 1, 1),
                (block, 1, 1),
                (pointer(target.addresses[0] + piece.offsets[0] * size), bits, piece.pack()),
            )
            for _, piece in launches(target.layout)
        ),
    )
