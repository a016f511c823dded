"""Rows multiplied with the matrices of experts that are chosen for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from codegen.device.ops.elementwise import made
from codegen.device.ops.ids import indices
from codegen.kernels.dtypes import dtype

if TYPE_CHECKING:
    from codegen.device.kernels import Kernels
    from codegen.device.ops.quantized import Blocks
    from codegen.device.tensor import Tensor


@dataclass(frozen=True, slots=True)
class Pairs:
    """A list of pairs of a row and an expert, on a device. Pairs are numbered in the order of their rows."""

    order: Tensor
    """The number of each pair of the list."""
    experts: Tensor
    """The expert of each pair of the list."""
    weights: Tensor | None
    """An f32 for each pair, by its number, that its results are multiplied with."""
    shared: int
    """Pairs that each row has, one after the other."""
    failed: Tensor | None = None
    """One u32 that becomes 1 if a number or an expert is out of range."""

    @property
    def planned(self) -> dict[str, object]:
        """As the planner takes it."""
        order, experts = (indices(ids, self.failed) for ids in (self.order, self.experts))
        return {"order": order, "experts": experts, "weights": self.weights, "shared": self.shared}


def experts_matmul(kernels: Kernels, x: Tensor, w: Tensor, pairs: Pairs, *, tiled: bool | None = None) -> Tensor:
    """y[p, n] = weight of p * sum over k of x[row of p, k] w[expert of p, n, k]; w is (experts, n, k), x (rows, k).

    All are contiguous and of one type: bf16, f16 or f32. `tiled` asks for the form with tiles, or the one without.
    """
    shape = (pairs.order.shape[0], w.shape[1])
    return made(kernels, "experts_matmul", shape, x.dtype, x=x, w=w, pairs=pairs.planned, tiled=tiled)


def quantized_pairs(
    kernels: Kernels, x: Tensor, w: Blocks, experts: int, pairs: Pairs, *, tiled: bool | None = None
) -> Tensor:
    """As `experts_matmul` for w (experts * n, k) of blocks and x of any float and strides, as f32."""
    shape = (pairs.order.shape[0], w.shape[0] // experts)
    operands = {"x": x, "w": w.planned, "experts": experts, "pairs": pairs.planned, "tiled": tiled}
    return made(kernels, "quantized_pairs", shape, dtype("f32"), **operands)
