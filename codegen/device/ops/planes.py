"""Launches of kernels built on `candle_rocm/planes.h`: threads keep their place in a plane and walk over planes."""

from __future__ import annotations

import struct

from codegen.kernels.layout import Divisor, View

MAX_GRID_Y = 65535
"""Blocks that HIP takes in the second and third dimension of a grid."""


def image_view(view: View) -> View:
    """A view (batch, channels, length) as images of one row; one of four dimensions as it is."""
    if len(view.shape) == 4:
        return view
    (batch, channels, length), (outer, channel, column) = view.shape, view.strides
    return View((batch, channels, 1, length), (outer, channel, 0, column), view.offset)


def divisor(size: int) -> bytes:
    """The bytes of `candle::Divisor`."""
    made = Divisor.of(size)
    return struct.pack("<3I", made.size, made.magic, made.shift)
