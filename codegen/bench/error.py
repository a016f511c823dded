"""How far a result is from PyTorch's."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codegen.bench.model import Row


def relative_error(torch: Any, row: Row, held: Sequence[Any], expected: Any, result: Any) -> float:
    """Of our result against PyTorch's, as 2-norms; 0 or infinity for whole numbers, infinity for another shape.

    `held` are the row's inputs. All are tensors of PyTorch's.
    """
    if row.seen:
        expected, result = (row.seen(torch, held, one) for one in (expected, result))
    if expected.shape != result.shape:
        return math.inf
    if not expected.is_floating_point():
        return 0.0 if torch.equal(expected.to(torch.int64), result.to(torch.int64)) else math.inf
    # Infinite sums are the same infinity on both sides.
    difference = torch.where(expected == result, 0.0, result.double() - expected.double())
    norm = torch.where(expected.isinf(), 0.0, expected.double()).norm()
    return float(difference.norm() / norm) if norm else float(difference.norm())
