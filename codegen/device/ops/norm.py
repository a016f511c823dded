"""Normalisations along the last dimension."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codegen.device.hip import Launch
from codegen.device.kernels import f32, pointer
from codegen.device.ops.rows import Card, Holding, Rows, held_teams, streamed_teams
from codegen.device.tensor import Tensor

if TYPE_CHECKING:
    from codegen.device.kernels import Kernels


def rms_norm(kernels: Kernels, x: Tensor, alpha: Tensor | None, eps: float) -> Tensor:
    """x / sqrt(mean(x^2) + eps) * alpha along the last dimension; `alpha` is (last,), of x's type, None for ones.

    Raises ValueError for tensors that are not contiguous.
    """
    return _norm(kernels, "rms_norm", x, (alpha,), eps)


def layer_norm(kernels: Kernels, x: Tensor, alpha: Tensor | None, beta: Tensor | None, eps: float) -> Tensor:
    """(x - mean(x)) / sqrt(var(x) + eps) * alpha + beta along the last dimension; var is the biased variance.

    `alpha` and `beta` are (last,), of x's type, None for ones and zeros. Raises ValueError for tensors that are not
    contiguous.
    """
    return _norm(kernels, "layer_norm", x, (alpha, beta), eps)


def _norm(kernels: Kernels, op: str, x: Tensor, parameters: tuple[Tensor | None, ...], eps: float) -> Tensor:
    y = Tensor.empty(x.device, x.shape, x.dtype)
    rows = Rows.of([y, x], [tensor for tensor in parameters if tensor])
    if rows.count == 0:
        return y
    numbers, card = kernels.numbers("norm"), Card(x.device.wave_size, x.device.multiprocessors)
    holding = Holding.of(numbers, x.dtype)
    held = held_teams(rows, x.dtype, holding, card)
    teams = held or streamed_teams(rows, x.dtype, holding, card)
    addresses = (y.address, x.address, *(tensor.address if tensor else 0 for tensor in parameters))
    arguments = (*map(pointer, addresses), f32(eps), rows.pack(teams.width))
    symbol = f"{op}_{x.dtype}_{'held' if held else 'streamed'}"
    kernels.launch("norm", [Launch(symbol, teams.grid(rows.count), (teams.block, 1, 1), arguments)])
    return y
