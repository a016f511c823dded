"""Matrices of GGML's quantized blocks: read as numbers, and multiplied."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from codegen.device.ops.elementwise import made
from codegen.device.ops.ids import indices
from codegen.kernels.dtypes import dtype

if TYPE_CHECKING:
    from codegen.device.kernels import Kernels
    from codegen.device.tensor import Tensor
    from codegen.kernels.dtypes import DType


@dataclass(frozen=True, slots=True)
class Blocks:
    """Rows of blocks on a device, one row after the other."""

    bytes: Tensor
    """All of them, as u8."""
    format: str
    """As specs/blocks.yaml names it."""
    shape: tuple[int, int]
    """Rows, and elements of each, which are whole blocks."""

    @property
    def planned(self) -> dict[str, object]:
        """As the planner takes it."""
        return {"bytes": self.bytes, "format": self.format, "shape": self.shape}


def dequantize(kernels: Kernels, x: Blocks, result: DType) -> Tensor:
    """The numbers that the blocks stand for, of x's shape, as f16 or f32."""
    return made(kernels, "dequantize", x.shape, result, x=x.planned)


def dequantize_rows(kernels: Kernels, x: Blocks, ids: Tensor, failed: Tensor | None = None) -> Tensor:
    """y[i, k] = element k of row ids[i] (1-D, any stride), as f32."""
    shape = (ids.shape[0], x.shape[1])
    return made(kernels, "dequantize_rows", shape, dtype("f32"), x=x.planned, ids=indices(ids, failed))


def quantized_matmul(kernels: Kernels, x: Tensor, w: Blocks) -> Tensor:
    """y[..., n] = sum over k of x[..., k] w[n, k], in the type of x (any strides)."""
    return made(kernels, "quantized_matmul", (*x.shape[:-1], w.shape[0]), x.dtype, x=x, w=w.planned)


def quantized_experts(
    kernels: Kernels, x: Tensor, w: Blocks, experts: int, ids: Tensor, failed: Tensor | None = None
) -> Tensor:
    """y[b, i, n] = sum over k of x[b, i or 0, k] w[ids[b, i], n, k], in the type of x; w is (experts * n, k)."""
    shape = (*ids.shape, w.shape[0] // experts)
    return made(
        kernels, "quantized_experts", shape, x.dtype, x=x, w=w.planned, experts=experts, ids=indices(ids, failed)
    )
