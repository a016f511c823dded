"""Images brought to another size."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from codegen.device.kernels import f64
from codegen.device.ops.planes import Canvas, plan_planes, plane_reach
from codegen.device.tensor import Tensor
from codegen.kernels.dtypes import moved_as
from codegen.kernels.layout import MAX_COUNT

if TYPE_CHECKING:
    from codegen.device.kernels import Kernels


def upsample_nearest1d(kernels: Kernels, x: Tensor, length: int) -> Tensor:
    """(b, c, l) to (b, c, length), each element that of x at floor(i * l / length)."""
    return _nearest(kernels, x, (*x.shape[:2], length), 1, length)


def upsample_nearest2d(kernels: Kernels, x: Tensor, height: int, width: int) -> Tensor:
    """(b, c, h, w) to (b, c, height, width), each element that of x at floor(i * h / height), floor(j * w / width)."""
    return _nearest(kernels, x, (*x.shape[:2], height, width), height, width)


def upsample_bilinear2d(
    kernels: Kernels,
    x: Tensor,
    height: int,
    width: int,
    *,
    align_corners: bool = False,
    scale_factors: tuple[float | None, float | None] = (None, None),
) -> Tensor:
    """(b, c, h, w) to (b, c, height, width), interpolated.

    Either the corner pixels of x and the result coincide (`align_corners`), or their outer edges do. In the second
    case a scale factor, of rows and of columns, stands for the ratio of the sizes.
    """
    if x.shape[2:] == (height, width):
        return upsample_nearest2d(kernels, x, height, width)  # a copy: interpolating would spread infinities
    y = _result(x, (*x.shape[:2], height, width))
    scales = [
        _scale(own, target, factor, align_corners=align_corners)
        for own, target, factor in zip(x.shape[2:], (height, width), scale_factors, strict=True)
    ]
    resampling = struct.pack("<3d", *scales, 0.0 if align_corners else 0.5)
    numbers = kernels.numbers("upsample")
    canvas = _canvas(height, width, min(16 // x.dtype.size, numbers["bilinear_lanes"]))
    symbol = f"upsample_bilinear2d_{x.dtype}"
    kernels.launch("upsample", plan_planes(symbol, numbers, x, y, canvas, (resampling,)))
    return y


def _nearest(kernels: Kernels, x: Tensor, shape: tuple[int, ...], height: int, width: int) -> Tensor:
    y = _result(x, shape)
    source_height = x.shape[2] if len(x.shape) == 4 else 1
    scales = (f64(source_height / max(height, 1)), f64(x.shape[-1] / max(width, 1)))
    numbers = kernels.numbers("upsample")
    in_32_bits = plane_reach(x.view) <= MAX_COUNT  # as a thread of several pixels counts
    canvas = _canvas(height, width, min(16 // x.dtype.size, numbers["nearest_lanes"]) if in_32_bits else 1)
    symbol = f"upsample_nearest2d_{moved_as(x.dtype)}"
    kernels.launch("upsample", plan_planes(symbol, numbers, x, y, canvas, scales))
    return y


def _result(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    y = Tensor.empty(x.device, shape, x.dtype)
    if y.view.count and not x.view.count:
        raise ValueError(f"an image of {x.shape[2:]} has nothing to make {shape[2:]} of")
    return y


def _canvas(height: int, width: int, lanes: int) -> Canvas:
    return Canvas(height, width, lanes if width % lanes == 0 else 1)


def _scale(own: int, target: int, factor: float | None, *, align_corners: bool) -> float:
    """Source pixels for each of the result's, as `UpsampleBilinear2D` in candle-core/src/cpu_backend/mod.rs has it."""
    if align_corners:
        return (own - 1) / (target - 1) if target > 1 else 0.0
    return 1 / factor if factor is not None else own / max(target, 1)
